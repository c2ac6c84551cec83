"""Functions as tensors of their own: the same tensor wherever the same function has equal arguments (design §9).

What is no polynomial, `f(e)`, is an element of a class: a function together with arguments e(v) over points v. Another
`f(e')` at a point u belongs to the class where e'(u) = e(φ(u)), which is decided as for whole expressions, and is then its
element at φ(u). φ is the identity, or it is read off the relations: it takes u to the point v whose first and last
coordinates are those of u.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations
from typing import Any

import islpy as isl

from derive.proof.exact.constant_tables import evaluated
from derive.proof.exact.polynomial import ElementFactor, Factor, FunctionFactor, Polynomial
from derive.proof.exact.products import product_of, union
from derive.proof.exact.relations import Piece, difference, opaque_name, piece
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space

MOST_ORDERS = 24  # of the arguments of a commutative function
Pieces = list[Piece]


@dataclass
class _Given:
    """The arguments of a function at the points of a domain."""

    arguments: Sequence[Pieces]
    domain: isl.Set

    @property
    def rank(self) -> int:
        return self.domain.dim(isl.dim_type.set)

    @cached_property
    def heads(self) -> list[set[Any]]:
        return [_heads(pieces) for pieces in self.arguments]

    @cached_property
    def corners(self) -> dict[Any, isl.Map]:
        """By argument and heads: the map from points to the first and last coordinates of the terms that exist at all points."""
        found: dict[Any, isl.Map] = {}
        for position, pieces in enumerate(self.arguments):
            for heads in sorted(self.heads[position]):
                relation = union(
                    [_coordinates(p) for p in pieces if p.heads == heads]
                ).intersect_domain(self.domain)
                if self.domain.is_subset(relation.domain()):
                    found[position, heads] = relation.lexmin().flat_range_product(relation.lexmax())
        return found


@dataclass
class _Class:
    name: str
    function: str
    idempotent: bool
    given: _Given


class Classes:
    """Turns polynomials into relations; both sides of a comparison share one, so that equal values get equal names."""

    def __init__(self, ranges: dict[Index, tuple[int, int]]):
        self.ranges = ranges
        self.known: list[_Class] = []

    def pieces(self, polynomial: Polynomial, point: Sequence[Index]) -> Pieces:
        """The terms of a polynomial that are not empty, as relations over the points of `point`."""
        terms = (part for term in polynomial for part in evaluated(term, self.ranges))
        found = (piece(term, point, self.ranges, self.factor) for term in terms)
        return [p for p in found if p is not None]

    def factor(self, factor: Factor, space: Space, domain: isl.Set) -> tuple[str, isl.Map]:
        """A name, and the map from points of `space` to coordinates; equal elements have equal names and coordinates."""
        coordinates = space.map(factor.subscripts)
        head = factor.head
        if isinstance(head, ElementFactor):
            return head.tensor, coordinates
        if isinstance(head, FunctionFactor):
            points = coordinates.intersect_domain(domain).range()
            name, change = self._classified(head, points)
            return name, coordinates.apply_range(change)
        return str(head), coordinates

    def _classified(self, opaque: FunctionFactor, domain: isl.Set) -> tuple[str, isl.Map]:
        """The class of a function, and the map from the indices it depends on to the elements of the class."""
        point = opaque.free
        orders = _orders(
            [self.pieces(argument, point) for argument in opaque.arguments], opaque.commutative
        )
        given = [_Given(order, domain) for order in orders]
        for known in self.known:
            if known.function == opaque.function and len(known.given.arguments) == len(
                opaque.arguments
            ):
                for one in given:
                    change = _change(known, one)
                    if change is not None:
                        return known.name, change
        made = _Class(
            opaque_name(opaque.function, len(self.known) + 1),
            opaque.function,
            opaque.idempotent,
            given[0],
        )
        self.known.append(made)
        return made.name, Space(point).map([affine(i) for i in point])


def _orders(arguments: list[Pieces], commutative: bool) -> Iterator[Sequence[Pieces]]:
    return islice(permutations(arguments), MOST_ORDERS) if commutative else iter([arguments])


def _change(known: _Class, given: _Given) -> isl.Map | None:
    """A map from the points of `given` to points at which the class has the same arguments; None where none is found."""
    if known.given.heads != given.heads:
        return None
    if known.given.rank == given.rank:
        identity = isl.Map.identity(given.domain.get_space().map_from_set())
        if _equal_under(identity, known, given):
            return identity
    return _by_corners(known, given)


def _heads(pieces: Pieces) -> set[Any]:
    return {p.heads for p in pieces}


def _equal_under(change: isl.Map, known: _Class, given: _Given) -> bool:
    domain = given.domain
    for ours, theirs in zip(known.given.arguments, given.arguments):
        moved = [_pulled_back(p, change.intersect_domain(domain)) for p in ours]
        within = [
            _pulled_back(
                p, isl.Map.identity(domain.get_space().map_from_set()).intersect_domain(domain)
            )
            for p in theirs
        ]
        if difference(moved, within, given.rank, known.idempotent):
            return False
    return True


def _pulled_back(p: Piece, change: isl.Map) -> Piece:
    """The piece at the point that `change` gives."""
    reduction = isl.Space.set_alloc(
        isl.DEFAULT_CONTEXT, 0, p.relation.dim(isl.dim_type.in_) - p.rank
    )
    both = change.flat_product(isl.Map.identity(reduction.map_from_set()))
    return Piece(p.weight, p.heads, both.apply_range(p.relation), change.dim(isl.dim_type.in_))


def _by_corners(known: _Class, given: _Given) -> isl.Map | None:
    """The map that keeps the first and the last coordinates of every kind of term; None where there is no such map."""
    ours, theirs = known.given.corners, given.corners
    if ours.keys() != theirs.keys() or not ours:
        return None
    change = product_of([theirs[k] for k in ours]).apply_range(
        product_of([ours[k] for k in ours]).reverse()
    )
    change = change.intersect_domain(given.domain).lexmin()
    return (
        change
        if given.domain.is_subset(change.domain()) and _equal_under(change, known, given)
        else None
    )


def _coordinates(p: Piece) -> isl.Map:
    """`{point -> coordinates}`, whatever the point of the reduction."""
    return p.relation.project_out(
        isl.dim_type.in_, p.rank, p.relation.dim(isl.dim_type.in_) - p.rank
    )
