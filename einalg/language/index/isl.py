"""Domains and access relations as isl objects, derived when asked (design §3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import RLock
from typing import Any

import islpy as isl

from einalg.errors import RuleError
from einalg.language.index.affine import Affine, Atom, FloorDiv, Index, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine as to_affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.size import Extent, Size, by_name, is_number

MAX_OPERATIONS = 2_000_000  # about a second of isl's time
MAX_MACHINE_NUMBER = 2**31  # isl takes longer ones as text
_CONTEXT_LOCK = RLock()  # the count of operations belongs to isl's context, which all threads share


@contextmanager
def bounded(operations: int = MAX_OPERATIONS) -> Iterator[None]:
    """Give up with `isl.Error` after that many isl operations, so that no question can blow up. One
    thread at a time asks.
    """
    context = isl.DEFAULT_CONTEXT
    with _CONTEXT_LOCK:
        before = context.get_max_operations()
        context.reset_operations()
        context.set_max_operations(operations)
        try:
            yield
        finally:
            context.set_max_operations(before)
            context.reset_operations()


def _value(number: int) -> isl.Val:
    """Return a whole number of any length."""
    return isl.Val(number) if abs(number) < MAX_MACHINE_NUMBER else isl.Val(str(number))


def all_values(sizes: Iterable[Size]) -> isl.Set:
    """Return the values that some sizes may have, as an isl set of parameters."""
    ordered = list(by_name(sizes).values())
    names = [size.name for size in ordered]
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=names).params()
    values = isl.Set.universe(space)
    for position, one in enumerate(ordered):
        values = values.lower_bound_val(isl.dim_type.param, position, _value(one.at_least))
        if one.at_most is not None:
            values = values.upper_bound_val(isl.dim_type.param, position, _value(one.at_most))
        if one.multiple_of > 1:
            aff = isl.Aff.var_on_domain(
                isl.LocalSpace.from_space(space), isl.dim_type.param, position
            ).mod_val(_value(one.multiple_of))
            values = values.intersect(aff.zero_basic_set().to_set())
    return values


def number_of_points(iterators: Sequence[LoopIndex], where: Sequence[Constraint]) -> int | None:
    """Return how many integer points of these ranges meet some conditions; None where that would
    take long to count.

    >>> i, j = Index("i"), Index("j")
    >>> number_of_points([LoopIndex(i, 0, 4), LoopIndex(j, 0, 4)], [Constraint(i - j, ">=")])
    10
    """
    in_conditions = set().union(*(condition.indices for condition in where))
    free_points, conditioned = 1, []
    for it in iterators:
        if it.index in in_conditions:
            conditioned.append(it)
        else:
            free_points *= it.extent
    if not conditioned:
        return free_points if all(condition.truth for condition in where) else 0
    try:
        with bounded():
            points = Space([it.index for it in conditioned]).set(conditioned, where)
            return free_points * points.count_val().get_num_si()
    except isl.Error:
        return None


class Space:
    """The integer points of some named indices: the space in which sets and maps are built without
    parsing. `sizes` are its parameters.
    """

    def __init__(self, indices: Sequence[Index], sizes: Sequence[Any] = ()):
        self.indices, self.sizes = tuple(indices), tuple(sizes)
        names = [index.name for index in self.indices]
        parameters = [size.name for size in self.sizes]
        self.space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=names, params=parameters)
        self._local = isl.LocalSpace.from_space(self.space)
        self._variables: dict[Index, isl.Aff] = {}
        for kind, atoms in ((isl.dim_type.set, self.indices), (isl.dim_type.param, self.sizes)):
            for position, atom in enumerate(atoms):
                self._variables[atom] = isl.Aff.var_on_domain(self._local, kind, position)

    def over(self, forms: Iterable[Affine]) -> Space:
        """Return the space whose parameters are the sizes of some forms and its own."""
        sizes: set[Size] = set()
        for form in forms:
            if form.sizes:
                sizes |= form.sizes
        if sizes.issubset(self.sizes):
            return self
        together = sizes.union(self.sizes)
        return _space(self.indices, tuple(sorted(together, key=lambda size: size.sort_tuple)))

    def aff(self, form: Affine) -> isl.Aff:
        """Return a quasi-affine form as an isl affine expression over this space, or over it with
        more parameters.
        """
        if form.sizes:
            return self.over((form,))._aff(form)
        return self._aff(form)

    def _aff(self, form: Affine) -> isl.Aff:
        total = isl.Aff.val_on_domain_space(self.space, _value(form.const))
        for atom, coefficient in form.terms:
            value = self._atom(atom)
            if coefficient != 1:
                value = value.scale_val(_value(coefficient))
            total = total.add(value)
        return total

    def _atom(self, atom: Atom) -> isl.Aff:
        if isinstance(atom, Index):
            return self._variables[atom]
        inner, divisor = self._aff(atom.argument), _value(atom.divisor)
        if isinstance(atom, FloorDiv):
            return inner.scale_down_val(divisor).floor()
        return inner.mod_val(divisor)

    def universe(self) -> isl.Set:
        return isl.Set.universe(self.space)

    def where(self, constraint: Constraint) -> isl.Set:
        """Return the points at which a condition holds."""
        space = self.over((constraint.form,))
        aff, zero = space._aff(constraint.form), isl.Aff.zero_on_domain(space._local)
        if constraint.relation == ">=":
            return aff.ge_set(zero)
        return aff.eq_set(zero)

    def between(self, form: Affine, low: Extent, high: Extent) -> isl.Set:
        """Return the points at which `low <= form < high`."""
        return self.where(Constraint(form - low, ">=")).intersect(
            self.where(Constraint(-form + (high - 1), ">="))
        )

    def set(self, iterators: Sequence[LoopIndex], where: Sequence[Constraint] = ()) -> isl.Set:
        """Return the box of `iterators`, cut by `where`."""
        return _points(self.indices, tuple(iterators), tuple(where))

    def _box(self, iterators: Sequence[LoopIndex]) -> isl.Set:
        points = self.universe()
        for it in iterators:
            if not (is_number(it.low) and is_number(it.high)):
                points = points.intersect(self.between(to_affine(it.index), it.low, it.high))
                continue
            k = self.indices.index(it.index)
            points = points.lower_bound_val(isl.dim_type.set, k, _value(it.low)).upper_bound_val(
                isl.dim_type.set, k, _value(it.high - 1)
            )
        return points

    def map(self, forms: Sequence[Affine]) -> isl.Map:
        """Return the map from a point to the values of `forms`."""
        return _map(self.indices, self.sizes, tuple(forms))

    def _map(self, forms: Sequence[Affine]) -> isl.Map:
        affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(forms))
        for form in forms:
            affs = affs.add(self._aff(form))
        space = self.space.from_domain().add_dims(isl.dim_type.out, len(forms))
        return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(space, affs))


@lru_cache(maxsize=8192)  # a space for each condition of a box
def _space(indices: tuple[Index, ...], sizes: tuple[Any, ...]) -> Space:
    return Space(indices, sizes)


@lru_cache(maxsize=8192)
def _points(
    indices: tuple[Index, ...], iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> isl.Set:
    space = Space(indices)
    points = space._box(iterators)
    for constraint in where:
        points = points.intersect(space.where(constraint))
    return points


@lru_cache(maxsize=8192)
def _map(indices: tuple[Index, ...], sizes: tuple[Any, ...], forms: tuple[Affine, ...]) -> isl.Map:
    return Space(indices, sizes).over(forms)._map(forms)


def domain_set(iterators: Sequence[LoopIndex], where: Sequence[Constraint] = ()) -> isl.Set:
    """Return the integer points of a domain."""
    return Space([it.index for it in iterators]).set(iterators, where)


def access_relation(indices: Iterable[Index], subscripts: Sequence[Affine]) -> isl.Map:
    """Return the map from the indices of an access, sorted by name, to the element that it
    reads.
    """
    return Space(sorted(indices, key=lambda index: index.name)).map(subscripts)


def box_set(box: Sequence[tuple[int, int]]) -> isl.Set:
    """Return the integer points of a box, without names."""
    iterators = [LoopIndex(Index(f"d{k}"), low, high) for k, (low, high) in enumerate(box)]
    points = domain_set(iterators)
    for k in range(len(box)):
        points = points.set_dim_name(isl.dim_type.set, k, f"d{k}")
    return points


def listed_points(points: isl.Set) -> list[tuple[int, ...]]:
    """Return all points of a bounded set without parameters.

    >>> sorted(listed_points(isl.Set("{ [i, j] : 0 <= i <= j < 2 }")))
    [(0, 0), (0, 1), (1, 1)]
    """
    listed: list[isl.Point] = []
    points.foreach_point(listed.append)  # no Python code, in which an interrupt would be lost
    rank = points.dim(isl.dim_type.set)
    return [_coordinates(point, rank) for point in listed]


def _coordinates(point: isl.Point, rank: int) -> tuple[int, ...]:
    axes = range(rank)
    return tuple(_integer(point.get_coordinate_val(isl.dim_type.set, axis)) for axis in axes)


def affine_of(aff: isl.Aff, indices: Sequence[Index]) -> Affine:
    """Read an isl affine expression over `indices` back; RuleError where it is not integral."""
    numerator = to_affine(_integer(aff.get_constant_val().mul(_denominator(aff))))
    for k, index in enumerate(indices):
        coefficient = aff.get_coefficient_val(isl.dim_type.in_, k).mul(_denominator(aff))
        numerator = numerator + to_affine(index).scaled(_integer(coefficient))
    for k in range(aff.dim(isl.dim_type.div)):
        coefficient = aff.get_coefficient_val(isl.dim_type.div, k).mul(_denominator(aff))
        if not coefficient.is_zero():
            numerator = numerator + _read_div(aff.get_div(k), indices).scaled(_integer(coefficient))
    denominator = _integer(_denominator(aff))
    if denominator == 1:
        return numerator
    if modulo(numerator, denominator).terms:
        raise RuleError(f"the map is not integral: ({numerator})/{denominator}")
    return floordiv(numerator, denominator)


def _read_div(div: isl.Aff, indices: Sequence[Index]) -> Affine:
    """Read a div of isl, the floor of a rational affine expression."""
    denominator = _integer(_denominator(div))
    return floordiv(affine_of(div.scale_val(_value(denominator)), indices), denominator)


def _denominator(aff: isl.Aff) -> isl.Val:
    return aff.get_denominator_val()


def _integer(value: isl.Val) -> int:
    return int(value.to_python())
