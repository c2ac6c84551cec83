"""Constants in C, exactly."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isfinite, isnan
from typing import Any

from codegen.ir.types import WEAK, WIDE
from einalg.errors import CodegenError
from einalg.language.ir.dtypes import bounds

LIMITS = {dtype: bounds(dtype) for dtype in ("i32", "i64", "u32", "u64", WIDE)}
NAMED_LIMITS = {-(2**31): "INT32_MIN", -(2**63): "INT64_MIN"}  # which C has no literals for


def literal(value: Any, dtype: str) -> str:
    """Return a constant in C, exactly.

    >>> literal(0.1, "f32"), literal(float("-inf"), "f64")
    ('0.1f', '-INFINITY')
    >>> literal(float("-inf"), "i32"), literal(float("-inf"), "bool")
    ('INT32_MIN', 'false')
    >>> literal(-(2**70), "i128")
    '(-64*((__int128)1 << 64) + 0ULL)'
    """
    if dtype == "bool":
        return _truth(value)
    if dtype in LIMITS or dtype == WEAK:
        return _integer(value, dtype)
    suffix = ""
    if dtype == "f32":
        suffix = "f"
    if not isinstance(value, Fraction) or value.denominator.bit_count() == 1:
        return _floating(value, suffix)
    try:
        numerator, denominator = float(value.numerator), float(value.denominator)
    except OverflowError:
        return _floating(value, suffix)
    return f"({numerator!r}{suffix}/{denominator!r}{suffix})"


def _truth(value: Any) -> str:
    if value and value != -inf:
        return "true"
    return "false"


def _floating(value: Any, suffix: str) -> str:
    number = _nearest_float(value)
    if isfinite(number):
        return f"{number!r}{suffix}"
    if isnan(number):
        return "NAN"
    if number < 0:
        return "-INFINITY"
    return "INFINITY"


def held(value: Any, dtype: str) -> Any:
    """Return a constant as its type holds it: integers wrap round.

    >>> held(-2, "u32") == 2**32 - 2, held(-2, "i32"), held(-2, "f32")
    (True, -2, -2)
    """
    if dtype not in LIMITS or not isinstance(value, int):
        return value
    low, high = LIMITS[dtype]
    return (value - low) % (high - low + 1) + low


def _nearest_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        pass
    if value < 0:
        return -inf
    return inf


def _integer(value: Any, dtype: str) -> str:
    low, high = LIMITS.get(dtype, LIMITS["i64"])
    number = _nearest(value, low, high)
    if not low <= number <= high:
        raise CodegenError(
            f"the constant {value} does not fit the type {dtype}\n"
            "  use a tensor of a wider type, or of floating point"
        )
    if number in NAMED_LIMITS:
        return NAMED_LIMITS[number]
    if not -(2**63) <= number < 2**64:
        high, low = divmod(number, 2**64)
        return f"({_integer(high, 'i64')}*((__int128)1 << 64) + {low}ULL)"
    if number >= 2**63:
        return f"{number}ULL"
    if abs(number) >= 2**31:
        return f"{number}LL"
    return str(number)


def _nearest(value: Any, low: int, high: int) -> int:
    """Return a whole number; a limit of its type for an infinity."""
    if value == inf:
        return high
    if value == -inf:
        return low
    return int(value)
