"""Functions of a body on NumPy arrays: those that NumPy has, and those that it lacks (erf, erfc,
gamma).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import numpy as np
import sympy

from einalg.language.conditions import isfinite, isinf, isnan
from einalg.language.conversion import CONVERSIONS, rounded
from einalg.language.index.remainder import Mod, Quotient

Array = np.ndarray[Any, Any]
ERF_STEPS = 64  # grid points of the table of erf in an interval of length 1
# Degrees of the Taylor polynomials: (1/128)**(degree + 1) is below the rounding.
ERF_DEGREES = {"float64": 7, "float32": 3}
ERF_LIMIT = 6.0  # erf is 1 in float64 from here on
LIMIT_OF_INT64 = 2**63
CACHED_ELEMENTS = 8192  # that stay in the cache through all steps


def erf(values: Any) -> Any:
    """Return the error function in the precision of its argument: Taylor polynomials about the
    nearest point of a grid.

    >>> float(erf(0.5)) == math.erf(0.5)
    True
    """
    values = as_float(values)
    result = np.empty(values.shape, values.dtype)
    flat, out = np.ravel(values), result.reshape(-1)
    for start in range(0, flat.size, CACHED_ELEMENTS):
        piece = slice(start, start + CACHED_ELEMENTS)
        out[piece] = _erf(flat[piece])
    return result


def _erf(values: Array) -> Array:
    degree = ERF_DEGREES.get(values.dtype.name, max(ERF_DEGREES.values()))
    size = np.minimum(np.abs(values), ERF_LIMIT)
    nearest = np.rint(np.nan_to_num(size) * ERF_STEPS).astype(np.intp)
    distance = size - (nearest / ERF_STEPS).astype(size.dtype)
    table = _erf_table()
    total = table[degree].take(nearest)
    for coefficients in reversed(table[:degree]):
        total = total * distance + coefficients.take(nearest)
    return np.copysign(total, values)


@cache
def _erf_table() -> list[Array]:
    """Return the Taylor coefficients of erf at the points of the grid, by degree: the derivatives
    are Hermite polynomials times exp(-x²).
    """
    x = np.arange(int(ERF_LIMIT * ERF_STEPS) + 1) / ERF_STEPS
    table = [np.array([math.erf(v) for v in x])]
    before, hermite = np.zeros_like(x), np.ones_like(x)
    factor = 2 / math.sqrt(math.pi) * np.exp(-x * x)
    for degree in range(1, max(ERF_DEGREES.values()) + 1):
        table.append((-1) ** (degree - 1) * factor * hermite / math.factorial(degree))
        before, hermite = hermite, 2 * x * hermite - 2 * (degree - 1) * before
    return table


def as_float(values: Any) -> Array:
    """Return the values as an array of floats; float32 stays what it is."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return array
    if array.dtype.kind == "O":
        return np.asarray(_nearest_floats(array), np.float64)
    return array.astype(np.float64)


def _nearest_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


_nearest_floats = np.frompyfunc(_nearest_float, 1, 1)


def as_number(values: Any) -> Any:
    """Return truth values as the integers 0 and 1, and an integer that int64 does not hold as an
    array of Python's; anything else as it is.
    """
    if isinstance(values, bool):
        return int(values)
    if isinstance(values, int) and not -LIMIT_OF_INT64 <= values < LIMIT_OF_INT64:
        return np.asarray(values, object)
    if isinstance(values, (np.ndarray, np.generic)) and values.dtype == np.bool_:
        return values.astype(np.int64)
    return values


def _pointwise(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """Apply a function of the standard library point by point; NaN where it is undefined."""

    def at(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):
            return math.nan

    mapped = np.frompyfunc(at, 1, 1)

    def apply(values: Any) -> Any:
        values = as_float(values)
        return np.asarray(mapped(values), dtype=values.dtype)

    return apply


def _whole(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Round floats, and leave integers as they are."""

    def apply(values: Any) -> Any:
        if isinstance(values, int) or np.asarray(values).dtype.kind in "iuO":
            return values
        return function(values)

    return apply


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *values: reduce(function, values)


def _sign(values: Any) -> Any:
    """Return -1, 0 or 1 after the sign; NaN is neither above nor below 0."""
    if np.asarray(values).dtype.kind == "O":
        return np.sign(values).astype(np.int64)
    return np.sign(np.where(np.isnan(values), 0, values))


def _remainder(dividend: Any, modulus: Any) -> Any:
    """Return the remainder with the sign of the modulus: of floats, exact as C's `fmod`."""
    dividend, modulus = np.asarray(dividend), np.asarray(modulus)
    if "O" in (dividend.dtype.kind, modulus.dtype.kind):
        return _divided(np.mod, dividend, modulus)
    if dividend.dtype.kind != "f" and modulus.dtype.kind != "f":
        return np.mod(dividend, modulus)
    rest = np.fmod(dividend, modulus)
    return np.where((rest != 0) & ((rest < 0) != (modulus < 0)), rest + modulus, rest)


def floor_quotient(dividend: Any, divisor: Any) -> Any:
    """Return the quotient, rounded down; of integers by 0, it is 0."""
    dividend, divisor = np.asarray(dividend), np.asarray(divisor)
    if "O" in (dividend.dtype.kind, divisor.dtype.kind):
        return _divided(np.floor_divide, dividend, divisor)
    return np.floor_divide(dividend, divisor)


def _divided(function: Callable[[Array, Array], Array], dividend: Array, divisor: Array) -> Array:
    """Return a function of Python's integers; by 0, it is 0 as that of NumPy's is."""
    is_zero = divisor == 0
    return np.where(is_zero, 0, function(dividend, np.where(is_zero, 1, divisor)))


def _converted(dtype: str) -> Callable[[Any], Any]:
    """Return the conversion to an element type."""
    return lambda values: rounded(as_float(values), dtype)


FUNCTIONS: dict[type, Callable[..., Any]] = {
    sympy.exp: np.exp,
    sympy.log: np.log,
    sympy.tanh: np.tanh,
    sympy.erf: erf,
    sympy.erfc: _pointwise(math.erfc),
    sympy.sin: np.sin,
    sympy.cos: np.cos,
    sympy.tan: np.tan,
    sympy.sinh: np.sinh,
    sympy.cosh: np.cosh,
    sympy.asin: np.arcsin,
    sympy.acos: np.arccos,
    sympy.atan: np.arctan,
    sympy.atan2: np.arctan2,
    sympy.asinh: np.arcsinh,
    sympy.acosh: np.arccosh,
    sympy.atanh: np.arctanh,
    sympy.gamma: _pointwise(math.gamma),
    sympy.loggamma: _pointwise(math.lgamma),
    sympy.Abs: np.abs,
    sympy.sign: _sign,
    sympy.Max: _folded(np.maximum),
    sympy.Min: _folded(np.minimum),
    sympy.floor: _whole(np.floor),
    sympy.ceiling: _whole(np.ceil),
    Mod: _remainder,
    Quotient: floor_quotient,
    isnan: np.isnan,
    isinf: np.isinf,
    isfinite: np.isfinite,
    **{conversion: _converted(dtype) for dtype, conversion in CONVERSIONS.items()},
}
OF_INTEGERS = (
    sympy.Abs,
    sympy.sign,
    sympy.Max,
    sympy.Min,
    sympy.floor,
    sympy.ceiling,
    Mod,
    Quotient,
)  # which are integers
COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    sympy.StrictLessThan: np.less,
    sympy.LessThan: np.less_equal,
    sympy.StrictGreaterThan: np.greater,
    sympy.GreaterThan: np.greater_equal,
    sympy.Eq: np.equal,
    sympy.Ne: np.not_equal,
}
LOGIC: dict[type, Callable[..., Any]] = {
    sympy.And: _folded(np.logical_and),
    sympy.Or: _folded(np.logical_or),
    sympy.Xor: _folded(np.logical_xor),
    sympy.Not: np.logical_not,
}
