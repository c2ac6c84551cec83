"""Polynomials as integer relations with multiplicity, and where two of them differ (design §9).

A term with coefficient c is the relation {output point -> coordinates of all its factors}, that
holds as often as there are points of its reduction with those coordinates. A polynomial in
independent variables is zero exactly where the total coefficient of every monomial is, so that the
comparison is exact about the points at which two polynomials differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import islpy as isl

from derive.proof.exact.polynomial import ElementFactor, Factor, OutsideFragment, Term
from derive.proof.exact.products import products_of_truths, sorted_product, union
from derive.proof.exact.ranges import is_truth_factor
from einalg.language.index.affine import Index
from einalg.language.index.isl import Space
from einalg.language.index.iterator import LoopIndex
from einalg.runtime.clock import check_time

MAX_MULTIPLICITY = 64  # that is counted
MAX_PARTS = 64  # into which overlapping relations are cut
MAX_CELLS = 8  # of the points that differ, by the monomials that do
Heads = tuple[str, ...]
Weighted = tuple[Fraction, isl.Set]
Ranges = Any
NamedFactor = Callable[[Any, Space, isl.Set], tuple[str, isl.Map]]


@dataclass(frozen=True)
class Piece:
    """A term as `weight · {(point, reduction) -> coordinates}`; `heads` name the factors in the
    order of the coordinates, as in `("A", "x")`.
    """

    weight: Fraction
    heads: Heads
    relation: isl.Map
    rank: int  # of the point, the first axes of the domain

    def images(self, once: bool) -> Iterable[isl.Set]:
        """Yield sets of (point, coordinates): those that occur at least once, at least twice, …;
        only the first if `once`.
        """
        relation = keeping_point(self.relation, self.rank)
        if once or relation.is_injective():
            yield relation.range()
        else:
            yield from _levels(relation)


@dataclass(frozen=True)
class Difference:
    """Return the rest of the difference of two polynomials: for every monomial's heads, sets of
    (point, coordinates).
    """

    rank: int
    left: dict[Heads, list[isl.Set]]

    def __bool__(self) -> bool:
        return bool(self.left)

    def region(self) -> isl.Set:
        """Return the points at which some monomial differs."""
        return union(list(self._points())).coalesce()

    def _points(self) -> Iterator[isl.Set]:
        """Yield the points at which each monomial differs."""
        for sets in self.left.values():
            for one in sets:
                coordinates = one.dim(isl.dim_type.set) - self.rank
                yield one.project_out(isl.dim_type.set, self.rank, coordinates)

    def cells(self) -> list[isl.Set]:
        """Return disjoint parts of the region, at the points of each of which the same monomials
        differ; larger parts where there would be many.
        """
        cells = [self.region()]
        for points in self._points():
            smaller = []
            for cell in cells:
                smaller += [cell.intersect(points), cell.subtract(points)]
            smaller = [cell.coalesce() for cell in smaller if not cell.is_empty()]
            if len(smaller) > MAX_CELLS:
                break
            cells = smaller
        return cells

    def interpreted(self) -> list[str]:
        """Return the factors that are left over and obey laws of their own (functions, constants,
        indices), so that no difference is proven.
        """
        return sorted({head for heads in self.left for head in heads if not head.isidentifier()})


def opaque_name(function: str, number: int) -> str:
    """Return a factor's name that no tensor can have."""
    return f"{function} #{number}"


def pieces_of(
    term: Term,
    point: Sequence[Index],
    ranges: Ranges,
    named_factor: NamedFactor,
    within: isl.Set | None = None,
) -> Iterator[Piece]:
    """Yield a term as relations over the points of `point`, or those of `within` alone: none where
    it is empty, several where truth values in it are the same at some points only. `named_factor`
    gives the name of a factor, and the map to its coordinates.
    """
    iterators = _in_order_of_use(term)
    space = Space([*point, *(it.index for it in iterators)])
    point_ranges = [LoopIndex(index, *ranges[index]) for index in point]
    domain = space.set([*point_ranges, *iterators], term.where)
    if within is not None:
        domain = domain.intersect(within.add_dims(isl.dim_type.set, len(iterators)))
    if domain.is_empty():
        return
    by_name: dict[str, list[isl.Map]] = {}
    truths: set[str] = set()
    for factor in term.factors:
        name, coordinates = named_factor(factor, space, domain)
        by_name.setdefault(name, []).append(coordinates)
        if is_truth_factor(factor):
            truths.add(name)
    products: list[tuple[Heads, isl.Map]] = [((), space.map(()).intersect_domain(domain))]
    for name in sorted(by_name):
        powers = _powers(by_name[name], domain, name in truths)
        longer = []
        for (heads, relation), (times, coordinates) in product(products, powers):
            longer.append(((*heads, *[name] * times), relation.flat_range_product(coordinates)))
        products = longer
    for heads, relation in products:
        if not truths or not relation.is_empty():  # truth values may be apart nowhere
            yield Piece(term.coefficient, heads, relation, len(point))


def _powers(maps: list[isl.Map], domain: isl.Set, is_truth: bool) -> list[tuple[int, isl.Map]]:
    """Return the coordinates of the factors of one tensor, by the number of factors that count."""
    if is_truth and len(maps) > 1:
        return products_of_truths(maps, domain)
    return [(len(maps), sorted_product(maps))]


def _in_order_of_use(term: Term) -> list[LoopIndex]:
    """Return the iterators in the order of their first use, so that those of equal terms correspond
    more often.
    """
    order: dict[Index, int] = {}
    for factor in sorted(term.factors, key=_tensor_name):
        for subscript in factor.subscripts:
            for index in sorted(subscript.indices, key=_by_length_and_name):
                order.setdefault(index, len(order))
    return sorted(term.iterators, key=lambda it: order.get(it.index, len(order)))


def _tensor_name(factor: Factor) -> str:
    return factor.head.tensor if isinstance(factor.head, ElementFactor) else ""


def _by_length_and_name(index: Index) -> tuple[int, str]:
    return len(index.name), index.name


def keeping_point(relation: isl.Map, rank: int) -> isl.Map:
    """Return `{(point, reduction) -> coordinates}` as `{(point, reduction) -> (point,
    coordinates)}`.
    """
    identity = isl.Map.identity(relation.get_space().domain().map_from_set())
    point = identity.project_out(isl.dim_type.out, rank, identity.dim(isl.dim_type.out) - rank)
    return point.flat_range_product(relation)


def _levels(relation: isl.Map) -> Iterable[isl.Set]:
    """Yield what a relation reaches at least once, at least twice, …"""
    rest = relation.reverse()
    for _ in range(MAX_MULTIPLICITY):
        check_time()
        if rest.is_empty():
            return
        first = rest.lexmin()
        yield first.domain()
        rest = rest.subtract(first).coalesce()
    raise OutsideFragment(f"a monomial occurs more than {MAX_MULTIPLICITY} times")


def difference(
    one: Sequence[Piece], two: Sequence[Piece], rank: int, once: bool = False
) -> Difference:
    """Return where two polynomials are not the same; `once` compares which monomials occur, not how
    often.
    """
    rest = _without_equal(one, two)
    if not once or not any(rest):  # what occurs twice on one side may be all that the other one has
        one, two = rest
    groups: dict[Heads, tuple[list[Piece], list[Piece]]] = {}
    for side, pieces in enumerate((one, two)):
        for piece in pieces:
            groups.setdefault(piece.heads, ([], []))[side].append(piece)
    left: dict[Heads, list[isl.Set]] = {}
    for heads, (ours, theirs) in groups.items():
        check_time()
        sets = _left_over(ours, theirs, once)
        if sets:
            left[heads] = sets
    return Difference(rank, left)


def _without_equal(one: Sequence[Piece], two: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces of both sides without those that are the same, reduction point by reduction
    point, which cancel whatever their multiplicity.
    """
    theirs = list(two)
    ours = []
    for piece in one:
        equal = next((k for k, other in enumerate(theirs) if _is_same(piece, other)), None)
        if equal is None:
            ours.append(piece)
        else:
            theirs.pop(equal)
    return ours, theirs


def _is_same(one: Piece, two: Piece) -> bool:
    if one.weight != two.weight or one.heads != two.heads:
        return False
    if one.relation.dim(isl.dim_type.in_) != two.relation.dim(isl.dim_type.in_):
        return False
    return one.relation.is_equal(two.relation)


def _left_over(one: Sequence[Piece], two: Sequence[Piece], once: bool) -> list[isl.Set]:
    """Return the (point, coordinates) at which the total weights differ."""
    ours, theirs = _by_weight(one, once), _by_weight(two, once)
    rest: list[Weighted] = []
    for weight in sorted(ours.keys() | theirs.keys()):
        rest += _cancelled(weight, ours.get(weight, []), theirs.get(weight, []))
    if once or len(rest) <= 1:
        return [points for _, points in rest]
    return [points for weight, points in _disjoint(rest) if weight]


def _by_weight(pieces: Sequence[Piece], once: bool) -> dict[Fraction, list[isl.Set]]:
    """Return the images by weight, those that are disjoint joined."""
    images: dict[Fraction, list[isl.Set]] = {}
    for piece in pieces:
        weight = Fraction(1) if once else piece.weight
        joined = images.setdefault(weight, [])
        for image in piece.images(once):
            _join(joined, image, once)
    return images


def _join(joined: list[isl.Set], image: isl.Set, once: bool) -> None:
    """Add an image to the first set that it does not meet, or to any where it counts once."""
    for place, known in enumerate(joined):
        if once or known.is_disjoint(image):
            joined[place] = known.union(image).coalesce()
            return
    joined.append(image)


def _cancelled(weight: Fraction, ours: list[isl.Set], theirs: list[isl.Set]) -> Iterable[Weighted]:
    """Yield `w·[ours] - w·[theirs]` without what is in both."""
    ours, theirs = list(ours), list(theirs)
    for a, b in product(range(len(ours)), range(len(theirs))):
        check_time()
        ours[a], theirs[b] = ours[a].subtract(theirs[b]), theirs[b].subtract(ours[a])
    for sign, sets in ((weight, ours), (-weight, theirs)):
        for points in sets:
            if not points.is_empty():
                yield sign, points.coalesce()


def _disjoint(parts: Sequence[Weighted]) -> list[Weighted]:
    """Return the same total weight everywhere, as disjoint sets."""
    disjoint: list[Weighted] = []
    for weight, points in parts:
        check_time()
        cut: list[Weighted] = []
        for known, area in disjoint:
            both = area.intersect(points)
            if both.is_empty():
                cut.append((known, area))
                continue
            cut += [(known + weight, both), (known, area.subtract(points))]
            points = points.subtract(area)
        cut.append((weight, points))
        disjoint = [(its_weight, s.coalesce()) for its_weight, s in cut if not s.is_empty()]
        if len(disjoint) > MAX_PARTS:
            raise OutsideFragment(f"more than {MAX_PARTS} parts with different coefficients")
    return disjoint
