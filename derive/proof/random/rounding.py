"""How far rounding moves the elements of an expression: evaluation with operands that are moved a
little, at random (design §9).

Every operand of a sum, product or function is multiplied by a number near 1, anew at every use, as
rounding does. How far an element moves is how well the expression determines it: where large
numbers cancel, it moves with them, and by nothing where another element is large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import sympy

from derive.proof.random.operations import fills
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.interpreters.numpy import FLOAT, Arithmetic, execute
from einalg.language.interpreters.numpy.arithmetic import Array, FloatArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Constant

SHIFT = 2.0**-26  # of operands, relative: far above rounding, and small, so that moves are linear
UNIT_ROUNDOFF = 2.0**-53  # of double precision
MARGIN = 2.0**12  # many roundings, and the chance that the moves of one element are all small
EVALUATIONS = 4
TOLERANCE = 1e-11  # of functions in double precision, relative to an element, beside its rounding
FUNCTIONS_WITH_POLES = (sympy.log, sympy.atanh, sympy.tan, sympy.gamma, sympy.loggamma, sympy.Pow)
MONOTONE = (sympy.Add, sympy.Mul, sympy.Max, sympy.Min)
# A move over a step is no rounding.
STEP_FUNCTIONS = (sympy.floor, sympy.ceiling, Mod, Quotient, sympy.sign)


def unequal_in_double(
    scopes: Sequence[Scope], arrays: Mapping[str, Any], domains: bool = True
) -> Array:
    """Return where two scopes differ by more than a small part of the element itself, and by more
    than they are rounded there; and, with `domains`, where one of them alone has a value. Arrays
    that lie at poles by intent, such as zeros, tell nothing about domains, and nothing at poles.

    Nothing where numbers became too large for double precision; where some became 0, no 0 counts.
    """
    one, two = [in_double(scope, arrays) for scope in scopes]
    other_domain = (np.isfinite(one) != np.isfinite(two)) & domains
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(one - two)
        larger = np.maximum(np.abs(one), np.abs(two))
        far = np.isfinite(one) & np.isfinite(two) & (distance > TOLERANCE * larger)
        if far.any():
            far &= distance > sum(rounding(scope, arrays) for scope in scopes)
    opposite = np.isinf(one) & np.isinf(two) & (one != two)
    if not (far | other_domain | opposite).any():
        return far
    watched = [_watched(scope, arrays) for scope in scopes]
    if any(arithmetic.overflows for arithmetic in watched):
        return np.zeros_like(far)
    meets_pole = any(arithmetic.meets_pole for arithmetic in watched)
    if meets_pole and not domains:
        return np.zeros_like(far)
    if not meets_pole:
        far |= opposite
    if any(arithmetic.underflows for arithmetic in watched):
        return far & (one != 0) & (two != 0)
    return far | other_domain


def _watched(scope: Scope, arrays: Mapping[str, Any]) -> _WatchingArithmetic:
    """Return an arithmetic that has seen whether numbers leave the range of double precision."""
    arithmetic = _WatchingArithmetic()
    in_double(scope, arrays, arithmetic)
    return arithmetic


def in_double(scope: Scope, arrays: Mapping[str, Any], arithmetic: Arithmetic = FLOAT) -> Array:
    """Return the values of a scope of f64 tensors."""
    return next(iter(execute(scope, arrays, arithmetic=arithmetic).values())).astype(np.float64)


def rounding(scope: Scope, arrays: Mapping[str, Any]) -> Array:
    """Return a bound for the rounding of every element, in double precision; NaN or infinite where
    it has no value near these arrays.

    >>> import einalg as ea
    >>> A = ea.tensor("A", (3,), "f64")
    >>> text = "O[i] = Piecewise((A[i] + 1, i < 1), (A[i] + 1e9, i < 2), (-1e9, True))"
    >>> [bool(bound < 1e-11) for bound in rounding(ea.parse(text, A=A), {"A": np.ones(3)})]
    [True, False, True]
    """
    with np.errstate(invalid="ignore"):
        return MARGIN * UNIT_ROUNDOFF / SHIFT * reduce(np.fmax, _moves(scope, arrays))


def _moves(scope: Scope, arrays: Mapping[str, Any]) -> Iterator[Array]:
    """Yield how far the elements move in each of some evaluations."""
    exact = in_double(scope, arrays)
    for seed in range(EVALUATIONS):
        yield np.abs(in_double(scope, arrays, _PerturbedArithmetic(seed)) - exact)


class _PerturbedArithmetic(FloatArithmetic):
    """Arithmetic on floats that are moved before they are used; integers and what is compared
    stay.
    """

    def __init__(self, seed: int):
        self._rng = np.random.default_rng(seed)

    def _moved(self, values: Any) -> Any:
        array = np.asarray(values)
        if array.dtype.kind != "f":
            return values
        return array * (1 + SHIFT * self._rng.uniform(-1, 1, array.shape))

    def _all_moved(self, values: Sequence[Any]) -> list[Any]:
        return [self._moved(value) for value in values]

    def add(self, values: Sequence[Any]) -> Any:
        return super().add(self._all_moved(values))

    def multiply(self, values: Sequence[Any]) -> Any:
        return super().multiply(self._all_moved(values))

    def divide(self, numerator: Any, denominator: Any) -> Any:
        return super().divide(self._moved(numerator), self._moved(denominator))

    def power(self, base: Any, exponent: Any) -> Any:
        return super().power(self._moved(base), exponent)

    def function(self, function: type, values: Sequence[Any]) -> Any:
        if function in STEP_FUNCTIONS:
            return super().function(function, values)
        first, *others = values
        if function is not sympy.Pow:  # a negative number has powers of integers only
            others = self._all_moved(others)
        return super().function(function, [self._moved(first), *others])

    def reduce(self, op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
        return super().reduce(op, self._moved(values), axes, mask)

    def combine(self, op: str, left: Any, right: Any) -> Any:
        return super().combine(op, self._moved(left), self._moved(right))

    def matmul(self, left: Array, right: Array) -> Array:
        return super().matmul(self._moved(left), self._moved(right))


class _WatchingArithmetic(FloatArithmetic):
    """Arithmetic on floats that notes whether an infinity comes from numbers, not from a division
    by 0 or the like (a pole), and whether a 0 comes from what is none.
    """

    def __init__(self) -> None:
        self.overflows = self.underflows = self.meets_pole = False

    def _noted_pole(self, result: Any, operands: Sequence[Any]) -> Any:
        if not np.isfinite(result).all() and all(np.isfinite(x).all() for x in operands):
            self.meets_pole = True
        return result

    def divide(self, numerator: Any, denominator: Any) -> Any:
        return self._noted_pole(super().divide(numerator, denominator), [numerator, denominator])

    def _noted(self, result: Any, operands: Sequence[Any], may_vanish: bool = True) -> Any:
        """Note what comes, element by element, from numbers: exp(-oo) is 0 without underflow."""
        finite = reduce(np.logical_and, map(np.isfinite, operands))
        if (np.isinf(result) & finite).any():
            self.overflows = True
        if not may_vanish:
            nonzero = reduce(np.logical_and, [np.not_equal(x, 0) for x in operands])
            if (np.equal(result, 0) & finite & nonzero).any():
                self.underflows = True
        return result

    def _noted_sum(self, result: Any, operands: Sequence[Any]) -> Any:
        if np.isinf(result).any() and not any(np.isinf(operand).any() for operand in operands):
            self.overflows = True
        return result

    def add(self, values: Sequence[Any]) -> Any:
        return self._noted(super().add(values), values)

    def multiply(self, values: Sequence[Any]) -> Any:
        return self._noted(super().multiply(values), values, may_vanish=False)

    def power(self, base: Any, exponent: Any) -> Any:
        result = super().power(base, exponent)
        if np.equal(base, 0).any():
            return self._noted_pole(result, [base])
        return self._noted(result, [base])

    def function(self, function: type, values: Sequence[Any]) -> Any:
        result = super().function(function, values)
        if function in FUNCTIONS_WITH_POLES:
            return self._noted_pole(result, values)
        if function in (sympy.exp, sympy.erfc):
            return self._noted(result, values, may_vanish=False)
        return self._noted(result, values)

    def reduce(self, op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
        result = super().reduce(op, values, axes, mask)
        return result if op in ("Max", "Min") else self._noted_sum(result, [values])

    def matmul(self, left: Array, right: Array) -> Array:
        return self._noted_sum(super().matmul(left, right), [left, right])


def has_no_cancellation(scope: Scope) -> bool:
    """Return whether an expression and all that it reads are sums, products, maxima and minima of
    elements and of numbers that are not negative: at positive elements it is computed to many
    digits.

    >>> import einalg as ea
    >>> a, b = [ea.parse(text, A=(3,)) for text in ("O[i] = 2*Max(A[i], 0)", "O[i] = A[i] - 1")]
    >>> has_no_cancellation(a), has_no_cancellation(b)
    (True, False)
    """
    return all(_cancels_nothing(node.body) for node in all_scopes(scope))


def _cancels_nothing(body: Any) -> bool:
    if isinstance(body, IndexArithmetic):
        return False
    if isinstance(body, Access):
        if isinstance(body.tensor, Constant):
            return False
        return all(fill >= 0 for fill in fills(body.base))
    if isinstance(body, Reduce):
        return _cancels_nothing(body.body)
    if body.is_Number:
        return bool(body >= 0)
    if isinstance(body, sympy.Pow):
        return bool(body.exp.is_Integer and body.exp >= 0) and _cancels_nothing(body.base)
    return isinstance(body, MONOTONE) and all(map(_cancels_nothing, body.args))
