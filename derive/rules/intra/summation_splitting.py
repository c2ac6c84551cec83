"""Summation splitting: part of a reduction moves into an inner scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import Any

import sympy

from derive.rewriting.body_queries import enclosing_domain, reduction_at, replace_reduction
from derive.rewriting.moves import Example, Rule
from einalg.errors import EinalgError, RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.analysis.validate import check_scope
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses, reductions

MOST_CHOICES = 10  # subsets of the indices of one reduction, before those that stand side by side move together


def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """The ways to keep some of a reduction's indices outside: all of them if they are few, else by what stands side by side."""
    for position, node in enumerate(reductions(scope.body)):
        least = 0 if node is not scope.body else 1
        groups = [[i] for i in node.indices]
        if 2 ** len(groups) > MOST_CHOICES:
            groups = _side_by_side(node)
        for size in range(least, len(groups)):
            for chosen in islice(combinations(groups, size), MOST_CHOICES):
                outer = {i for group in chosen for i in group}
                yield {"reduction": position, "outer": [i.name for i in node.indices if i in outer]}


def _side_by_side(node: Reduce) -> list[list[Index]]:
    """The indices of a reduction, those together that occur in the same reads with the same strides (`r` and `s` of a window)."""
    groups: dict[Any, list[Index]] = {}
    for index in node.indices:
        uses = [
            (k, s.coefficient(index), len(s.terms) == 1)
            for k, a in enumerate(accesses(node.body))
            for s in a.subscripts
            if index in s.indices
        ]
        groups.setdefault(tuple(uses), []).append(index)
    return list(groups.values())


def split(scope: Scope, reduction: int, outer: Sequence[str]) -> Scope:
    """Keep `outer` of a reduction's indices; the others are reduced by an inner scope.

    Factors that do not depend on the inner indices stay outside (unless a condition on these guards them), and the inner scope
    has only the indices that it uses.
    """
    node = reduction_at(scope, reduction)
    kept = [it for it in node.iterators if it.index.name in outer]
    moved = [it for it in node.iterators if it.index.name not in outer]
    if len(kept) != len(set(outer)):
        raise RuleError(
            f"the reduction has the indices {', '.join(map(str, node.indices))}, not all of {', '.join(outer)}"
        )
    if not moved:
        raise RuleError(
            "no index is left to move into the inner scope\n  leave at least one index out of `outer`"
        )
    inside = tuple(c for c in node.where if not c.indices.isdisjoint(it.index for it in moved))
    factor, inner_body = (
        _independent_factor(node, {it.index for it in moved})
        if not inside
        else (sympy.S.One, node.body)
    )
    outside = tuple(c for c in node.where if c not in inside)
    inner = _inner_scope(scope, node, (kept, moved), (inside, outside), inner_body)
    read = Access.of(inner, tuple(affine(i) for i in inner.indices)) * factor
    outer_body = Reduce(node.op, kept, outside, read) if kept or outside else read
    return simplify_scope(replace_reduction(scope, node, outer_body))


def _independent_factor(node: Reduce, moved: set[Index]) -> tuple[Any, Any]:
    """The factors of a sum's body that the moved indices do not occur in, and the rest."""
    if node.op != "Sum" or not isinstance(node.body, sympy.Mul):
        return sympy.S.One, node.body
    free = [a for a in node.body.args if a.free_symbols.isdisjoint(moved)]
    return sympy.Mul(*free), sympy.Mul(*(a for a in node.body.args if a not in free))


def _inner_scope(scope: Scope, node: Reduce, iterators: Any, conditions: Any, body: Any) -> Scope:
    kept, moved = iterators
    inside, outside = conditions
    outer, conditions_around = enclosing_domain(scope, node)
    reduced = Reduce(node.op, moved, inside, body)
    outer_where = (*conditions_around, *outside)
    used = {i for i in reduced.free_symbols if isinstance(i, Index)}
    alone, tied = (
        _over(reduced, [*kept, *outer], outer_where, indices)
        for indices in (used, _closure(used, outer_where))
    )
    return alone if alone.rank < tied.rank and _is_well_formed(alone) else tied


def _over(body: Any, iterators: Any, where: Any, indices: set[Any]) -> Scope:
    """A body over some of the iterators, under the conditions on these alone."""
    return Scope(
        [it for it in iterators if it.index in indices],
        [c for c in where if c.indices <= indices],
        body,
    )


def _is_well_formed(scope: Scope) -> bool:
    try:
        check_scope(scope)
        return True
    except EinalgError:
        return False


def _closure(used: set[Any], where: Any) -> set[Any]:
    """Indices that occur, with those that a condition ties to them."""
    used = set(used)
    grown = True
    while grown:
        tied = {i for c in where if not c.indices.isdisjoint(used) for i in c.indices}
        grown = not tied <= used
        used |= tied
    return used


RULE = Rule(
    name="summation splitting",
    before="L[x] Σ[s1,s2] f",
    after="L[x] Σ[s1] {L[s1,x] Σ[s2] f}[s1,x]",
    requires="",
    find=find,
    rewrite=split,
    example=Example("O[h] += A.pad(1,0)[h+r-1,c]*K[r,c]", {"A": (8, 4), "K": (3, 4)}),
)
