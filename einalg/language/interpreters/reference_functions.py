"""Functions of the reference evaluator: exact on integers and fractions; of floats as IEEE
arithmetic has them (design §2).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import sympy

from einalg.language.conditions import isfinite, isinf, isnan
from einalg.language.conversion import CONVERSIONS, HALVES, rounded
from einalg.language.index.remainder import Mod, Quotient

WHOLE_FLOATS = 2.0**53  # from which on floats have no fraction


def _sum(*values: Any) -> Any:
    return sum(values)


def _product(*values: Any) -> Any:
    return math.prod(values)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    """Return a maximum or minimum that is NaN where some value is, whatever its place."""

    def extreme(*values: Any) -> Any:
        for value in values:
            if value != value:
                return value
        return choose(values)

    return extreme


_largest, _smallest = _extreme(max), _extreme(min)


def _power(base: Any, exponent: Any) -> Any:
    """Return a power, exact where the base is exact and the exponent is whole."""
    if isinstance(base, float) or not isinstance(exponent, int):
        return math.pow(base, exponent)
    if exponent < 0:
        return Fraction(base) ** exponent
    return base**exponent


def _whole(function: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Round floats with a fraction; what is larger, infinite or NaN stays."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float) and not abs(value) < WHOLE_FLOATS:
            return value
        return function(value)

    return rounded


def _remainder(dividend: Any, modulus: Any) -> Any:
    """Return a remainder with the sign of the modulus; NaN of floats where there is none."""
    if not isinstance(dividend, float) and not isinstance(modulus, float):
        return operator.mod(dividend, modulus)
    try:
        rest = math.fmod(dividend, modulus)
    except ValueError:  # of an infinite dividend, or modulo 0
        return math.nan
    if rest and (rest < 0) != (modulus < 0):
        return rest + modulus
    return rest


def _quotient(dividend: Any, divisor: Any) -> Any:
    """Return the exact quotient rounded down; of floats a float, as IEEE arithmetic has it by 0."""
    if not isinstance(dividend, float) and not isinstance(divisor, float):
        return operator.floordiv(dividend, divisor)
    dividend, divisor = float(dividend), float(divisor)
    if math.isnan(divisor) or not math.isfinite(dividend) or (not dividend and not divisor):
        return math.nan
    if not divisor:
        return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)
    if math.isinf(divisor):  # no number holds it; one of the other sign is below 0 times of it
        return float(-(dividend * divisor < 0))
    return float(Fraction(dividend) // Fraction(divisor))


def _rounded(dtype: str, value: Any) -> Any:
    """Return a number in an element type, exact where it is exact and finite."""
    nearest = float(rounded(float(value), dtype))
    if isinstance(value, float) or not math.isfinite(nearest):
        return nearest
    if dtype not in HALVES:
        return value
    return Fraction(nearest)


FUNCTIONS: dict[type, Callable[..., Any]] = {
    sympy.Add: _sum,
    sympy.Mul: _product,
    sympy.Pow: _power,
    sympy.Abs: abs,
    sympy.sign: lambda v: (v > 0) - (v < 0),
    sympy.Max: _largest,
    sympy.Min: _smallest,
    sympy.floor: _whole(math.floor),
    sympy.ceiling: _whole(math.ceil),
    sympy.loggamma: math.lgamma,
    Mod: _remainder,
    Quotient: _quotient,
    isnan: lambda v: v != v,
    isinf: lambda v: v == v and abs(v) == math.inf,
    isfinite: lambda v: v == v and abs(v) != math.inf,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.StrictLessThan: operator.lt,
    sympy.LessThan: operator.le,
    sympy.StrictGreaterThan: operator.gt,
    sympy.GreaterThan: operator.ge,
    sympy.Not: operator.not_,
    sympy.And: lambda *v: all(v),
    sympy.Or: lambda *v: any(v),
    sympy.Xor: lambda a, b: bool(a) != bool(b),
}
# Functions that SymPy and the standard library call the same.
SAME_NAME = """
    exp log erf erfc gamma sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh
"""
FUNCTIONS.update((kind, partial(_rounded, name)) for name, kind in CONVERSIONS.items())
FUNCTIONS.update((getattr(sympy, name), getattr(math, name)) for name in SAME_NAME.split())
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "Sum": operator.add,
    "Prod": operator.mul,
    "Max": _largest,
    "Min": _smallest,
}


def with_fraction_last(body: sympy.Mul) -> tuple[Callable[..., Any], Sequence[Any]]:
    """Return a product of floats as a function of factors, a fraction among them as a division of
    the others: it is no float, and thirds of what holds three are whole.
    """
    fraction: Any = body.args[0]
    others = body.args[1:]
    if not fraction.is_Rational or fraction.is_Integer or not fraction.is_finite:
        return _product, body.args
    numerator, divisor = int(fraction.p), int(fraction.q)
    return lambda *values: _product(*values, numerator) / divisor, others
