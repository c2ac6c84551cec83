"""Polynomials compared as integer relations with multiplicity: exact, and exact about where they differ (design §9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, permutations, product
from math import factorial, prod
from typing import Any

import islpy as isl
import sympy

from derive.proof.polynomials import OutsideFragment, Polynomial, Symbol, Term
from einalg.affine import Index, affine
from einalg.polyhedra import Space
from einalg.scope import IDENTITY
from einalg.scope import Iterator as Range

MOST_LEVELS = 6  # of multiplicity that are counted
MOST_ORDERS = 24  # of the factors of one tensor
MOST_PIECES = 64

Piece = tuple[Any, isl.Set]  # coefficient, and the points (output, coordinates of every factor) that have it


def difference(box: Sequence[Range], one: Polynomial, two: Polynomial) -> isl.Set:
    """The output points at which two polynomials are not the same; empty exactly where they are equal everywhere."""
    opposite = tuple(Term(-t.coefficient, t.iterators, t.where, t.factors) for t in two)
    region = isl.Set.empty(Space([it.index for it in box]).space)
    for _, terms in groupby(sorted((*one, *opposite), key=_monomial), key=_monomial):
        for coefficient, points in _sum([p for t in terms for p in _pieces(box, t)]):
            if not _is_zero(coefficient):
                region = region.union(_project(points, len(box), region))
    return region.coalesce()


def same_symbols(one: Symbol, two: Symbol) -> bool:
    """Whether two symbols of one function have equal arguments at every point of their box."""
    box = [Range(Index(f"y{k}"), low, high) for k, (low, high) in enumerate(one.box)]
    if one.iterators or two.iterators:
        return _same_elements(box, one, two) or _same_reduction(box, one, two)
    if len(one.arguments) != len(two.arguments):
        return False
    commutes = one.function in ("Max", "Min", "And", "Or") and len(one.arguments) <= 4
    orders = permutations(two.arguments) if commutes else (two.arguments,)
    return any(all(difference(box, a, b).is_empty() for a, b in zip(one.arguments, order)) for order in orders)


def _same_elements(box: Sequence[Range], one: Symbol, two: Symbol) -> bool:
    """A maximum of elements depends on the set of the elements only: relations without multiplicity decide."""
    if one.function not in ("Max", "Min"):
        return False
    first, second = _elements(one), _elements(two)
    if first is None or second is None or _monomial(first) != _monomial(second) or first.coefficient != second.coefficient:
        return False
    images = [relation.intersect_domain(points).range() for points, relation in (_relation(box, t, t.factors) for t in (first, second))]
    return images[0].is_equal(images[1])


def _elements(symbol: Symbol) -> Term | None:
    """The reduction as a single element at each of its points, if it is one; its identity counts as no element."""
    identity = str(IDENTITY[symbol.function])
    body = [t for t in symbol.arguments[0] if t.factors != ((identity, ()),)]
    if len(body) != 1 or body[0].iterators or len(body[0].factors) != 1:
        return None
    return Term(body[0].coefficient, symbol.iterators, (*symbol.where, *body[0].where), body[0].factors)


def _same_reduction(box: Sequence[Range], one: Symbol, two: Symbol) -> bool:
    """The same body over the same domain, point by point, whatever the reduction is."""
    if len(one.iterators) != len(two.iterators):
        return False
    for order in permutations(two.iterators):
        if [(i.low, i.high) for i in one.iterators] == [(i.low, i.high) for i in order]:
            names = {b.index: affine(a.index) for a, b in zip(one.iterators, order)}
            renamed = tuple(_renamed(t, names) for t in two.arguments[0])
            if {c.substitute(names) for c in two.where} == set(one.where):
                return difference([*box, *one.iterators], one.arguments[0], renamed).is_empty()
    return False


def _renamed(term: Term, names: Any) -> Term:
    factors = tuple((name, tuple(s.substitute(names) for s in subscripts)) for name, subscripts in term.factors)
    return Term(term.coefficient, term.iterators, tuple(c.substitute(names) for c in term.where), factors)


def _monomial(term: Term) -> tuple[str, ...]:
    return tuple(sorted(_factor(f) for f in term.factors))


def _factor(factor: tuple[str, Any]) -> str:
    return factor[0]


def _is_zero(coefficient: Any) -> bool:
    return coefficient == 0 or (not coefficient.is_Rational and sympy.simplify(coefficient) == 0)


def _pieces(box: Sequence[Range], term: Term) -> list[Piece]:
    """A term as relations that hold once: factors of one tensor in every order, multiplicity in levels."""
    term = _without_unused(term)
    if term.coefficient == 0:
        return []
    by_name = [list(group) for _, group in groupby(sorted(term.factors, key=_factor), key=_factor)]
    if prod(factorial(len(g)) for g in by_name) > MOST_ORDERS:
        raise OutsideFragment("too many factors of one tensor")
    pieces = []
    for order in product(*(permutations(g) for g in by_name)):
        factors = [f for group in order for f in group]
        pieces += [(term.coefficient, level) for level in _levels(*_relation(box, term, factors))]
    return pieces


def _without_unused(term: Term) -> Term:
    """An index that occurs nowhere multiplies the term by its extent."""
    used = {i for _, subscripts in term.factors for s in subscripts for i in s.indices} | {i for c in term.where for i in c.indices}
    idle = [it for it in term.iterators if it.index not in used]
    if not idle:
        return term
    kept = tuple(it for it in term.iterators if it.index in used)
    return Term(term.coefficient * prod(max(0, it.extent) for it in idle), kept, term.where, term.factors)


def _relation(box: Sequence[Range], term: Term, factors: Any) -> tuple[isl.Set, isl.Map]:
    """The points (output, summed indices) of a term, and the map from them to (output, coordinates)."""
    space = Space([*(it.index for it in box), *(it.index for it in term.iterators)])
    points = space.set([*box, *term.iterators], term.where)
    forms = [affine(it.index) for it in box] + [s for _, subscripts in factors for s in subscripts]
    return points, space.map(forms)


def _levels(points: isl.Set, relation: isl.Map) -> list[isl.Set]:
    """The images that are hit at least once, at least twice, …"""
    on_points = relation.intersect_domain(points)
    if on_points.is_injective():
        return [on_points.range()]
    levels = [on_points.range()]
    same = on_points.apply_range(on_points.reverse())
    smaller = same.intersect(isl.Map.lex_lt(points.get_space()))
    chains = points  # the last points of chains of that many different points with one image
    while True:
        chains = smaller.intersect_domain(chains).range()
        if chains.is_empty():
            return levels
        if len(levels) >= MOST_LEVELS:
            raise OutsideFragment(f"an element is used more than {MOST_LEVELS} times")
        levels.append(on_points.intersect_domain(chains).range())


def _sum(pieces: list[Piece]) -> list[Piece]:
    """Disjoint pieces with the total coefficient on each; equal and opposite ones cancel first."""
    parts: list[Piece] = []
    for coefficient, points in pieces:
        if points.is_empty():
            continue
        match = next((k for k, (c, p) in enumerate(parts) if c == -coefficient and p.is_equal(points)), None)
        if match is None:
            parts.append((coefficient, points))
        else:
            parts.pop(match)
    return _refined(parts)


def _refined(parts: list[Piece]) -> list[Piece]:
    disjoint: list[Piece] = []
    for coefficient, points in parts:
        rest, found = points, []
        for known, area in disjoint:
            both = area.intersect(rest)
            if both.is_empty():
                found.append((known, area))
                continue
            found.append((known + coefficient, both))
            only = area.subtract(rest)
            if not only.is_empty():
                found.append((known, only))
            rest = rest.subtract(both)
        if not rest.is_empty():
            found.append((coefficient, rest))
        if len(found) > MOST_PIECES:
            raise OutsideFragment("too many pieces")
        disjoint = [(c, p.coalesce()) for c, p in found]
    return disjoint


def _project(points: isl.Set, rank: int, like: isl.Set) -> isl.Set:
    outputs = points.project_out(isl.dim_type.set, rank, points.dim(isl.dim_type.set) - rank)
    for k in range(rank):
        outputs = outputs.set_dim_name(isl.dim_type.set, k, like.get_dim_name(isl.dim_type.set, k))
    return outputs
