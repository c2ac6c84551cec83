"""Polynomials as integer relations with multiplicity, and where two of them differ (design §9).

A term with coefficient c is the relation {output point -> coordinates of all its factors}, that holds as often as there are
points of its reduction with those coordinates. A polynomial in independent variables is zero exactly where the total
coefficient of every monomial is, so that the comparison is exact about the points at which two polynomials differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, product
from typing import Any

import islpy as isl

from derive.proof.exact.polynomial import ElementFactor, OutsideFragment, Term
from derive.proof.exact.products import sorted_product, union
from einalg.language.index.affine import Index
from einalg.language.index.isl import Space
from einalg.language.index.iterator import LoopIndex

MOST_LEVELS = 64  # of multiplicity that are counted
MOST_PARTS = 64  # into which overlapping relations are cut
Heads = tuple[str, ...]
Weighted = tuple[Fraction, isl.Set]
Ranges = Any


@dataclass(frozen=True)
class Piece:
    """A term as `weight · {(point, reduction) -> coordinates}`; `heads` name the factors in the order of the coordinates."""

    weight: Fraction
    heads: Heads
    relation: isl.Map
    rank: int  # of the point, the first axes of the domain

    def images(self, once: bool) -> Iterable[isl.Set]:
        """Sets of (point, coordinates): those that occur at least once, at least twice, …; only the first if `once`."""
        relation = keeping_point(self.relation, self.rank)
        if once or relation.is_injective():
            yield relation.range()
        else:
            yield from _levels(relation)


@dataclass(frozen=True)
class Difference:
    """What is left of the difference of two polynomials: for every monomial's heads, sets of (point, coordinates)."""

    rank: int
    left: dict[Heads, list[isl.Set]]

    def __bool__(self) -> bool:
        return bool(self.left)

    def region(self) -> isl.Set:
        """The points at which some monomial differs."""
        sets = [s for parts in self.left.values() for s in parts]
        return union(
            [
                s.project_out(isl.dim_type.set, self.rank, s.dim(isl.dim_type.set) - self.rank)
                for s in sets
            ]
        ).coalesce()

    def interpreted(self) -> list[str]:
        """Factors that are left over and obey laws of their own (functions, constants, indices), so that no difference is proven."""
        return sorted({head for heads in self.left for head in heads if not head.isidentifier()})


def opaque_name(function: str, number: int) -> str:
    """A factor's name that no tensor can have."""
    return f"{function} #{number}"


def piece(
    term: Term,
    point: Sequence[Index],
    ranges: Ranges,
    factor: Callable[[Any, Space, isl.Set], tuple[str, isl.Map]],
) -> Piece | None:
    """A term as a relation over the points of `point`; None where it is empty. `factor` names a factor and maps to its coordinates."""
    iterators = _in_order_of_use(term)
    space = Space([*point, *(it.index for it in iterators)])
    domain = space.set([*(LoopIndex(i, *ranges[i]) for i in point), *iterators], term.where)
    if domain.is_empty():
        return None
    factors = sorted((factor(f, space, domain) for f in term.factors), key=lambda pair: pair[0])
    relation = space.map(())
    for _, group in groupby(factors, key=lambda pair: pair[0]):
        relation = relation.flat_range_product(sorted_product([m for _, m in group]))
    return Piece(
        term.coefficient,
        tuple(name for name, _ in factors),
        relation.intersect_domain(domain),
        len(point),
    )


def _in_order_of_use(term: Term) -> list[LoopIndex]:
    """Iterators in the order of their first use, so that those of equal terms correspond more often."""
    used: dict[Index, None] = {}
    for factor in sorted(
        term.factors, key=lambda f: f.head.tensor if isinstance(f.head, ElementFactor) else ""
    ):
        for subscript in factor.subscripts:
            used.update(
                dict.fromkeys(sorted(subscript.indices, key=lambda i: (len(i.name), i.name)))
            )
    order = {index: k for k, index in enumerate(used)}
    return sorted(term.iterators, key=lambda it: order.get(it.index, len(order)))


def keeping_point(relation: isl.Map, rank: int) -> isl.Map:
    """`{(point, reduction) -> coordinates}` as `{(point, reduction) -> (point, coordinates)}`."""
    identity = isl.Map.identity(relation.get_space().domain().map_from_set())
    point = identity.project_out(isl.dim_type.out, rank, identity.dim(isl.dim_type.out) - rank)
    return point.flat_range_product(relation)


def _levels(relation: isl.Map) -> Iterable[isl.Set]:
    rest = relation.reverse()
    for _ in range(MOST_LEVELS):
        if rest.is_empty():
            return
        first = rest.lexmin()
        yield first.domain()
        rest = rest.subtract(first).coalesce()
    raise OutsideFragment(f"a monomial occurs more than {MOST_LEVELS} times")


def difference(
    one: Sequence[Piece], two: Sequence[Piece], rank: int, once: bool = False
) -> Difference:
    """Where two polynomials are not the same; `once` compares which monomials occur, not how often."""
    one, two = _without_equal(one, two)
    groups: dict[Heads, tuple[list[Piece], list[Piece]]] = {}
    for side, pieces in enumerate((one, two)):
        for p in pieces:
            groups.setdefault(p.heads, ([], []))[side].append(p)
    left = {heads: _left_over(*sides, once) for heads, sides in groups.items()}
    return Difference(rank, {heads: sets for heads, sets in left.items() if sets})


def _without_equal(one: Sequence[Piece], two: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Pieces that are the same on both sides, reduction point by reduction point, cancel whatever their multiplicity."""
    others = list(two)
    kept = []
    for p in one:
        match = next((k for k, q in enumerate(others) if _same(p, q)), None)
        if match is None:
            kept.append(p)
        else:
            others.pop(match)
    return kept, others


def _same(one: Piece, two: Piece) -> bool:
    if one.weight != two.weight or one.heads != two.heads:
        return False
    return one.relation.dim(isl.dim_type.in_) == two.relation.dim(
        isl.dim_type.in_
    ) and one.relation.is_equal(two.relation)


def _left_over(one: Sequence[Piece], two: Sequence[Piece], once: bool) -> list[isl.Set]:
    """The (point, coordinates) at which the total weights differ."""
    ours, theirs = _by_weight(one, once), _by_weight(two, once)
    rest: list[Weighted] = []
    for weight in sorted(ours.keys() | theirs.keys()):
        rest += _cancelled(weight, ours.get(weight, []), theirs.get(weight, []))
    if once or len(rest) <= 1:
        return [points for _, points in rest]
    return [points for weight, points in _disjoint(rest) if weight]


def _by_weight(pieces: Sequence[Piece], once: bool) -> dict[Fraction, list[isl.Set]]:
    """The images by weight, those that are disjoint joined."""
    found: dict[Fraction, list[isl.Set]] = {}
    for p in pieces:
        joined = found.setdefault(Fraction(1) if once else p.weight, [])
        for image in p.images(once):
            place = next(
                (k for k, known in enumerate(joined) if once or known.is_disjoint(image)), None
            )
            if place is None:
                joined.append(image)
            else:
                joined[place] = joined[place].union(image).coalesce()
    return found


def _cancelled(weight: Fraction, ours: list[isl.Set], theirs: list[isl.Set]) -> Iterable[Weighted]:
    """`w·[ours] - w·[theirs]` with what both have taken away from both."""
    ours, theirs = list(ours), list(theirs)
    for a, b in product(range(len(ours)), range(len(theirs))):
        ours[a], theirs[b] = ours[a].subtract(theirs[b]), theirs[b].subtract(ours[a])
    for sign, sets in ((weight, ours), (-weight, theirs)):
        yield from ((sign, points.coalesce()) for points in sets if not points.is_empty())


def _disjoint(parts: Sequence[Weighted]) -> list[Weighted]:
    """The same total weight everywhere, as disjoint sets."""
    found: list[Weighted] = []
    for weight, points in parts:
        cut: list[Weighted] = []
        for known, area in found:
            both = area.intersect(points)
            if both.is_empty():
                cut.append((known, area))
                continue
            cut += [(known + weight, both), (known, area.subtract(points))]
            points = points.subtract(area)
        cut.append((weight, points))
        found = [(w, s.coalesce()) for w, s in cut if not s.is_empty()]
        if len(found) > MOST_PARTS:
            raise OutsideFragment(f"more than {MOST_PARTS} parts with different coefficients")
    return found
