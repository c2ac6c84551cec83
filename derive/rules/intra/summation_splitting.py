"""Summation splitting: part of a reduction moves into an inner scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice
from typing import Any

import sympy

from derive.rewriting.body_queries import (
    enclosing_domain,
    has_no_points,
    indices_of,
    is_empty,
    is_finite,
    reduction_at,
    replace_reduction,
)
from derive.rewriting.domains import is_applicable
from derive.rewriting.moves import Example, Rule
from einalg.errors import EinalgError, RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.analysis.validate import check_scope
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses, reductions

MAX_CHOICES = 10  # subsets of the indices of one reduction; beyond, neighbours move together

DISTRIBUTES_OVER: dict[str, Any] = {"Sum": sympy.Mul, "Max": sympy.Add, "Min": sympy.Add}

Iterators = Sequence[LoopIndex]
Conditions = Sequence[Constraint]


def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Propose to keep some of a reduction's indices outside.

    Where the subsets are many, indices that stand side by side move together.
    """
    for position, node in enumerate(reductions(scope.body)):
        groups = [[index] for index in node.indices]
        if 2 ** len(groups) > MAX_CHOICES:
            groups = _side_by_side(node)
        fewest = 1 if node is scope.body else 0
        may_misread = _is_unreached(scope, node)
        for size in range(fewest, len(groups)):
            for chosen in islice(combinations(groups, size), MAX_CHOICES):
                outer = set(chain(*chosen))
                names = [index.name for index in node.indices if index in outer]
                args = {"reduction": position, "outer": names}
                if not may_misread or is_applicable(split, scope, args):
                    yield args


def _is_unreached(scope: Scope, node: Reduce) -> bool:
    """Tell whether the body of a reduction is evaluated nowhere: whatever it reads is no mistake.

    A node that stands under several domains is not known to be evaluated.
    """
    try:
        iterators, where = enclosing_domain(scope, node)
    except RuleError:
        return True
    return has_no_points([*iterators, *node.iterators], [*where, *node.where])


def _side_by_side(node: Reduce) -> list[list[Index]]:
    """Return the indices of a reduction, those together that move alike: `r` and `s` of a window.

    They occur in the same reads with the same strides.
    """
    groups: dict[Any, list[Index]] = {}
    for index in node.indices:
        uses = []
        for number, access in enumerate(accesses(node.body)):
            for subscript in access.subscripts:
                if index in subscript.indices:
                    stride, is_alone = subscript.coefficient(index), len(subscript.terms) == 1
                    uses.append((number, stride, is_alone))
        groups.setdefault(tuple(uses), []).append(index)
    return list(groups.values())


def split(scope: Scope, reduction: int, outer: Sequence[str]) -> Scope:
    """Keep `outer` of a reduction's indices; the others are reduced by an inner scope.

    Factors of a sum, and terms of an extreme, that do not depend on the inner indices stay outside
    (unless a condition on these guards them, or there is no inner point), and the inner scope has
    only the indices that it uses.
    """
    node = reduction_at(scope, reduction)
    remaining: list[LoopIndex] = []
    moved: list[LoopIndex] = []
    for it in node.iterators:
        if it.index.name in outer:
            remaining.append(it)
        else:
            moved.append(it)
    _check_split(node, remaining, moved, outer)
    moved_indices = set(indices_of(moved))
    inside: list[Constraint] = []
    outside: list[Constraint] = []
    for condition in node.where:
        if condition.indices.isdisjoint(moved_indices):
            outside.append(condition)
        else:
            inside.append(condition)
    combined, free, body = sympy.Mul, sympy.S.One, node.body
    if not inside and not is_empty(moved):
        combined, free, body = _independent_part(node, moved_indices)
    inner_sum = Reduce(node.op, moved, inside, body)
    inner = _inner_scope(scope, node, inner_sum, remaining, outside)
    read = combined(Access.of(inner, tuple(map(affine, inner.indices))), free)
    outer_body = Reduce(node.op, remaining, outside, read) if remaining or outside else read
    return simplify_scope(replace_reduction(scope, node, outer_body))


def _check_split(
    node: Reduce, remaining: Iterators, moved: Iterators, outer: Sequence[str]
) -> None:
    if len(remaining) != len(set(outer)):
        raise RuleError(
            f"the reduction has the indices {', '.join(map(str, node.indices))}, "
            f"not all of {', '.join(outer)}"
        )
    if not moved:
        raise RuleError(
            "no index is left to move into the inner scope\n"
            "  leave at least one index out of `outer`"
        )


def _independent_part(node: Reduce, moved: set[Index]) -> tuple[Any, Any, Any]:
    """Return the operation over which a reduction distributes, the operands of its body that have
    none of the moved indices, and the others.
    """
    operation = DISTRIBUTES_OVER.get(node.op, sympy.Mul)
    if node.op not in DISTRIBUTES_OVER or not isinstance(node.body, operation):
        return operation, operation.identity, node.body
    if node.op != "Sum" and not is_finite(node.body):
        return operation, operation.identity, node.body
    free: list[Any] = []
    rest: list[Any] = []
    for operand in node.body.args:
        if operand.free_symbols.isdisjoint(moved):
            free.append(operand)
        else:
            rest.append(operand)
    return operation, operation(*free), operation(*rest)


def _inner_scope(
    scope: Scope, node: Reduce, inner_sum: Reduce, remaining: Iterators, outside: Conditions
) -> Scope:
    """Return the scope that computes the inner sum, over as few indices as it may have.

    Raises `RangeError` where the inner sum is never reached, and reads where there is nothing once
    it stands by itself.
    """
    around, conditions_around = enclosing_domain(scope, node)
    iterators, where = [*remaining, *around], [*conditions_around, *outside]
    used = {symbol for symbol in inner_sum.free_symbols if isinstance(symbol, Index)}
    alone = _over(inner_sum, iterators, where, used)
    tied = _over(inner_sum, iterators, where, _tied_indices(used, where))
    if alone.rank < tied.rank and _is_well_formed(alone):
        return alone
    if has_no_points([*iterators, *inner_sum.iterators], [*where, *inner_sum.where]):
        check_scope(tied)
    return tied


def _over(body: Any, iterators: Iterators, where: Conditions, indices: set[Index]) -> Scope:
    """Return a body over some of the iterators, under the conditions on these alone."""
    chosen = [it for it in iterators if it.index in indices]
    return Scope(chosen, [c for c in where if c.indices <= indices], body)


def _is_well_formed(scope: Scope) -> bool:
    try:
        check_scope(scope)
    except EinalgError:
        return False
    return True


def _tied_indices(used: set[Index], where: Conditions) -> set[Index]:
    """Return indices with those that a condition ties to them, directly or not."""
    tied = set(used)
    size = -1
    while size < len(tied):
        size = len(tied)
        for condition in where:
            if not condition.indices.isdisjoint(tied):
                tied |= condition.indices
    return tied


RULE = Rule(
    name="summation splitting",
    before="L[x] Σ[s1,s2] f",
    after="L[x] Σ[s1] {L[s1,x] Σ[s2] f}[s1,x]",
    requires="",
    find=find,
    rewrite=split,
    example=Example("O[h] += A.pad(1,0)[h+r-1,c]*K[r,c]", {"A": (8, 4), "K": (3, 4)}),
)
