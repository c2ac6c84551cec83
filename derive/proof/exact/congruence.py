"""Functions as tensors of their own: the same tensor wherever the same function has equal arguments
(design §9).

What is no polynomial, `f(e)`, is an element of a class: a function together with arguments e(v)
over points v. Another `f(e')` at a point u belongs to the class where e'(u) = e(φ(u)), which is
decided as for whole expressions, and is then its element at φ(u). φ is the identity, or it is read
off the relations: it takes u to the point v whose first and last coordinates are those of u.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations
from typing import Any

import islpy as isl

from derive.proof.exact.constant_tables import evaluated
from derive.proof.exact.polynomial import (
    ElementFactor,
    Factor,
    FunctionFactor,
    Polynomial,
    output_index,
)
from derive.proof.exact.products import product_of, union
from derive.proof.exact.relations import Piece, difference, opaque_name, pieces_of
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space
from einalg.runtime.clock import check_time

MAX_ARGUMENT_ORDERS = 24  # of a commutative function
Pieces = list[Piece]


@dataclass(frozen=True)
class _Arguments:
    """The arguments of a function at the points of a domain."""

    pieces: Sequence[Pieces]
    domain: isl.Set

    @property
    def rank(self) -> int:
        return self.domain.dim(isl.dim_type.set)

    @cached_property
    def heads(self) -> list[set[Any]]:
        """The heads of the terms of every argument: `[{("A", "x"), ("b",)}]` for `f(A*x + b)`."""
        return list(map(_heads, self.pieces))

    @cached_property
    def corners(self) -> dict[Any, isl.Map]:
        """By argument and heads: the map from points to the first and last coordinates of the terms
        that exist at all points.
        """
        corners: dict[Any, isl.Map] = {}
        for position, pieces in enumerate(self.pieces):
            for heads in sorted(self.heads[position]):
                maps = [_coordinates(piece) for piece in pieces if piece.heads == heads]
                relation = union(maps).intersect_domain(self.domain)
                if self.domain.is_subset(relation.domain()):
                    first, last = relation.lexmin(), relation.lexmax()
                    corners[position, heads] = first.flat_range_product(last)
        return corners


@dataclass(frozen=True)
class _Class:
    """A function with arguments, and the name of the tensor of its values."""

    name: str
    function: str
    idempotent: bool
    arguments: _Arguments


class Classes:
    """Turns polynomials into relations; both sides of a comparison share one, so that equal values
    get equal names: equal at the points of the output in `within`, where that is given.
    """

    def __init__(self, ranges: Mapping[Index, tuple[int, int]], within: isl.Set | None = None):
        self.ranges = ranges
        self.within = within
        self._classes: list[_Class] = []

    def pieces(self, polynomial: Polynomial, point: Sequence[Index]) -> Pieces:
        """Return the terms of a polynomial that are not empty, as relations over the points of
        `point`.
        """
        check_time()
        pieces = []
        for term in polynomial:
            for part in evaluated(term, self.ranges):
                pieces += pieces_of(part, point, self.ranges, self.factor, self._part_of(point))
        return pieces

    def _part_of(self, point: Sequence[Index]) -> isl.Set | None:
        """Return the points that count, by the output's indices among those of `point`, which come
        first.
        """
        if self.within is None:
            return None
        part = self.within
        names = {index.name for index in point}
        for axis in reversed(range(part.dim(isl.dim_type.set))):
            if output_index(axis).name not in names:
                part = part.project_out(isl.dim_type.set, axis, 1)
        return part.add_dims(isl.dim_type.set, len(point) - part.dim(isl.dim_type.set))

    def factor(self, factor: Factor, space: Space, domain: isl.Set) -> tuple[str, isl.Map]:
        """Return a name, and the map from points of `space` to coordinates; equal elements have
        equal names and coordinates.
        """
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
        """Return the class of a function, and the map from the indices it depends on to the
        elements of the class.
        """
        point = opaque.free
        pieces = [self.pieces(argument, point) for argument in opaque.arguments]
        orders = []
        for order in _orders(pieces, opaque.commutative):
            orders.append(_Arguments(order, domain))
        for known in self._classes:
            if known.function == opaque.function:
                for arguments in orders:
                    change = _change(known, arguments)
                    if change is not None:
                        return known.name, change
        name = opaque_name(opaque.function, len(self._classes) + 1)
        self._classes.append(_Class(name, opaque.function, opaque.idempotent, orders[0]))
        return name, Space(point).map(list(map(affine, point)))


def _orders(arguments: list[Pieces], commutative: bool) -> Iterator[Sequence[Pieces]]:
    if not commutative:
        return iter([arguments])
    return islice(permutations(arguments), MAX_ARGUMENT_ORDERS)


def _change(known: _Class, arguments: _Arguments) -> isl.Map | None:
    """Return a map from the points of `arguments` to points at which the class has the same ones;
    None where there is none.
    """
    if known.arguments.heads != arguments.heads:
        return None
    check_time()
    if known.arguments.rank == arguments.rank:
        identity = _identity(arguments.domain)
        if _is_equal_under(identity, known, arguments):
            return identity
    return _change_by_corners(known, arguments)


def _identity(domain: isl.Set) -> isl.Map:
    return isl.Map.identity(domain.get_space().map_from_set())


def _is_equal_under(change: isl.Map, known: _Class, arguments: _Arguments) -> bool:
    """Return whether the class has the same arguments at the points that `change` gives."""
    change = change.intersect_domain(arguments.domain)
    identity = _identity(arguments.domain).intersect_domain(arguments.domain)
    for ours, theirs in zip(known.arguments.pieces, arguments.pieces):
        moved = [_pulled_back(piece, change) for piece in ours]
        unmoved = [_pulled_back(piece, identity) for piece in theirs]
        if difference(moved, unmoved, arguments.rank, known.idempotent):
            return False
    return True


def _heads(pieces: Pieces) -> set[Any]:
    return {piece.heads for piece in pieces}


def _reduction_rank(piece: Piece) -> int:
    """Return the number of axes of the reduction of a piece, the last axes of its domain."""
    return piece.relation.dim(isl.dim_type.in_) - piece.rank


def _pulled_back(piece: Piece, change: isl.Map) -> Piece:
    """Return the piece at the point that `change` gives."""
    reduction = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, _reduction_rank(piece))
    both = change.flat_product(isl.Map.identity(reduction.map_from_set()))
    relation = both.apply_range(piece.relation)
    return Piece(piece.weight, piece.heads, relation, change.dim(isl.dim_type.in_))


def _change_by_corners(known: _Class, arguments: _Arguments) -> isl.Map | None:
    """Return the map that keeps the first and the last coordinates of every kind of term; None
    where there is no such map.
    """
    check_time()
    ours, theirs = known.arguments.corners, arguments.corners
    if ours.keys() != theirs.keys() or not ours:
        return None
    to_corners = product_of([theirs[kind] for kind in ours])
    from_corners = product_of(list(ours.values())).reverse()
    change = to_corners.apply_range(from_corners).intersect_domain(arguments.domain).lexmin()
    if not arguments.domain.is_subset(change.domain()):
        return None
    return change if _is_equal_under(change, known, arguments) else None


def _coordinates(piece: Piece) -> isl.Map:
    """Return `{point -> coordinates}`, whatever the point of the reduction."""
    return piece.relation.project_out(isl.dim_type.in_, piece.rank, _reduction_rank(piece))
