"""Interval arithmetic: bounds hold all results, and some results reach them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import inf, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einalg.language.analysis.ranges.interval_arithmetic import (
    Interval,
    maximum_interval,
    minimum_interval,
    power_interval,
    product_interval,
    sum_interval,
)

ENDS = st.integers(-4, 4)
INTERVALS = st.tuples(ENDS, ENDS).map(lambda ends: (min(ends), max(ends)))
OPERATIONS: list[tuple[Callable[[Sequence[Interval]], Interval], Callable[..., int]]] = [
    (sum_interval, sum),
    (product_interval, prod),
    (maximum_interval, max),
    (minimum_interval, min),
]


def numbers(part: Interval) -> range:
    return range(int(part[0]), int(part[1]) + 1)


@pytest.mark.parametrize(("bounds_of", "operation"), OPERATIONS)
@given(st.lists(INTERVALS, min_size=1, max_size=3))
def test_bounds_are_the_least_and_the_largest_result(
    bounds_of: Callable[[Sequence[Interval]], Interval],
    operation: Callable[..., int],
    parts: list[Interval],
) -> None:
    results = [operation(values) for values in product(*map(numbers, parts))]
    assert bounds_of(parts) == (min(results), max(results))


@given(INTERVALS, st.integers(1, 4))
def test_bounds_of_a_power_are_the_least_and_the_largest_result(
    base: Interval, exponent: int
) -> None:
    results = [number**exponent for number in numbers(base)]
    assert power_interval(base, exponent) == (min(results), max(results))


def test_bounds_of_what_has_no_bounds() -> None:
    assert product_interval([(0, 2), (-inf, 5)]) == (-inf, 10)
    assert power_interval((-inf, 2), 2) == (0, inf)
    assert sum_interval([(1, inf), (-inf, 1)]) == (-inf, inf)


def test_products_of_many_factors_take_no_long_time() -> None:
    assert product_interval([(-2, 1)] * 100) == (-(2**99), 2**100)
