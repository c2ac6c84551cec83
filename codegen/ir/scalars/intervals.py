"""Bounds of what values of integers are without overflow, from the types of what they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codegen.ir.nodes import Apply, IndexNumber, Number, Predicate, Ref, Value
from codegen.ir.scalars.index_parts import index_interval
from codegen.ir.types import WIDE
from einalg.language.analysis.ranges.interval_arithmetic import (
    Bound,
    Interval,
    hull,
    magnitude,
    maximum_interval,
    minimum_interval,
    product_interval,
    sum_interval,
)
from einalg.language.ir.dtypes import bounds


def interval(value: Value) -> Interval:
    """Return bounds of what a value is without overflow."""
    if isinstance(value, Number):
        least, largest = bounds(WIDE)
        number = int(min(max(value.value, least), largest))
        return number, number
    if isinstance(value, IndexNumber):
        return index_interval(value.form)
    if isinstance(value, Predicate):
        return 0, 1
    if isinstance(value, Ref) or value.op not in RANGES:
        return bounds(value.dtype)
    return RANGES[value.op](list(map(interval, operands(value))))


def operands(value: Apply) -> tuple[Value, ...]:
    """Return what a value is computed of in its own type."""
    if value.op not in RANGES:
        return ()
    if value.op == "select":
        return value.arguments[1:]
    return value.arguments


def _power(operands: Sequence[Interval]) -> Interval:
    base, (_, exponent) = operands
    size = magnitude(base) ** exponent
    if base[0] >= 0:
        return 0, size
    return -size, size


def _of_same_size(operands: Sequence[Interval]) -> Interval:
    size = magnitude(operands[0])
    return -size, size


def _quotient(operands: Sequence[Interval]) -> Interval:
    size = magnitude(operands[0])
    if operands[0][0] >= 0 and operands[1][0] >= 0:
        return 0, size
    return -size, size


def _absolute(operands: Sequence[Interval]) -> Interval:
    return 0, magnitude(operands[0])


def _sign(operands: Sequence[Interval]) -> Interval:
    low, high = operands[0]
    return _sign_of(low), _sign_of(high)


def _sign_of(number: Bound) -> int:
    return (number > 0) - (number < 0)


def _remainder(operands: Sequence[Interval]) -> Interval:
    low, high = operands[1]
    return min(0, low), max(0, high)


RANGES: dict[str, Callable[[Sequence[Interval]], Interval]] = {
    "add": sum_interval,
    "mul": product_interval,
    "neg": _of_same_size,
    "ipow": _power,
    "max": maximum_interval,
    "min": minimum_interval,
    "select": hull,
    "abs": _absolute,
    "sign": _sign,
    "cast": hull,
    "quotient": _quotient,
    "mod": _remainder,
}
