"""Interval arithmetic: closed bounds of numbers that are computed of bounded ones.

Bounds are numbers, or infinities where there are none; the operands of an operation may be any of
their intervals, independently of one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import inf

Bound = Fraction | float
Interval = tuple[Bound, Bound]
ANY: Interval = (-inf, inf)
TRUTH: Interval = (0, 1)


def sum_interval(parts: Sequence[Interval]) -> Interval:
    """Return bounds of a sum."""
    return sum(low for low, _ in parts), sum(high for _, high in parts)


def product_interval(parts: Sequence[Interval]) -> Interval:
    """Return bounds of a product, which is 0 where a factor is, though another has no bounds.

    >>> product_interval([(-2, 3), (-5, 1)]), product_interval([(0, 1), (-inf, inf), (0, 0)])
    ((-15, 10), (0, 0))
    """
    return reduce(_product, parts, (1, 1))


def _product(one: Interval, two: Interval) -> Interval:
    corners = [_times(a, b) for a in one for b in two]
    return min(corners), max(corners)


def _times(one: Bound, two: Bound) -> Bound:
    if not one or not two:
        return 0
    if abs(one) == inf or abs(two) == inf:  # the other one may be too large for a float
        return inf if (one > 0) == (two > 0) else -inf
    return one * two


def power_interval(base: Interval, exponent: int) -> Interval:
    """Return bounds of a power with an exponent of at least 1.

    >>> power_interval((-2, 1), 2), power_interval((-2, 1), 3)
    ((0, 4), (-8, 1))
    """
    low, high = base
    ends = low**exponent, high**exponent
    if exponent % 2:
        return ends
    return (0 if low < 0 < high else min(ends)), max(ends)


def maximum_interval(parts: Sequence[Interval]) -> Interval:
    """Return bounds of the largest of some numbers."""
    return max(low for low, _ in parts), max(high for _, high in parts)


def minimum_interval(parts: Sequence[Interval]) -> Interval:
    """Return bounds of the smallest of some numbers."""
    return min(low for low, _ in parts), min(high for _, high in parts)


def hull(parts: Sequence[Interval]) -> Interval:
    """Return bounds of a number that is in one of some intervals."""
    return min(low for low, _ in parts), max(high for _, high in parts)


def magnitude(part: Interval) -> Bound:
    """Return the largest absolute value of a number."""
    return max(abs(part[0]), abs(part[1]))
