"""Constant tensors in a term are numbers: sums over indices that only they have are carried out, exactly (design §9).

`Σ_p W[a,p]·U[p,i]·V[p,j]` is a table over the subscripts a, i and j. Every value of the table gives a term of its own, under
conditions that say where it is taken: a factorisation's table is 1 exactly where, say, `i = a + j`, and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm, prod
from typing import Any

import numpy as np

from derive.proof.exact.guards import Conjunction, Ranges, needed
from derive.proof.exact.point_sets import conjunctions_of
from derive.proof.exact.polynomial import Factor, ConstantElements, Polynomial, Term, summed
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint

MOST_POINTS = 400_000  # of a table, the indices that are summed over included
MOST_PARTS = 64  # conditions by which the values of a table are told apart
LARGEST_SUM = 2**62
Array = np.ndarray[Any, Any]
Weights = list[tuple[Fraction, Conjunction]]


def evaluated(term: Term, ranges: Ranges, most: int = MOST_PARTS) -> Polynomial:
    """The term as a sum of terms without constants; those whose tables are too large or too irregular stay."""
    if not any(isinstance(f.head, ConstantElements) for f in term.factors):
        return (term,)
    for group in _groups(term):
        found = _weights(group, term, ranges, most)
        if found is not None:
            parts = (
                part
                for weight, where in found
                for part in _weighted(term, group, weight, where, ranges)
            )
            return tuple(
                made for part in parts for made in evaluated(part, ranges, most // len(found))
            )
    return (term,)


def _weighted(
    term: Term, group: Sequence[Factor], weight: Fraction, where: Conjunction, ranges: Ranges
) -> Polynomial:
    """The term with a number under a condition in the place of some factors."""
    left = tuple(f for f in term.factors if not any(f is g for g in group))
    gone = _own_indices(term) & {i for f in group for s in f.subscripts for i in s.indices}
    iterators = tuple(it for it in term.iterators if it.index not in gone)
    made = replace(
        term, coefficient=term.coefficient * weight, iterators=iterators, factors=left
    ).guarded(where)
    solved = _solved(made, ranges)
    return () if solved is None else summed((replace(solved, iterators=()),), solved.iterators)


def _groups(term: Term) -> list[list[Factor]]:
    """The constants of a term, those together that share an index which only constants have."""
    own = _own_indices(term)
    groups: list[tuple[set[Index], list[Factor]]] = []
    for factor in term.factors:
        if isinstance(factor.head, ConstantElements):
            shared = own & {i for s in factor.subscripts for i in s.indices}
            joined = [g for g in groups if g[0] & shared]
            groups = [g for g in groups if not any(g is j for j in joined)]
            groups.append(
                (
                    shared.union(*(g[0] for g in joined)),
                    [*(f for g in joined for f in g[1]), factor],
                )
            )
    return [factors for _, factors in groups]


def _own_indices(term: Term) -> set[Index]:
    """Summed indices that occur in constants only, and there apart from all others."""
    known = [f for f in term.factors if isinstance(f.head, ConstantElements)]
    others = {
        i
        for f in term.factors
        if not isinstance(f.head, ConstantElements)
        for s in f.subscripts
        for i in s.indices
    }
    own = {it.index for it in term.iterators} - others - {i for c in term.where for i in c.indices}
    atoms = [_indices(atom) for f in known for s in f.subscripts for atom, _ in s.terms]
    grown = True
    while grown:
        mixed = {i for atom in atoms if not atom <= own for i in atom & own}
        own -= mixed
        grown = bool(mixed)
    return own


def _indices(atom: Any) -> set[Index]:
    return {atom} if isinstance(atom, Index) else set(atom.argument.indices)


def _weights(group: Sequence[Factor], term: Term, ranges: Ranges, most: int) -> Weights | None:
    """The values of a product of constants, summed over its own indices, with the conditions under which each is taken."""
    own = sorted(
        _own_indices(term) & {i for f in group for s in f.subscripts for i in s.indices}, key=str
    )
    kept = list(
        dict.fromkeys(
            part for f in group for s in f.subscripts if (part := _apart(s, own)[0]).terms
        )
    )
    bounds = [form.interval(ranges) for form in kept]
    extents = [high + 1 - low for low, high in bounds]
    sums = [ranges[index] for index in own]
    if prod(extents) * prod(high - low for low, high in sums) > MOST_POINTS:
        return None
    table, scale = _table(group, own, kept, [*((low, high + 1) for low, high in bounds), *sums])
    found: Weights = []
    for value in sorted({int(v) for v in table.ravel()} - {0}):
        points = np.argwhere(table == value) + np.array([low for low, _ in bounds], np.int64)
        for part in conjunctions_of(points, kept):
            where = needed(part, ranges)
            if where is not None:
                found.append((Fraction(value, scale), where))
            if len(found) > most:
                return None
    return found


def _apart(subscript: Affine, own: Iterable[Index]) -> tuple[Affine, Affine]:
    """The part of a subscript without the own indices and without its constant, and the rest."""
    terms = tuple((atom, c) for atom, c in subscript.terms if _indices(atom).isdisjoint(own))
    kept = Affine.from_normal_form(terms, 0)
    return kept, subscript - kept


def _table(
    group: Sequence[Factor],
    own: Sequence[Index],
    kept: Sequence[Affine],
    axes: Sequence[tuple[int, int]],
) -> tuple[Array, int]:
    """The product of the constants at every value of the kept forms, summed over the own indices: integers, and their denominator."""
    grids = [
        np.arange(*bounds).reshape([-1 if k == axis else 1 for k in range(len(axes))])
        for axis, bounds in enumerate(axes)
    ]
    values = dict(zip(kept, grids)), dict(zip(own, grids[len(kept) :]))
    scale, bound, tables = 1, prod(high - low for low, high in axes[len(kept) :]), []
    for factor in group:
        numbers, denominator = _integers(factor.head)
        bound *= max((abs(n) for n in numbers), default=0)
        scale *= denominator
        tables.append((factor, numbers))
    total: Any = np.ones([1] * len(axes), np.int64 if bound < LARGEST_SUM else object)
    for factor, numbers in tables:
        total = total * _elements(factor, np.array(numbers, total.dtype), *values)
    shape = [high - low for low, high in axes]
    return np.broadcast_to(total, shape).sum(axis=tuple(range(len(kept), len(axes)))), scale


def _integers(head: Any) -> tuple[list[int], int]:
    denominator = lcm(*(v.denominator for v in head.values))
    return [int(v * denominator) for v in head.values], denominator


def _elements(
    factor: Factor, numbers: Array, kept: dict[Affine, Array], own: dict[Index, Array]
) -> Array:
    """The elements of one constant on the grid; 0 at points that its box excludes, which no expression reads."""
    place: Any = 0
    inside: Any = True
    for subscript, extent in zip(factor.subscripts, factor.head.shape):  # pyright: ignore[reportAttributeAccessIssue]
        outer, rest = _apart(subscript, own)
        index = rest.evaluate(own) + (kept[outer] if outer.terms else 0)
        inside = inside & (index >= 0) & (index < extent)
        place = place * extent + index
    if not numbers.size:
        return np.zeros_like(np.asarray(place), dtype=numbers.dtype)
    return np.where(inside, numbers[np.where(inside, place, 0)], 0)


def _solved(term: Term, ranges: Ranges) -> Term | None:
    """The term without the summed indices that an equation determines; None where the ranges exclude its conditions."""
    while True:
        where = needed(term.where, ranges)
        if where is None:
            return None
        term = replace(term, where=where)
        choices = [_substituted(term, *found, ranges) for found in _determined(term)]
        if not choices:
            return term
        term = min(choices, key=lambda made: len(needed(made.where, ranges) or ()))


def _determined(term: Term) -> Iterator[tuple[Constraint, Index, Affine]]:
    """Equations `index = value` for summed indices; the fewer conditions are left, the better one is."""
    for equation in term.where:
        if equation.relation == "==":
            for atom, coefficient in equation.form.terms:
                if isinstance(atom, Index) and abs(coefficient) == 1 and atom in term.bound:
                    value = (
                        equation.form - Affine.from_normal_form(((atom, coefficient),), 0)
                    ).scaled(-coefficient)
                    if atom not in value.indices:
                        yield equation, atom, value


def _substituted(
    term: Term, equation: Constraint, index: Index, value: Affine, ranges: Ranges
) -> Term:
    mapping = {index: value}
    low, high = ranges[index]
    bounds = (Constraint(value - low, ">="), Constraint(-value + (high - 1), ">="))
    where = (*(c.substitute(mapping) for c in term.where if c is not equation), *bounds)
    factors = tuple(
        replace(f, subscripts=tuple(s.substitute(mapping) for s in f.subscripts))
        for f in term.factors
    )
    return replace(
        term,
        iterators=tuple(it for it in term.iterators if it.index != index),
        where=tuple(dict.fromkeys(where)),
        factors=factors,
    )
