"""Boundary tightening: a domain shrinks to the points that are read and at which the body is more than the fill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import islpy as isl

from derive.rewriting.body_queries import (
    bounding_box,
    enclosing_domain,
    may_differ_from,
    may_vanish,
    memoized_per_scope,
    reads_of,
    reduction_at,
    replace_reduction,
)
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import child
from einalg.errors import EinalgError, RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.isl import bounded, domain_set
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded
from einalg.language.ir.traversal import map_accesses, reductions

Box = Sequence[Sequence[int]]


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Every inner scope and every reduction whose box can shrink: to the points that are read, and to those that matter."""
    for position, inner in enumerate(inner_scopes(scope)):
        if _is_tight(scope, inner):
            continue
        seen = [[it.low, it.high] for it in inner.iterators]
        for points in _tighter_inner(scope, inner):
            if (
                points is not None
                and points not in seen
                and points != [[it.low, it.high] for it in inner.iterators]
            ):
                seen.append(points)
                args = {"inner": position, "box": points}
                if _holds(scope, args):
                    yield args
    for position, node in enumerate(reductions(scope.body)):
        box = (
            _tighter_reduction(scope, node)
            if node.where or may_vanish(node.body) or scope.where
            else None
        )
        if box is not None and box != [[it.low, it.high] for it in node.iterators]:
            yield {"reduction": position, "box": box}


def _is_tight(scope: Scope, inner: Scope) -> bool:
    """Whether a glance tells that every point is read, and none is known to vanish."""
    if inner.where or scope.where or may_vanish(inner.body):
        return False
    return any(
        not read.where
        and read.access.base == inner
        and _sweeps(read.access, read.ranges, inner.box)
        for read in reads_of(scope, inner)
    )


def _sweeps(access: Access, ranges: Any, box: Any) -> bool:
    """Whether an access runs through the whole box of what it reads, index by index."""
    bare = [s.as_index() for s in access.subscripts]
    return (
        None not in bare
        and len(set(bare)) == len(bare)
        and all(ranges[i] == bounds for i, bounds in zip(bare, box))
    )


def _holds(scope: Scope, args: dict[str, Any]) -> bool:
    try:
        tighten(scope, **args)
        return True
    except EinalgError:
        return False


def _tighter_inner(scope: Scope, inner: Scope) -> list[Any]:
    """Boxes of the points that are read, of those that matter, and of both; as many as isl tells within bounds."""
    boxes: list[Any] = []
    try:
        with bounded():
            read = _read_points(scope, inner)
            boxes.append(_as_box(read, inner.rank))
            fills = {
                r.access.base.fill
                for r in reads_of(scope, inner)
                if isinstance(r.access.base, Padded)
            } or {0}  # two paddings are refused below
            if len(fills) == 1:
                matters = may_differ_from(fills.pop(), inner.body, inner.iterators, inner.where)
                boxes.append(_as_box(matters, inner.rank))
                boxes.append(_as_box(matters.intersect(read), inner.rank))
    except isl.Error:
        pass
    return boxes


def _as_box(points: isl.Set, rank: int) -> list[list[int]] | None:
    box = bounding_box(points)
    return [[0, 0]] * rank if box is None else [list(b) for b in box]


def _read_points(scope: Scope, inner: Scope) -> isl.Set:
    read = isl.Set.empty(inner.domain.get_space())
    for r in reads_of(scope, inner):
        read = read.union(r.image().intersect(inner.domain))
    return read


def _tighter_reduction(scope: Scope, node: Reduce) -> list[list[int]] | None:
    try:
        with bounded():
            outer, where = enclosing_domain(scope, node)
            points = may_differ_from(
                node.identity, node.body, (*outer, *node.iterators), (*where, *node.where)
            )
            own = points.project_out(isl.dim_type.set, 0, len(outer))
            return _as_box(own, len(node.iterators))
    except (isl.Error, RuleError):
        return None


def tighten(
    scope: Scope, box: Box, inner: int | None = None, reduction: int | None = None
) -> Scope:
    """Shrink an inner scope (its reads then go through padding), or a reduction, to `box` (half-open bounds an index)."""
    if (inner is None) == (reduction is None):
        raise RuleError("boundary tightening takes either inner= or reduction=")
    return (
        _tighten_inner(scope, inner, box)
        if reduction is None
        else _tighten_reduction(scope, reduction, box)
    )


def _shrunk(iterators: Sequence[LoopIndex], box: Box) -> tuple[LoopIndex, ...]:
    if len(box) != len(iterators):
        raise RuleError(f"box has {len(box)} entries for {len(iterators)} indices")
    return tuple(
        LoopIndex(it.index, int(low), int(high)) for it, (low, high) in zip(iterators, box)
    )


def _removed(iterators: Any, where: Any, kept: Any) -> isl.Set:
    before, after = domain_set(iterators, where), domain_set(kept, where)
    if not after.is_subset(before):
        raise RuleError(
            "the new box is not inside the old domain\n  boundary relaxing makes domains larger"
        )
    return before.subtract(after)


def _tighten_inner(scope: Scope, inner: int | None, box: Box) -> Scope:
    target = child(scope, inner)
    smaller = simplify_scope(Scope(_shrunk(target.iterators, box), target.where, target.body))
    removed = _removed(target.iterators, target.where, smaller.iterators)

    def change(access: Access) -> Access:
        if not (isinstance(access.tensor, Scope) and access.tensor == target):
            return access
        return Access.of(_padded_again(access.base, target, smaller), access.subscripts)

    with bounded():
        for read in reads_of(scope, target):
            if not read.image().intersect(removed).is_empty():
                fill = read.access.base.fill if isinstance(read.access.base, Padded) else 0
                if not removed.intersect(
                    may_differ_from(fill, target.body, target.iterators, target.where)
                ).is_empty():
                    raise RuleError(
                        f"{read.access} reads a point outside the new box at which the inner scope is not {fill}"
                    )
    return simplify_scope(Scope(scope.iterators, scope.where, map_accesses(scope.body, change)))


def _padded_again(view: Any, target: Scope, smaller: Scope) -> Any:
    """The same view of the smaller scope: what was its box is now reached through padding."""
    if isinstance(view, Padded) and isinstance(view.base, Padded):
        raise RuleError("the inner scope is read through two different paddings")
    lost = [
        (max(new.low - old.low, 0), max(old.high - new.high, 0))
        for old, new in zip(target.iterators, smaller.iterators)
    ]
    amounts = [(0, 0)] * len(lost) if not isinstance(view, Padded) else view.amounts
    fill = view.fill if isinstance(view, Padded) else 0
    return Padded(smaller, [(a + c, b + d) for (a, b), (c, d) in zip(lost, amounts)], fill)


def _tighten_reduction(scope: Scope, reduction: int | None, box: Box) -> Scope:
    node = reduction_at(scope, reduction)
    outer, where = enclosing_domain(scope, node)
    kept = _shrunk(node.iterators, box)
    with bounded():
        removed = _removed((*outer, *node.iterators), (*where, *node.where), (*outer, *kept))
        changed = may_differ_from(
            node.identity, node.body, (*outer, *node.iterators), (*where, *node.where)
        )
        if not removed.intersect(changed).is_empty():
            raise RuleError(
                f"the body is not {node.identity} at every point that would be removed from the reduction"
            )
    return simplify_scope(
        replace_reduction(scope, node, Reduce(node.op, kept, node.where, node.body))
    )


RULE = Rule(
    name="boundary tightening",
    before="L[x∈X∪Y] f",
    after="L[x∈X] f, read through padding",
    requires="f is the fill's value on Y, or Y is never read",
    find=find,
    rewrite=tighten,
    example=Example("O[h:8] += (L[r:3,t:-1:9](A.pad(1)[t]*K[r]))[r,h+r-1]", {"A": 8, "K": 3}),
)
