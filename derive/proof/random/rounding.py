"""How far rounding moves the elements of an expression: evaluation with operands that are moved a little, at random (design §9).

Every operand of a sum, product or function is multiplied by a number beside 1, anew at every use, as rounding does. How far an element
moves is how well the expression determines it: where large numbers cancel, it moves with them, and by nothing where another element is large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import sympy

from einalg.language.index.remainder import Mod
from einalg.language.interpreters.numpy import FLOAT, Arithmetic, execute
from einalg.language.interpreters.numpy.arithmetic import Array, FloatArithmetic
from einalg.language.ir.scope import Scope

SHIFT = (
    2.0**-26
)  # of operands, relative: far from rounding, and small enough that an element moves in proportion
UNIT = 2.0**-53  # of rounding in double precision
MARGIN = (
    2.0**12
)  # many roundings, and a chance that the moves of one element are much smaller than others could be
TIMES = 4
STEPS = (sympy.floor, sympy.ceiling, Mod, sympy.sign)  # what is moved beside a step is no rounding


def in_double(scope: Scope, arrays: Mapping[str, Any], arithmetic: Arithmetic = FLOAT) -> Array:
    """The values of a scope of f64 tensors."""
    return next(iter(execute(scope, arrays, arithmetic=arithmetic).values())).astype(np.float64)


def rounding(scope: Scope, arrays: Mapping[str, Any]) -> Array:
    """A bound for the rounding of every element, in double precision; NaN or infinite where it has no value beside these arrays.

    >>> import einalg as ea
    >>> A = ea.tensor("A", (3,), "f64")
    >>> scope = ea.parse("O[i] = Piecewise((A[i] + 1, i < 1), (A[i] + 1e9, i < 2), (-1e9, True))", A=A)
    >>> [bool(bound < 1e-11) for bound in rounding(scope, {"A": np.ones(3)})]
    [True, False, True]
    """
    exact = in_double(scope, arrays)
    with np.errstate(invalid="ignore"):
        moves = (np.abs(in_double(scope, arrays, _Moved(seed)) - exact) for seed in range(TIMES))
        return MARGIN * UNIT / SHIFT * reduce(np.fmax, moves)


class _Moved(FloatArithmetic):
    """Arithmetic on floats that are moved before they are used; integers and what is compared stay."""

    def __init__(self, seed: int):
        self._rng = np.random.default_rng(seed)

    def _moved(self, values: Any) -> Any:
        array = np.asarray(values)
        return (
            array * (1 + SHIFT * self._rng.uniform(-1, 1, array.shape))
            if array.dtype.kind == "f"
            else values
        )

    def add(self, values: Sequence[Any]) -> Any:
        return super().add([self._moved(v) for v in values])

    def multiply(self, values: Sequence[Any]) -> Any:
        return super().multiply([self._moved(v) for v in values])

    def divide(self, numerator: Any, denominator: Any) -> Any:
        return super().divide(self._moved(numerator), self._moved(denominator))

    def power(self, base: Any, exponent: Any) -> Any:
        return super().power(self._moved(base), exponent)

    def function(self, function: type, values: Sequence[Any]) -> Any:
        if function in STEPS:
            return super().function(function, values)
        first, *others = values
        moved = (
            others if function is sympy.Pow else [self._moved(v) for v in others]
        )  # a negative number has powers of integers only
        return super().function(function, [self._moved(first), *moved])

    def reduce(self, op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
        return super().reduce(op, self._moved(values), axes, mask)

    def combine(self, op: str, left: Any, right: Any) -> Any:
        return super().combine(op, self._moved(left), self._moved(right))

    def matmul(self, left: Array, right: Array) -> Array:
        return super().matmul(self._moved(left), self._moved(right))
