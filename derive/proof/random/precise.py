"""Evaluation with 320 bits: what double precision takes for equal (design §9).

`1.000000000001*exp(x)` and `exp(x)`, or 3.141592653589793 and pi, agree to as many digits as a test
in double precision must forgive. Here numbers are what they are to forty digits, at a few points.
As there, operands are moved a little to see what rounding could do; a point at which a small move
changes much says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import mpmath
import numpy as np
import sympy
from mpmath.libmp.libhyper import NoConvergence

from derive.proof.random.rounding import STEP_FUNCTIONS
from einalg.errors import NotationError
from einalg.language.conditions import isfinite, isinf, isnan
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.interpreters.exact_values import UNDEFINED
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.numpy.functions import COMPARISONS, as_number
from einalg.language.ir.scope import Scope

BITS = 320
SHIFT_BITS = 200  # operands are moved by this power of 1/2
MARGIN_BITS = 12  # many roundings, and the chance that the moves of one element are all small
STEADY_BITS = 40  # by at most this power of 1/2 may moves change an element
EQUAL_BITS = 140  # what is nearer than this power of 1/2 is equal, without a look at rounding
EVALUATIONS = 2
MAX_MAGNITUDE = 4096  # bits before the point of what a function is taken of: as many are computed
Array = np.ndarray[Any, Any]
CONTEXT = mpmath.MPContext()
CONTEXT.prec = BITS
NAN, INFINITY = CONTEXT.mpf("nan"), CONTEXT.mpf("inf")
ZERO, ONE = CONTEXT.mpf(0), CONTEXT.mpf(1)
IDENTITY = {"Sum": ZERO, "Prod": ONE, "Max": -INFINITY, "Min": INFINITY}


class _TooLargeNumber(Exception):
    """A function of a number with too many digits, as of a tower of exponentials."""


def unequal_precisely(scopes: Sequence[Scope], arrays: Mapping[str, Any]) -> Array:
    """Return where two scopes differ by more than rounding with `BITS` bits; nowhere if values
    become too large.
    """
    try:
        return _unequal(scopes, arrays)
    except _TooLargeNumber:
        return np.zeros(scopes[0].shape, bool)


def _unequal(scopes: Sequence[Scope], arrays: Mapping[str, Any]) -> Array:
    one, two = [_values(scope, arrays, MultiprecisionArithmetic()) for scope in scopes]
    distance, size = _distance_and_size(one, two)
    far = np.greater(distance, size * CONTEXT.ldexp(1, -EQUAL_BITS)).astype(bool)
    if not far.any():
        return far
    move: Any = ZERO
    for seed in range(EVALUATIONS):
        for scope, exact in zip(scopes, (one, two)):
            moved = _values(scope, arrays, PerturbedMultiprecision(seed))
            move = np.maximum(move, _distance_and_size(moved, exact)[0])
    rounding = move * CONTEXT.ldexp(1, MARGIN_BITS + SHIFT_BITS - BITS)
    steady = np.less(move, size * CONTEXT.ldexp(1, -STEADY_BITS)).astype(bool)
    return far & steady & np.greater(distance, rounding).astype(bool)


def _values(scope: Scope, arrays: Mapping[str, Any], arithmetic: Any) -> Array:
    (values,) = execute(scope, arrays, arithmetic=arithmetic).values()
    return np.asarray(_as_number(values), object)


def _distance_and_size(one: Array, two: Array) -> tuple[Array, Array]:
    """Return how far values are from each other, and how large they are; 0 and 1 where one is
    infinite or none.
    """
    finite = _is_finite(one) & _is_finite(two)
    one, two = np.where(finite, one, ZERO), np.where(finite, two, ZERO)
    size = np.maximum(_absolute(one), _absolute(two))
    return _absolute(one - two), np.where(finite, size, ONE)


def _real(function: Callable[..., Any], inputs: int = 1) -> Callable[..., Array]:
    """Return a function of arrays, NaN where it has no real value."""

    def at(*values: Any) -> Any:
        try:
            result = function(*values)
        except (ValueError, ArithmeticError, NoConvergence):
            return NAN
        return NAN if isinstance(result, CONTEXT.mpc) else result

    mapped = np.frompyfunc(at, inputs, 1)
    return lambda *values: np.asarray(mapped(*values), object)


def _of_bounded(function: Callable[..., Any], inputs: int = 1) -> Callable[..., Array]:
    """Return a function of arrays whose cost grows with the digits of what it is taken of."""

    def at(*values: Any) -> Any:
        for value in values:
            if CONTEXT.isfinite(value) and CONTEXT.mag(value) > MAX_MAGNITUDE:
                raise _TooLargeNumber
        return function(*values)

    return _real(at, inputs)


def _sign(value: Any) -> Any:
    return value if CONTEXT.isnan(value) else ONE * ((value > 0) - (value < 0))


def _remainder(value: Any, divisor: Any) -> Any:
    return value - divisor * CONTEXT.floor(value / divisor)


_as_number = np.frompyfunc(CONTEXT.mpf, 1, 1)
_is_finite = np.frompyfunc(lambda value: bool(CONTEXT.isfinite(value)), 1, 1)
_is_nan = np.frompyfunc(lambda value: bool(CONTEXT.isnan(value)), 1, 1)
_is_infinite = np.frompyfunc(lambda value: bool(CONTEXT.isinf(value)), 1, 1)
_absolute = np.frompyfunc(abs, 1, 1)
_quotient = _real(lambda above, below: above / below, 2)
_power = _of_bounded(CONTEXT.power, 2)
FUNCTIONS: dict[type, Callable[..., Any]] = {
    sympy.Abs: _real(abs),
    sympy.sign: _real(_sign),
    sympy.floor: _real(CONTEXT.floor),
    sympy.ceiling: _real(CONTEXT.ceil),
    sympy.atan2: _real(CONTEXT.atan2, 2),
    Mod: _real(_remainder, 2),
    Quotient: _real(lambda value, divisor: CONTEXT.floor(value / divisor), 2),
    isnan: lambda values: np.asarray(_is_nan(values), bool),
    isinf: lambda values: np.asarray(_is_infinite(values), bool),
    isfinite: lambda values: np.asarray(_is_finite(values), bool),
    sympy.Pow: _power,
    sympy.Max: lambda *values: reduce(np.maximum, values),
    sympy.Min: lambda *values: reduce(np.minimum, values),
}
SAME_NAME = (  # in SymPy and mpmath
    *("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "loggamma"),
)
for _name in SAME_NAME:
    FUNCTIONS[getattr(sympy, _name)] = _of_bounded(getattr(CONTEXT, _name))


class MultiprecisionArithmetic:
    """Numbers of `BITS` bits in arrays of objects; index arithmetic stays integers."""

    def load(self, arrays: Mapping[str, Array], dtypes: Mapping[str, str]) -> dict[str, Array]:
        loaded = {}
        for name, array in arrays.items():
            loaded[name] = array
            if array.dtype != bool:
                loaded[name] = np.asarray(_as_number(array.astype(object)), object)
        return loaded

    def stored(self, values: Array) -> Array:
        return values

    def finish(self, values: Array, dtype: str, exact: bool) -> Array:
        return values

    def number(self, value: Any) -> Any:
        if value is sympy.true or value is sympy.false:
            return bool(value)
        return np.asarray(self._number(value), object)  # NumPy asks for its type

    def _number(self, value: Any) -> Any:
        if value.is_Rational:
            return CONTEXT.mpf(int(value.p)) / int(value.q)
        if value.is_Float:
            exact = Fraction(float(value))
            return CONTEXT.mpf(exact.numerator) / exact.denominator
        if value in (sympy.oo, -sympy.oo):
            return INFINITY if value is sympy.oo else -INFINITY
        if value in UNDEFINED:
            return NAN
        return CONTEXT.make_mpf(value._to_mpmath(BITS)._mpf_)

    def index(self, values: Any) -> Any:
        return _object(values)

    def add(self, values: Sequence[Any]) -> Any:
        return reduce(np.add, self._operands(values))

    def multiply(self, values: Sequence[Any]) -> Any:
        return reduce(np.multiply, self._operands(values))

    def divide(self, numerator: Any, denominator: Any) -> Any:
        return _quotient(*self._operands([numerator, denominator]))

    def power(self, base: Any, exponent: Any) -> Any:
        if isinstance(exponent, sympy.Rational):
            exponent = self._number(exponent)
        return _power(*self._operands([base]), _object(exponent))

    def function(self, function: type, values: Sequence[Any]) -> Any:
        if function not in FUNCTIONS:
            raise NotationError(
                f"there is no {function.__name__} of many digits\n"
                "  write it with functions of the notation: exp, log, erf, …"
            )
        if function in STEP_FUNCTIONS:
            return FUNCTIONS[function](*map(_object, values))
        if function is sympy.Pow:
            return _power(*self._operands(values[:1]), _object(values[1]))
        return FUNCTIONS[function](*self._operands(values))

    def _operands(self, values: Sequence[Any]) -> list[Any]:
        return list(map(_object, values))

    def compare(self, relation: type, left: Any, right: Any) -> Any:
        return np.asarray(COMPARISONS[relation](_object(left), _object(right))).astype(bool)

    def select(self, condition: Any, value: Any, otherwise: Any) -> Any:
        return np.where(condition, value, otherwise)

    def reduce(self, op: str, values: Array, axes: tuple[int, ...], mask: Array | None) -> Array:
        values = self._operands([values])[0]
        if mask is not None:
            values = np.where(mask, values, IDENTITY[op])
        take = {"Sum": np.add, "Prod": np.multiply, "Max": np.maximum, "Min": np.minimum}[op]
        return take.reduce(values, axis=axes, initial=IDENTITY[op])

    def combine(self, op: str, left: Any, right: Any) -> Any:
        take = {"Sum": np.add, "Prod": np.multiply, "Max": np.maximum, "Min": np.minimum}[op]
        return take(*self._operands([left, right]))

    def reduced(self, op: str, value: Any) -> Any:
        return value

    def matmul(self, left: Array, right: Array) -> Array:
        return np.matmul(*self._operands([left, right]))

    def finite(self, values: Any) -> bool:
        return bool(np.all(_is_finite(_object(values))))


class PerturbedMultiprecision(MultiprecisionArithmetic):
    """Operands that are numbers of many digits are moved before they are used; integers and what is
    compared stay.
    """

    def __init__(self, seed: int):
        self._rng = random.Random(seed)
        self._moved = np.frompyfunc(self._move, 1, 1)

    def _move(self, value: Any) -> Any:
        if not isinstance(value, CONTEXT.mpf):
            return value
        return value * (1 + CONTEXT.ldexp(self._rng.uniform(-1, 1), -SHIFT_BITS))

    def _operands(self, values: Sequence[Any]) -> list[Any]:
        return [np.asarray(self._moved(_object(value)), object) for value in values]


def _object(values: Any) -> Any:
    """Return numbers as an array of objects, truth values as 0 and 1."""
    return np.asarray(as_number(values)).astype(object)
