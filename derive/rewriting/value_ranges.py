"""Bounds of the values of bodies from the types of what they read, where nothing overflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor, inf, prod
from typing import Any

import sympy

from einalg.language.index.bounds import number_interval
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, as_factor
from einalg.language.ir.dtypes import bounds, is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, paddings

Bound = Fraction | float
Interval = tuple[Bound, Bound]
ANY: Interval = (-inf, inf)
TRUTH: Interval = (0, 1)
MOST_FACTORS = 128  # of products whose bounds are numbers: no type holds more factors above 1


def value_range(body: Any) -> Interval:
    """Return bounds of all values of a body, for all inputs of its types; infinities where the
    types do not tell.

    >>> import einalg as ea
    >>> b, i = ea.tensor("b", (6,), "bool"), ea.indices("i")
    >>> value_range(ea.parse("O[i] = Max(200*b[i], 7) - 2*b[5-i]", b=b).body)
    (5, 200)
    >>> value_range(ea.parse("O[()] = Sum[i:6](3*b[i], where=i < 4)", b=b).body)
    (0, 18)
    """
    if isinstance(body, Access):
        return _read(body)
    if isinstance(body, Reduce):
        return _reduction(body)
    if isinstance(body, (sympy.Rel, sympy.logic.boolalg.Boolean)):
        return TRUTH
    if body.is_number:
        return _number(body)
    if isinstance(body, sympy.Piecewise):
        return _hull([value_range(as_factor(case.args[0])) for case in body.args])
    if body.is_Pow and body.exp.is_Integer and body.exp > 0:
        return _product([value_range(body.base)] * int(body.exp))
    operation = RANGES.get(type(body))
    if operation is None:
        return ANY
    return operation([value_range(as_factor(operand)) for operand in body.args])


def _number(value: Any) -> Interval:
    if value.is_Integer:
        return int(value), int(value)
    if value.is_Rational:
        return Fraction(value.p, value.q), Fraction(value.p, value.q)
    return ANY


def _read(access: Access) -> Interval:
    base = access.tensor
    parts = [value_range(as_factor(padded.fill)) for padded in paddings(access.base)]
    if isinstance(base, Scope):
        parts.append(value_range(as_factor(base.body)))
    else:
        parts.append(ANY if is_float(base.dtype) else bounds(base.dtype))
    return _hull(parts)


def _reduction(node: Reduce) -> Interval:
    low, high = value_range(as_factor(node.body))
    fewest, most = _points(node.iterators)
    if node.where:
        fewest = 0
    if node.op == "Sum":
        return _product([(low, high), (fewest, most)])
    if node.op == "Prod":
        return _power(max(abs(low), abs(high)), low, most)
    if fewest:
        return low, high
    return (-inf, high) if node.op == "Max" else (low, inf)


def _points(iterators: Sequence[LoopIndex]) -> Interval:
    """Return the fewest and the most points of a box, over all sizes."""
    return _product([(1, 1), *(_not_negative(number_interval(it.extent)) for it in iterators)])


def _not_negative(part: Interval) -> Interval:
    return max(0, part[0]), max(0, part[1])


def _power(size: Bound, low: Bound, most: Bound) -> Interval:
    """Return bounds of a product of at most so many factors of at most a size."""
    if size == inf or most > MOST_FACTORS:
        return ANY
    largest = max(1, size) ** int(most)
    return (0 if low >= 0 else -largest), largest


def _sum(parts: Sequence[Interval]) -> Interval:
    return sum(low for low, _ in parts), sum(high for _, high in parts)


def _product(parts: Sequence[Interval]) -> Interval:
    corners = [0 if 0 in corner else prod(corner) for corner in product(*parts)]
    return min(corners), max(corners)


def _largest(parts: Sequence[Interval]) -> Interval:
    return max(low for low, _ in parts), max(high for _, high in parts)


def _smallest(parts: Sequence[Interval]) -> Interval:
    return min(low for low, _ in parts), min(high for _, high in parts)


def _hull(parts: Sequence[Interval]) -> Interval:
    return min(low for low, _ in parts), max(high for _, high in parts)


def _size(parts: Sequence[Interval]) -> Interval:
    return 0, max(abs(parts[0][0]), abs(parts[0][1]))


def _rounded(parts: Sequence[Interval]) -> Interval:
    low, high = parts[0]
    return floor(low) if low > -inf else low, ceil(high) if high < inf else high


RANGES: dict[Any, Callable[[Sequence[Interval]], Interval]] = {
    sympy.Add: _sum,
    sympy.Mul: _product,
    sympy.Max: _largest,
    sympy.Min: _smallest,
    sympy.Abs: _size,
    sympy.floor: _rounded,
    sympy.ceiling: _rounded,
}
