"""Boundary relaxing: a domain grows; what is computed besides is never read, or adds nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from derive.rewriting.arguments import parse_conditions
from derive.rewriting.body_queries import (
    enclosing_domain,
    holds_everywhere,
    may_differ_from,
    memoized_per_scope,
    reads,
    reads_of,
    reduction_at,
    replace_reduction,
    with_padded_reads,
)
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import child, replace_child
from einalg.errors import EinalgError, RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.analysis.validate import check_scope
from einalg.language.index.constraint import Constraint
from einalg.language.index.isl import domain_set
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Padded, padded_box
from einalg.language.ir.traversal import reductions

Box = Sequence[Sequence[int]]


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Inner scopes and reductions without their conditions, and rounded up to what their reads or strides suggest."""
    for position, inner in enumerate(inner_scopes(scope)):
        for box, where in _larger(inner.iterators, inner.where, inner):
            args = {"inner": position, "box": box, "where": where}
            if _holds(relax_inner, scope, args):
                yield args
    for position, node in enumerate(reductions(scope.body)):
        for box, where in _larger(node.iterators, node.where, scope):
            args = {"reduction": position, "box": box, "where": where}
            if _holds(relax_reduction, scope, args):
                yield args


def _holds(perform: Any, scope: Scope, args: dict[str, Any]) -> bool:
    try:
        perform(scope, **args)
        return True
    except EinalgError:
        return False


def _larger(
    iterators: Sequence[LoopIndex], where: tuple[Constraint, ...], scope: Scope
) -> Iterator[tuple[Any, Any]]:
    """Candidate domains: the box without conditions; and the axes that are read bare, to their full padded extent."""
    box = [[it.low, it.high] for it in iterators]
    if where:
        yield box, []
    grown = [list(b) for b in box]
    for read in reads(scope):
        for subscript, (low, high) in zip(read.access.subscripts, padded_box(read.access.base)):
            for k, it in enumerate(iterators):
                if subscript.as_index() == it.index:
                    grown[k] = [min(grown[k][0], low), max(grown[k][1], high)]
    if grown != box:
        yield grown, [str(c) for c in where]


def relax(
    scope: Scope,
    box: Box,
    where: Sequence[str],
    inner: int | None = None,
    reduction: int | None = None,
) -> Scope:
    """Grow the domain of an inner scope, or of a reduction, to `box` (half-open bounds an index) under the conditions `where`."""
    if (inner is None) == (reduction is None):
        raise RuleError("boundary relaxing takes either inner= or reduction=")
    return (
        relax_inner(scope, inner, box, where)
        if reduction is None
        else relax_reduction(scope, reduction, box, where)
    )


def relax_inner(scope: Scope, inner: int | None, box: Box, where: Sequence[str]) -> Scope:
    target = child(scope, inner)
    iterators = _grown(target.iterators, box)
    kept = parse_conditions(where)
    larger = Scope(iterators, kept, with_padded_reads(target.body, iterators))
    _check_larger(target.iterators, target.where, iterators, kept)
    added = larger.domain.subtract(target.domain)
    for read in reads_of(scope, target):
        if isinstance(read.access.base, Padded) and not holds_everywhere(
            lambda read=read: _harmless(read, larger, added)
        ):
            raise RuleError(f"{read.access} reads the fill at a point that would get a value")
    check_scope(larger)
    return simplify_scope(replace_child(scope, target, simplify_scope(larger)))


def _harmless(read: Any, larger: Scope, added: Any) -> bool:
    """Whether the added points that are read hold the fill anyway, or none is read."""
    touched = read.image().intersect(added)
    if touched.is_empty() or isinstance(read.access.base.base, Padded):
        return (
            touched.is_empty()
        )  # through two paddings, which fill a point shows depends on how far out it lies
    return touched.intersect(
        may_differ_from(read.access.base.fill, larger.body, larger.iterators, larger.where)
    ).is_empty()


def relax_reduction(scope: Scope, reduction: int | None, box: Box, where: Sequence[str]) -> Scope:
    node = reduction_at(scope, reduction)
    outer, outer_where = enclosing_domain(scope, node)
    iterators = _grown(node.iterators, box)
    kept = parse_conditions(where)
    _check_larger(
        (*outer, *node.iterators),
        (*outer_where, *node.where),
        (*outer, *iterators),
        (*outer_where, *kept),
    )
    fill = node.identity
    body = with_padded_reads(node.body, (*outer, *iterators), fill)
    before = domain_set((*outer, *node.iterators), (*outer_where, *node.where))
    after = domain_set((*outer, *iterators), (*outer_where, *kept))
    changed = may_differ_from(fill, body, (*outer, *iterators), (*outer_where, *kept))
    if not holds_everywhere(lambda: after.subtract(before).intersect(changed).is_empty()):
        raise RuleError(
            f"the body is not {fill} at every point that would be added to the reduction"
        )
    result = replace_reduction(scope, node, Reduce(node.op, iterators, kept, body))
    check_scope(result)
    return simplify_scope(result)


def _grown(iterators: Sequence[LoopIndex], box: Box) -> tuple[LoopIndex, ...]:
    if len(box) != len(iterators):
        raise RuleError(f"box has {len(box)} entries for {len(iterators)} indices")
    return tuple(
        LoopIndex(it.index, int(low), int(high)) for it, (low, high) in zip(iterators, box)
    )


def _check_larger(iterators: Any, where: Any, grown: Any, kept: Any) -> None:
    before, after = domain_set(iterators, where), domain_set(grown, kept)
    if not before.is_subset(after):
        raise RuleError(
            "the new domain does not contain the old one\n  boundary tightening makes domains smaller"
        )
    if (
        after.is_subset(before)
        and all(a.low == b.low and a.high == b.high for a, b in zip(iterators, grown))
        and len(where) == len(kept)
    ):
        raise RuleError("the new domain is the old one")


RULE = Rule(
    name="boundary relaxing",
    before="L[x∈X] f",
    after="L[x∈X∪Y] f",
    requires="the added points are not read, or f is the fill there; the added reads are covered by padding",
    find=find,
    rewrite=relax,
    example=Example(
        "O[r:3,h:8] = (L[r:3,t:-1:9](A.pad(1)[t]*K[r], where=(t+1>=r, r+6>=t)))[r,h+r-1]",
        {"A": 8, "K": 3},
    ),
)
