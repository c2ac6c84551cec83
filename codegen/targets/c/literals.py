"""Constants in C, exactly."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isinf, isnan
from typing import Any

from codegen.ir.scalar import WEAK
from einalg.errors import CodegenError
from einalg.language.ir.dtypes import bounds

LIMITS = {dtype: bounds(dtype) for dtype in ("i32", "i64", "u32", "u64")}


def literal(value: Any, dtype: str) -> str:
    """A constant in C, exactly.

    >>> literal(0.1, "f32"), literal(float("-inf"), "f64"), literal(float("-inf"), "i32"), literal(float("-inf"), "bool")
    ('0.1f', '-INFINITY', 'INT32_MIN', 'false')
    """
    if dtype == "bool":
        return "true" if value and value != -inf else "false"
    if dtype in LIMITS or dtype == WEAK:
        return _integer(value, dtype)
    suffix = "f" if dtype == "f32" else ""
    if isinstance(value, Fraction):
        return f"({float(value.numerator)!r}{suffix}/{float(value.denominator)!r}{suffix})"
    if isnan(value):
        return "NAN"
    try:
        number = float(value)
    except OverflowError:
        number = inf if value > 0 else -inf
    return f"{'-' if number < 0 else ''}INFINITY" if isinf(number) else f"{number!r}{suffix}"


def _integer(value: Any, dtype: str) -> str:
    low, high = LIMITS.get(dtype, LIMITS["i64"])
    number = (low if value < 0 else high) if isinf(value) else int(value)
    if not low <= number <= high:
        raise CodegenError(
            f"the constant {value} does not fit the type {dtype}\n  use a tensor of a wider type, or of floating point"
        )
    if number in (-(2**31), -(2**63)):
        return "INT32_MIN" if number == -(2**31) else "INT64_MIN"
    return f"{number}{'ULL' if number >= 2**63 else 'LL' if abs(number) >= 2**31 else ''}"
