"""Where two expressions can differ, as closely as their structure tells (design §9).

The relations name functions as a whole: `f(a)` and `f(b)` are two names where a and b differ
somewhere. Here the arguments are compared point by point. Outside the region that this gives, both
sides are equal; it is exact where a function takes two values for two arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations

import islpy as isl

from derive.proof.exact.congruence import Classes
from derive.proof.exact.polynomial import (
    ElementFactor,
    FunctionFactor,
    Polynomial,
    Term,
    constant_value,
)
from derive.proof.exact.products import union
from derive.proof.exact.relations import Difference, Ranges, difference
from einalg.language.index.affine import Index
from einalg.language.ir.dtypes import is_float

MAX_DEPTH = 6  # of functions in functions
MAX_PAIRS = 8  # of functions, one of either side
# Functions that take two values for two arguments, wherever they are defined.
INJECTIVE = {"exp", "tanh", "erf", "erfc", "sinh", "asinh", "atan", "inverse"}


@dataclass(frozen=True)
class Sides:
    """Two polynomials over the points of an output, and the ranges of their indices."""

    ranges: Ranges
    point: Sequence[Index]
    ours: Polynomial
    theirs: Polynomial
    within: isl.Set | None = None  # the points that count, where these are not all

    def of(self, ours: Polynomial, theirs: Polynomial) -> Sides:
        return replace(self, ours=ours, theirs=theirs)

    def difference(self, within: isl.Set | None = None) -> Difference:
        """Return what is left of the difference at some points, or at all."""
        classes = Classes(self.ranges, self.within if within is None else within)
        ours = classes.pieces(self.ours, self.point)
        return difference(ours, classes.pieces(self.theirs, self.point), len(self.point))


@dataclass(frozen=True)
class _Pair:
    """The same function on either side, with what is beside it there."""

    sides: Sides
    ours: FunctionFactor
    theirs: FunctionFactor
    coefficients: tuple[Fraction, Fraction] | None  # where both stand alone in a term
    beside: Sides  # the other terms

    def arguments(self) -> Iterator[list[Sides]]:
        """Yield the pairs of arguments, in every order that a function of few allows."""
        orders = [self.theirs.arguments]
        if self.ours.commutative and len(self.theirs.arguments) == 2:
            orders = list(permutations(self.theirs.arguments))
        for order in orders:
            yield [self.sides.of(one, two) for one, two in zip(self.ours.arguments, order)]


def region_of_differences(sides: Sides) -> tuple[isl.Set, bool]:
    """Return points outside of which both sides are equal, and whether they differ at all of
    them.
    """
    region = _region(sides, None, MAX_DEPTH)
    return region, _is_certain(sides, region, bounded=False, depth=MAX_DEPTH)


def _region(sides: Sides, within: isl.Set | None, depth: int) -> isl.Set:
    """Return points outside of which both sides are equal, of some or of all."""
    left = sides.difference(within)
    if not left:
        return _nowhere(sides)
    region = left.region()
    if not left.interpreted() or depth == 0:
        return region
    for pair in _pairs(sides):
        differing = _where_arguments_differ(pair, region, depth - 1)
        equal = region.subtract(differing)
        if not equal.is_empty():
            rest = sides.difference(equal)
            region = region.intersect(differing)
            if rest:
                region = region.union(rest.region())
        if region.is_empty():
            break
    return region.coalesce()


def _nowhere(sides: Sides) -> isl.Set:
    return isl.Set.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(sides.point)))


def _where_arguments_differ(pair: _Pair, within: isl.Set, depth: int) -> isl.Set:
    """Return the points at which arguments may differ, in their order of the fewest points."""
    regions = []
    for arguments in pair.arguments():
        parts = [_region(argument, within, depth) for argument in arguments]
        regions.append(union(parts))
    for region in regions[1:]:
        if region.is_subset(regions[0]):
            return region
    return regions[0]


def _pairs(sides: Sides) -> list[_Pair]:
    """Return the functions of the output's points that stand on both sides with arguments to
    compare.
    """
    pairs = []
    for ours, one in _functions(sides.ours, sides.point):
        for theirs, two in _functions(sides.theirs, sides.point):
            alike = one.function == two.function and len(one.arguments) == len(two.arguments)
            if not alike or one.function.endswith("[]") or len(pairs) == MAX_PAIRS:
                continue
            coefficients = None
            if _is_alone(ours) and _is_alone(theirs):
                coefficients = ours.coefficient, theirs.coefficient
            beside = sides.of(_without(sides.ours, ours), _without(sides.theirs, theirs))
            pairs.append(_Pair(sides, one, two, coefficients, beside))
    return pairs


def _functions(
    polynomial: Polynomial, point: Sequence[Index]
) -> Iterator[tuple[Term, FunctionFactor]]:
    for term in polynomial:
        for factor in term.factors:
            head = factor.head
            if isinstance(head, FunctionFactor) and set(head.free) <= set(point):
                yield term, head


def _is_alone(term: Term) -> bool:
    return len(term.factors) == 1 and not term.iterators and not term.where


def _without(polynomial: Polynomial, left_out: Term) -> Polynomial:
    return tuple([term for term in polynomial if term is not left_out])


def _is_certain(sides: Sides, region: isl.Set, bounded: bool, depth: int) -> bool:
    """Return whether both sides differ at every point of a region, for some inputs. `bounded`: at
    inputs for which ours has a value in some open interval.
    """
    if depth == 0 or region.is_empty():
        return False
    left = sides.difference(region)
    if not left or not region.is_subset(left.region()):
        return False
    if not left.interpreted():
        return not bounded or _takes_all_values(sides, region)
    for pair in _pairs(sides):
        if pair.coefficients is None or pair.coefficients[0] != pair.coefficients[1]:
            continue
        if not pair.beside.difference(region):
            return _is_certain_of_pair(pair, region, bounded, depth)
    return False


def _is_certain_of_pair(pair: _Pair, region: isl.Set, bounded: bool, depth: int) -> bool:
    stands_alone = pair.coefficients == (1, 1) and not pair.beside.ours and not pair.beside.theirs
    if bounded and not stands_alone:
        return False  # what is beside it moves the interval
    for arguments in pair.arguments():
        unequal = [argument for argument in arguments if argument.difference(region)]
        if len(unequal) != 1:
            continue
        others = [argument for argument in arguments if argument is not unequal[0]]
        if pair.ours.function in INJECTIVE and not bounded and not others:
            return _is_certain(unequal[0], region, False, depth - 1)
        bounds = [constant_value(argument.ours) for argument in others]
        clips = pair.ours.function in ("Max", "Min") and len(others) == 1 and None not in bounds
        if clips and not bounded:
            return _is_certain(unequal[0], region, True, depth - 1)
    return False


def _takes_all_values(sides: Sides, region: isl.Set) -> bool:
    """Return whether one of two polynomials takes all numbers as its values, at every point.

    In the elements of one tensor that stands in no term twice it is linear. So, where it depends on
    them, inputs for which both sides differ can be scaled until it has any value.
    """
    linear = []
    for tensor in _tensors(sides):
        if all(_times(tensor, term) <= 1 for term in (*sides.ours, *sides.theirs)):
            for polynomial in (sides.ours, sides.theirs):
                with_tensor = tuple([t for t in polynomial if _times(tensor, t) == 1])
                depends = sides.of(with_tensor, ()).difference(region)
                if depends and not depends.interpreted():
                    linear.append(depends.region())
    return bool(linear) and region.is_subset(union(linear))


def _tensors(sides: Sides) -> list[str]:
    """Return the tensors of floats in the terms of both sides."""
    names = set()
    for term in (*sides.ours, *sides.theirs):
        for factor in term.factors:
            head = factor.head
            if isinstance(head, ElementFactor) and is_float(head.dtype):
                names.add(head.tensor)
    return sorted(names)


def _times(tensor: str, term: Term) -> int:
    count = 0
    for factor in term.factors:
        if isinstance(factor.head, ElementFactor):
            count += factor.head.tensor == tensor
        elif isinstance(factor.head, FunctionFactor):
            return 2  # it may be in there
    return count
