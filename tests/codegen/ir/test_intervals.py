"""Bounds of values: nothing that a function of integers gives lies outside."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from codegen.ir.scalars.intervals import RANGES

ENDS = (-3, -1, 0, 1, 2, 5)
INTERVALS = [(low, high) for low, high in product(ENDS, repeat=2) if low <= high]


def quotient(a: int, b: int) -> int:
    if b == 0:
        return 0
    return a // b


def remainder(a: int, b: int) -> int:
    if b == 0:
        return 0
    return a % b


FUNCTIONS: dict[str, tuple[int, Callable[..., int]]] = {  # with how many operands they have
    "add": (2, lambda a, b: a + b),
    "mul": (2, lambda a, b: a * b),
    "neg": (1, lambda a: -a),
    "max": (2, max),
    "min": (2, min),
    "abs": (1, abs),
    "sign": (1, lambda a: (a > 0) - (a < 0)),
    "cast": (1, lambda a: a),
    "quotient": (2, quotient),
    "mod": (2, remainder),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_hold_all_results(name: str) -> None:
    count, function = FUNCTIONS[name]
    for operands in product(INTERVALS, repeat=count):
        low, high = RANGES[name](operands)
        for values in product(*(range(a, b + 1) for a, b in operands)):
            assert low <= function(*values) <= high, (operands, values)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3])
def test_bounds_hold_all_powers(exponent: int) -> None:
    for base in INTERVALS:
        low, high = RANGES["ipow"]([base, (exponent, exponent)])
        assert all(low <= n**exponent <= high for n in range(base[0], base[1] + 1))


def test_bounds_hold_either_choice() -> None:
    for operands in product(INTERVALS, repeat=2):
        low, high = RANGES["select"](operands)
        assert low == min(operands)[0] and high == max(high for _, high in operands)
