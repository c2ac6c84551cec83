"""Constant tensors in a term are numbers: sums over indices that only they have are carried out,
exactly (design §9).

`Σ_p W[a,p]·U[p,i]·V[p,j]` is a table over the subscripts a, i and j. Every value of the table gives
a term of its own, under conditions that say where it stands: a factorisation's table is 1 exactly
where, say, `i = a + j`, and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm, prod
from typing import Any

import numpy as np

from derive.proof.exact.guards import Conjunction, Ranges, needed
from derive.proof.exact.point_sets import conjunctions_of
from derive.proof.exact.polynomial import ConstantElements, Factor, Polynomial, Term, summed
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.size import sizes_in

MAX_TABLE_POINTS = 400_000  # the indices that are summed over included
MAX_PARTS = 64  # conditions by which the values of a table are told apart
MAX_INT64_SUM = 2**62  # sums that may be larger are Python's integers
Array = np.ndarray[Any, Any]
Weights = list[tuple[Fraction, Conjunction]]


def evaluated(term: Term, ranges: Ranges, max_parts: int = MAX_PARTS) -> Polynomial:
    """Return the term as a sum of terms without constants; those whose tables are too large or too
    irregular stay.
    """
    if not any(map(_is_constant, term.factors)):
        return (term,)
    for group in _groups(term):
        weights = _weights(group, term, ranges, max_parts)
        if weights is not None:
            return _with_weights(term, group, weights, ranges, max_parts)
    return (term,)


def _is_constant(factor: Factor) -> bool:
    return isinstance(factor.head, ConstantElements)


def _with_weights(
    term: Term, group: Sequence[Factor], weights: Weights, ranges: Ranges, max_parts: int
) -> Polynomial:
    """Return the term as one with a number for each value of a group of constants, without the
    other constants too.
    """
    terms: list[Term] = []
    for weight, where in weights:
        for part in _weighted(term, group, weight, where, ranges):
            terms += evaluated(part, ranges, max_parts // len(weights))
    return tuple(terms)


def _weighted(
    term: Term, group: Sequence[Factor], weight: Fraction, where: Conjunction, ranges: Ranges
) -> Polynomial:
    """Return the term with a number under a condition in the place of some factors."""
    replaced = set(map(id, group))
    summed_out = _indices_of_constants(term) & _indices(group)
    others = tuple([factor for factor in term.factors if id(factor) not in replaced])
    without = replace(
        term.without_iterators(summed_out),
        coefficient=term.coefficient * weight,
        factors=others,
    )
    solved = _solved(without.guarded(where), ranges)
    if solved is None:
        return ()
    return summed((replace(solved, iterators=()),), solved.iterators)


def _indices(factors: Iterable[Factor]) -> set[Index]:
    indices: set[Index] = set()
    for factor in factors:
        indices |= factor.indices()
    return indices


def _groups(term: Term) -> list[list[Factor]]:
    """Return the constants of a term, those together that share an index which only constants
    have.
    """
    of_constants = _indices_of_constants(term)
    groups: list[tuple[set[Index], list[Factor]]] = []
    for factor in filter(_is_constant, term.factors):
        shared = of_constants & factor.indices()
        together, members = set(shared), list[Factor]()
        others = []
        for group in groups:
            if shared.isdisjoint(group[0]):
                others.append(group)
            else:
                together |= group[0]
                members += group[1]
        groups = [*others, (together, [*members, factor])]
    return [factors for _, factors in groups]


def _indices_of_constants(term: Term) -> set[Index]:
    """Return the summed indices that occur in constants only, and there apart from all others."""
    indices = set(term.bound)
    atoms: list[set[Index]] = []
    for factor in term.factors:
        if _is_constant(factor):
            atoms += _atoms(factor)
        else:
            indices -= factor.indices()
    for condition in term.where:
        indices -= condition.indices
    while True:
        mixed: set[Index] = set()
        for atom in atoms:
            if not atom <= indices:
                mixed |= atom & indices
        if not mixed:
            return indices
        indices -= mixed


def _atoms(factor: Factor) -> list[set[Index]]:
    """Return the indices of every summand of the subscripts: `[{i}, {j, k}]` for
    `C[i, (j + k)//2]`.
    """
    return [_atom_indices(atom) for form in factor.subscripts for atom, _ in form.terms]


def _atom_indices(atom: Any) -> set[Index]:
    return {atom} if isinstance(atom, Index) else set(atom.argument.indices)


@dataclass(frozen=True)
class _TableAxes:
    """The axes of a table: the parts of subscripts that stay, then the indices that are summed
    over, each with its half-open range.
    """

    outer: list[Affine]
    outer_ranges: list[tuple[int, int]]
    inner: list[Index]
    inner_ranges: list[tuple[int, int]]

    @property
    def outer_extents(self) -> list[int]:
        return _extents(self.outer_ranges)

    @property
    def inner_extents(self) -> list[int]:
        return _extents(self.inner_ranges)

    @property
    def rank(self) -> int:
        return len(self.outer) + len(self.inner)

    def grids(self) -> list[Array]:
        """Return the values along every axis, as arrays that broadcast to the table."""
        grids = []
        for axis, (low, high) in enumerate([*self.outer_ranges, *self.inner_ranges]):
            shape = [1] * self.rank
            shape[axis] = -1
            grids.append(np.arange(low, high).reshape(shape))
        return grids


def _extents(ranges: Iterable[tuple[int, int]]) -> list[int]:
    return [high - low for low, high in ranges]


def _table_axes(group: Sequence[Factor], term: Term, ranges: Ranges) -> _TableAxes:
    inner = sorted(_indices_of_constants(term) & _indices(group), key=str)
    outer: dict[Affine, tuple[int, int]] = {}
    for factor in group:
        for subscript in factor.subscripts:
            form, _ = _separated(subscript, inner)
            if form.terms and form not in outer:
                low, high = form.interval(ranges)
                outer[form] = low, high + 1
    inner_ranges = [ranges[index] for index in inner]
    return _TableAxes(list(outer), list(outer.values()), inner, inner_ranges)


def _weights(group: Sequence[Factor], term: Term, ranges: Ranges, max_parts: int) -> Weights | None:
    """Return the values of a product of constants, summed over the indices that only they have,
    with the conditions under which each stands; None where these are too many.
    """
    axes = _table_axes(group, term, ranges)
    if sizes_in(limit for pair in (*axes.outer_ranges, *axes.inner_ranges) for limit in pair):
        return None
    if prod([*axes.outer_extents, *axes.inner_extents]) > MAX_TABLE_POINTS:
        return None
    table, denominator = _table(group, axes)
    origin = np.array([low for low, _ in axes.outer_ranges], np.int64)
    weights: Weights = []
    for value in sorted(set(map(int, table.ravel())) - {0}):
        points = np.argwhere(table == value) + origin
        for part in conjunctions_of(points, axes.outer):
            where = needed(part, ranges)
            if where is not None:
                weights.append((Fraction(value, denominator), where))
            if len(weights) > max_parts:
                return None
    return weights


def _separated(subscript: Affine, inner: Iterable[Index]) -> tuple[Affine, Affine]:
    """Return the part of a subscript without the inner indices and without its constant, and the
    rest.
    """
    terms = tuple([t for t in subscript.terms if _atom_indices(t[0]).isdisjoint(inner)])
    outer = Affine.from_normal_form(terms, 0)
    return outer, subscript - outer


def _table(group: Sequence[Factor], axes: _TableAxes) -> tuple[Array, int]:
    """Return the product of the constants at every value of the outer forms, summed over the inner
    indices: integers, and their denominator.
    """
    grids = axes.grids()
    outer = dict(zip(axes.outer, grids))
    inner = dict(zip(axes.inner, grids[len(axes.outer) :]))
    integers = [_integers(factor.head) for factor in group]
    denominator, bound = 1, prod(axes.inner_extents)
    for values, its_denominator in integers:
        denominator *= its_denominator
        bound *= max(map(abs, values), default=0)
    dtype = np.int64 if bound < MAX_INT64_SUM else object
    total: Any = np.ones([1] * axes.rank, dtype)
    for factor, (values, _) in zip(group, integers):
        total = total * _elements(factor, np.array(values, total.dtype), outer, inner)
    whole = np.broadcast_to(total, [*axes.outer_extents, *axes.inner_extents])
    return whole.sum(axis=tuple(range(len(axes.outer), axes.rank))), denominator


def _integers(head: Any) -> tuple[list[int], int]:
    """Return the elements of a constant as integers, and their denominator."""
    denominator = lcm(*(value.denominator for value in head.values))
    return [int(value * denominator) for value in head.values], denominator


def _elements(
    factor: Factor, numbers: Array, outer: dict[Affine, Array], inner: dict[Index, Array]
) -> Array:
    """Return the elements of one constant on the grid; 0 at points that its box excludes, which no
    expression reads.
    """
    assert isinstance(factor.head, ConstantElements)
    place: Any = 0
    inside: Any = True
    for subscript, extent in zip(factor.subscripts, factor.head.shape):
        form, rest = _separated(subscript, inner)
        coordinate = rest.evaluate(inner)
        if form.terms:
            coordinate = coordinate + outer[form]
        inside = inside & (coordinate >= 0) & (coordinate < extent)
        place = place * extent + coordinate
    if not numbers.size:
        return np.zeros_like(np.asarray(place), dtype=numbers.dtype)
    return np.where(inside, numbers[np.where(inside, place, 0)], 0)


def _solved(term: Term, ranges: Ranges) -> Term | None:
    """Return the term without the summed indices that an equation determines; None where the ranges
    exclude its conditions.
    """

    def needed_conditions(choice: Term) -> int:
        return len(needed(choice.where, ranges) or ())

    while True:
        where = needed(term.where, ranges)
        if where is None:
            return None
        term = replace(term, where=where)
        choices = [_substituted(term, *determined, ranges) for determined in _determined(term)]
        if not choices:
            return term
        term = min(choices, key=needed_conditions)


def _determined(term: Term) -> Iterator[tuple[Constraint, Index, Affine]]:
    """Yield equations `index = value` for summed indices."""
    for equation in term.where:
        if equation.relation != "==":
            continue
        for atom, coefficient in equation.form.terms:
            if isinstance(atom, Index) and abs(coefficient) == 1 and atom in term.bound:
                own_term = Affine.from_normal_form(((atom, coefficient),), 0)
                value = (equation.form - own_term).scaled(-coefficient)
                if atom not in value.indices:
                    yield equation, atom, value


def _substituted(
    term: Term, equation: Constraint, index: Index, value: Affine, ranges: Ranges
) -> Term:
    """Return a term with a value in the place of an index, by an equation that says so."""
    mapping = {index: value}
    low, high = ranges[index]
    where = [c.substitute(mapping) for c in term.where if c is not equation]
    where += [Constraint(value - low, ">="), Constraint(-value + (high - 1), ">=")]
    factors = tuple([factor.substitute(mapping) for factor in term.factors])
    without = term.without_iterators({index})
    return replace(without, where=tuple(dict.fromkeys(where)), factors=factors)
