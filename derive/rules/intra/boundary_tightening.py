"""Boundary tightening: a domain shrinks to the points that are read and hold more than the fill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import islpy as isl

from derive.rewriting.body_queries import (
    ReadContext,
    bounding_box,
    enclosing_domain,
    may_differ_from,
    may_vanish,
    memoized_per_scope,
    reads_of,
    reduction_at,
    replace_reduction,
)
from derive.rewriting.domains import box_of, is_applicable, resized
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import child
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Index
from einalg.language.index.isl import bounded, domain_set
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded
from einalg.language.ir.traversal import map_accesses, reductions

Box = Sequence[Sequence[int]]


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Propose inner scopes and reductions whose boxes can shrink.

    They shrink to the points that are read, and to those that matter.
    """
    for position, inner in enumerate(inner_scopes(scope)):
        if not _is_tight(scope, inner):
            yield from _smaller_boxes(scope, position, inner)
    for position, node in enumerate(reductions(scope.body)):
        if node.where or may_vanish(node.body) or scope.where:
            box = _tighter_reduction(scope, node)
            if box is not None and box != box_of(node.iterators):
                yield {"reduction": position, "box": box}


def _smaller_boxes(scope: Scope, position: int, inner: Scope) -> Iterator[dict[str, Any]]:
    bounds = box_of(inner.iterators)
    seen: list[Any] = []
    for box in _tighter_inner(scope, inner):
        if box is None or box in seen or box == bounds:
            continue
        seen.append(box)
        args = {"inner": position, "box": box}
        if is_applicable(tighten, scope, args):
            yield args


def _is_tight(scope: Scope, inner: Scope) -> bool:
    """Tell at a glance that every point is read, and none is known to vanish."""
    if inner.where or scope.where or may_vanish(inner.body):
        return False
    for read in reads_of(scope, inner):
        if read.where or read.access.base != inner:
            continue
        if _sweeps(read.access, read.ranges, inner.box):
            return True
    return False


def _sweeps(access: Access, ranges: Any, box: Any) -> bool:
    """Tell whether an access runs through the whole box of what it reads, index by index."""
    swept: set[Index] = set()
    for subscript, bounds in zip(access.subscripts, box):
        index = subscript.as_index()
        if index is None or index in swept or ranges[index] != bounds:
            return False
        swept.add(index)
    return True


def _tighter_inner(scope: Scope, inner: Scope) -> list[Any]:
    """Return boxes of the points that are read, of those that matter, and of both.

    There are as many as isl tells within its budget.
    """
    boxes: list[Any] = []
    try:
        with bounded():
            read = _read_points(scope, inner)
            boxes.append(_as_box(read, inner.rank))
            fills = _fills(scope, inner)
            if len(fills) == 1:
                matters = may_differ_from(fills.pop(), inner.body, inner.iterators, inner.where)
                boxes.append(_as_box(matters, inner.rank))
                boxes.append(_as_box(matters.intersect(read), inner.rank))
    except isl.Error:
        pass
    return boxes


def _fills(scope: Scope, inner: Scope) -> set[Any]:
    """Return the fills with which an inner scope is read; 0 where it is read without padding."""
    fills = set()
    for read in reads_of(scope, inner):
        if isinstance(read.access.base, Padded):
            fills.add(read.access.base.fill)
    return fills or {0}


def _as_box(points: isl.Set, rank: int) -> list[list[int]] | None:
    box = bounding_box(points)
    if box is None:
        return [[0, 0]] * rank
    return list(map(list, box))


def _read_points(scope: Scope, inner: Scope) -> isl.Set:
    points = isl.Set.empty(inner.domain.get_space())
    for read in reads_of(scope, inner):
        points = points.union(read.image().intersect(inner.domain))
    return points


def _tighter_reduction(scope: Scope, node: Reduce) -> list[list[int]] | None:
    try:
        with bounded():
            outer, where = enclosing_domain(scope, node)
            points = _differing_points(node, outer, where)
            summed = points.project_out(isl.dim_type.set, 0, len(outer))
            return _as_box(summed, len(node.iterators))
    except (isl.Error, RuleError):
        return None


def _differing_points(node: Reduce, outer: Any, where: Any) -> isl.Set:
    """Return the points of a reduction, and around it, at which it adds something."""
    iterators, conditions = (*outer, *node.iterators), (*where, *node.where)
    return may_differ_from(node.identity, node.body, iterators, conditions)


def tighten(
    scope: Scope, box: Box, inner: int | None = None, reduction: int | None = None
) -> Scope:
    """Shrink an inner scope, whose reads then go through padding, or a reduction.

    `box` has half-open bounds for every index.
    """
    if (inner is None) == (reduction is None):
        raise RuleError("boundary tightening takes either inner= or reduction=")
    if reduction is None:
        return _tighten_inner(scope, inner, box)
    return _tighten_reduction(scope, reduction, box)


def _removed_points(iterators: Any, where: Any, smaller: Any) -> isl.Set:
    before, after = domain_set(iterators, where), domain_set(smaller, where)
    if not after.is_subset(before):
        raise RuleError(
            "the new box is not inside the old domain\n  boundary relaxing makes domains larger"
        )
    return before.subtract(after)


def _tighten_inner(scope: Scope, inner: int | None, box: Box) -> Scope:
    target = child(scope, inner)
    smaller = simplify_scope(Scope(resized(target.iterators, box), target.where, target.body))
    removed = _removed_points(target.iterators, target.where, smaller.iterators)

    def change(access: Access) -> Access:
        if not (isinstance(access.tensor, Scope) and access.tensor == target):
            return access
        return Access.of(_padded_again(access.base, target, smaller), access.subscripts)

    with bounded():
        for read in reads_of(scope, target):
            _check_removed(read, target, removed)
    return simplify_scope(Scope(scope.iterators, scope.where, map_accesses(scope.body, change)))


def _check_removed(read: ReadContext, target: Scope, removed: isl.Set) -> None:
    """Raise `RuleError` where a read may see a removed point that holds more than the fill."""
    if read.image().intersect(removed).is_empty():
        return
    base = read.access.base
    fill = base.fill if isinstance(base, Padded) else 0
    matters = may_differ_from(fill, target.body, target.iterators, target.where)
    if not removed.intersect(matters).is_empty():
        raise RuleError(
            f"{read.access} reads a point outside the new box "
            f"at which the inner scope is not {fill}"
        )


def _padded_again(view: Any, target: Scope, smaller: Scope) -> Any:
    """Return the same view of the smaller scope: its former box is reached through padding."""
    amounts, fill = [(0, 0)] * target.rank, 0
    if isinstance(view, Padded):
        if isinstance(view.base, Padded):
            raise RuleError("the inner scope is read through two different paddings")
        amounts, fill = view.amounts, view.fill
    padding = []
    for old, new, (before, after) in zip(target.iterators, smaller.iterators, amounts):
        lost_before, lost_after = max(new.low - old.low, 0), max(old.high - new.high, 0)
        padding.append((lost_before + before, lost_after + after))
    return Padded(smaller, padding, fill)


def _tighten_reduction(scope: Scope, reduction: int | None, box: Box) -> Scope:
    node = reduction_at(scope, reduction)
    outer, where = enclosing_domain(scope, node)
    iterators = resized(node.iterators, box)
    with bounded():
        conditions = (*where, *node.where)
        removed = _removed_points((*outer, *node.iterators), conditions, (*outer, *iterators))
        if not removed.intersect(_differing_points(node, outer, where)).is_empty():
            raise RuleError(
                f"the body is not {node.identity} at every point "
                "that would be removed from the reduction"
            )
    smaller = Reduce(node.op, iterators, node.where, node.body)
    return simplify_scope(replace_reduction(scope, node, smaller))


RULE = Rule(
    name="boundary tightening",
    before="L[x∈X∪Y] f",
    after="L[x∈X] f, read through padding",
    requires="f is the fill's value on Y, or Y is never read",
    find=find,
    rewrite=tighten,
    example=Example("O[h:8] += (L[r:3,t:-1:9](A.pad(1)[t]*K[r]))[r,h+r-1]", {"A": 8, "K": 3}),
)
