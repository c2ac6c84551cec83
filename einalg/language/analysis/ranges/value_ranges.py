"""Bounds of the values of bodies from the types of what they read, where nothing overflows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf
from typing import Any

import sympy

from einalg.language.analysis.ranges.interval_arithmetic import (
    ANY,
    TRUTH,
    Bound,
    Interval,
    hull,
    magnitude,
    maximum_interval,
    minimum_interval,
    power_interval,
    product_interval,
    sum_interval,
)
from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.bounds import number_interval
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.ir.body import Reduce, as_factor, substitute
from einalg.language.ir.dtypes import bounds, is_float
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Padded, paddings
from einalg.language.ir.traversal import accesses

MOST_SCOPES = 4096  # that are remembered
MOST_FACTORS = 128  # of products whose bounds are numbers: no type holds more factors above 1
LARGEST = 1 << 128  # bound, and denominator of one, that is told: no type holds as much


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
    low, high = _bounds(body)
    return _told(low, floor), _told(high, ceil)


def _told(bound: Bound, rounded: Callable[[Bound], int]) -> Bound:
    """Return a bound, or one further away of fewer digits: squares of squares have too many."""
    if abs(bound) == inf:
        return bound
    if bound.denominator > LARGEST:  # pyright: ignore[reportAttributeAccessIssue]
        bound = rounded(bound)
    if abs(bound) <= LARGEST:
        return bound
    is_outer = (bound < 0) == (rounded is floor)
    if is_outer:
        return -inf if bound < 0 else inf
    return LARGEST if bound > 0 else -LARGEST


def _bounds(body: Any) -> Interval:
    if isinstance(body, Access):
        return _read(body)
    if isinstance(body, Reduce):
        return _reduction(body)
    if isinstance(body, IndexArithmetic):
        return ANY  # a symbol is a truth value of SymPy too
    if isinstance(body, (sympy.Rel, sympy.logic.boolalg.Boolean)):
        return TRUTH
    if body.is_number:
        return _number(body)
    if isinstance(body, sympy.Piecewise):
        return hull([value_range(as_factor(case.args[0])) for case in body.args])
    operation = RANGES.get(type(body))
    if operation is None:
        return ANY
    parts = [value_range(as_factor(operand)) for operand in body.args]
    return _beside_extremes(body, *operation(parts))


def range_of_scope(scope: Scope) -> Interval:
    """Return bounds of all values of a scope, as `value_range` of its body."""
    for inner in all_scopes(scope):  # inner ones first, so that no chain of scopes is too deep
        _range_of_body(inner)
    return _range_of_body(scope)


@lru_cache(maxsize=MOST_SCOPES)
def _range_of_body(scope: Scope) -> Interval:
    return value_range(as_factor(scope.body))


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
        parts.append(_range_of_body(base))
    else:
        parts.append(ANY if is_float(base.dtype) else bounds(base.dtype))
    return hull(parts)


def _reduction(node: Reduce) -> Interval:
    low, high = value_range(as_factor(node.body))
    fewest, most = _points(node.iterators)
    if node.where:
        fewest = 0
    if node.op == "Sum":
        return product_interval([(low, high), (fewest, most)])
    if node.op == "Prod":
        return _product_of_many((low, high), most)
    if fewest:
        return low, high
    return (-inf, high) if node.op == "Max" else (low, inf)


def _beside_extremes(body: Any, low: Bound, high: Bound) -> Interval:
    """Return closer bounds of a sum in which an element is not larger than the largest one."""
    for term in sympy.Add.make_args(body):
        factor, extreme = term.as_coeff_Mul()
        if not isinstance(extreme, Reduce) or extreme.op not in ("Max", "Min"):
            continue
        for element in _elements(extreme, body):
            rest = _without(body, (term, *sympy.Add.make_args(-factor * element)))
            if rest is None:
                continue
            if (extreme.op == "Max") == bool(factor < 0):
                high = min(high, value_range(rest)[1])
            else:
                low = max(low, value_range(rest)[0])
    return low, high


def _elements(extreme: Reduce, body: Any) -> Iterator[Any]:
    """Yield elements of which something is an extreme, at the places where a body reads."""
    if extreme.where:
        return
    for read in accesses(extreme.body):
        for access in accesses(body):
            if access.base != read.base or isinstance(read.base, Padded):
                continue
            place = _place(extreme.iterators, read, access)
            if place is not None:
                yield substitute(extreme.body, place)


def _place(
    iterators: Sequence[LoopIndex], read: Access, access: Access
) -> Mapping[Index, Any] | None:
    """Return the values of iterators for which what they read is an access; None where they do not
    read all of its axes.
    """
    place: dict[Index, Any] = {}
    for it in iterators:
        if it.index not in read.subscripts:
            return None
        axis = read.subscripts.index(it.index)
        if (it.low, it.high) != tuple(read.base.box[axis]):
            return None
        place[it.index] = access.subscripts[axis]
    return place


def _without(body: sympy.Add, terms: Sequence[Any]) -> Any:
    """Return the rest of a sum; None where it does not have all of the terms."""
    rest = list(body.args)
    for term in terms:
        if term not in rest:
            return None
        rest.remove(term)
    return sympy.Add(*rest)


def _points(iterators: Sequence[LoopIndex]) -> Interval:
    """Return the fewest and the most points of a box, over all sizes."""
    return product_interval([_not_negative(number_interval(it.extent)) for it in iterators])


def _not_negative(part: Interval) -> Interval:
    return max(0, part[0]), max(0, part[1])


def _product_of_many(factor: Interval, most: Bound) -> Interval:
    """Return bounds of a product of at most so many factors."""
    size = magnitude(factor)
    if size == inf or most > MOST_FACTORS:
        return ANY
    largest = max(1, size) ** int(most)
    return (0 if factor[0] >= 0 else -largest), largest


def _power(parts: Sequence[Interval]) -> Interval:
    base, (exponent, largest) = parts
    if exponent != largest or not isinstance(exponent, int) or not 0 < exponent <= MOST_FACTORS:
        return ANY
    return power_interval(base, exponent)


def _absolute(parts: Sequence[Interval]) -> Interval:
    return 0, magnitude(parts[0])


def _rounded(parts: Sequence[Interval]) -> Interval:
    low, high = parts[0]
    return floor(low) if low > -inf else low, ceil(high) if high < inf else high


def _remainder(parts: Sequence[Interval]) -> Interval:
    """Return bounds of a remainder: from 0 to the divisor, and no more than what is divided."""
    (low, high), (least, largest) = parts
    if low >= 0 <= least:
        return 0, min(high, largest)
    return min(0, least), max(0, largest)


def _quotient(parts: Sequence[Interval]) -> Interval:
    (low, high), (least, _) = parts
    if least < 1:
        return ANY
    return min(0, low), max(0, high)


def _sign(_: Sequence[Interval]) -> Interval:
    return -1, 1


RANGES: dict[Any, Callable[[Sequence[Interval]], Interval]] = {
    sympy.Add: sum_interval,
    sympy.Mul: product_interval,
    sympy.Pow: _power,
    sympy.Max: maximum_interval,
    sympy.Min: minimum_interval,
    sympy.Abs: _absolute,
    sympy.floor: _rounded,
    sympy.ceiling: _rounded,
    sympy.sign: _sign,
    Mod: _remainder,
    Quotient: _quotient,
}
