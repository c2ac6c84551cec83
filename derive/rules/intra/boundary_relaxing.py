"""Boundary relaxing: a domain grows; what is computed in addition is not read, or adds nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from derive.rewriting.arguments import parse_conditions
from derive.rewriting.body_queries import (
    ReadContext,
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
from derive.rewriting.domains import box_of, is_applicable, resized
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import child, replace_child
from einalg.errors import RuleError
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
    """Propose inner scopes and reductions without their conditions, and rounded up.

    They are rounded up to what their reads or strides suggest.
    """
    for position, inner in enumerate(inner_scopes(scope)):
        for box, where in _larger(inner.iterators, inner.where, inner):
            args = {"inner": position, "box": box, "where": where}
            if is_applicable(relax_inner, scope, args):
                yield args
    for position, node in enumerate(reductions(scope.body)):
        for box, where in _larger(node.iterators, node.where, scope):
            args = {"reduction": position, "box": box, "where": where}
            if is_applicable(relax_reduction, scope, args):
                yield args


def _larger(
    iterators: Sequence[LoopIndex], where: tuple[Constraint, ...], scope: Scope
) -> Iterator[tuple[list[list[int]], list[str]]]:
    """Yield the box without conditions, and that with the axes that are read bare grown.

    These grow to the full padded extent of what is read.
    """
    box = box_of(iterators)
    if where:
        yield box, []
    grown = box_of(iterators)
    for read in reads(scope):
        for subscript, (low, high) in zip(read.access.subscripts, padded_box(read.access.base)):
            for axis, it in enumerate(iterators):
                if subscript.as_index() == it.index:
                    grown[axis] = [min(grown[axis][0], low), max(grown[axis][1], high)]
    if grown != box:
        yield grown, list(map(str, where))


def relax(
    scope: Scope,
    box: Box,
    where: Sequence[str],
    inner: int | None = None,
    reduction: int | None = None,
) -> Scope:
    """Grow the domain of an inner scope, or of a reduction, under the conditions `where`.

    `box` has half-open bounds for every index.
    """
    if (inner is None) == (reduction is None):
        raise RuleError("boundary relaxing takes either inner= or reduction=")
    if reduction is None:
        return relax_inner(scope, inner, box, where)
    return relax_reduction(scope, reduction, box, where)


def relax_inner(scope: Scope, inner: int | None, box: Box, where: Sequence[str]) -> Scope:
    """Grow the domain of an inner scope; `RuleError` where an added point that is read matters."""
    target = child(scope, inner)
    iterators = resized(target.iterators, box)
    conditions = parse_conditions(where)
    larger = Scope(iterators, conditions, with_padded_reads(target.body, iterators))
    _check_larger(target.iterators, target.where, iterators, conditions)
    added = larger.domain.subtract(target.domain)
    for read in reads_of(scope, target):
        if isinstance(read.access.base, Padded) and not holds_everywhere(
            lambda read=read: _is_harmless(read, larger, added)
        ):
            raise RuleError(f"{read.access} reads the fill at a point that would get a value")
    check_scope(larger)
    return simplify_scope(replace_child(scope, target, simplify_scope(larger)))


def _is_harmless(read: ReadContext, larger: Scope, added: Any) -> bool:
    """Tell whether the added points that are read hold the fill anyway, or none is read."""
    touched = read.image().intersect(added)
    if touched.is_empty():
        return True
    view = read.access.base
    if isinstance(view.base, Padded):
        return False  # which of two fills a point shows depends on how far out it lies
    matters = may_differ_from(view.fill, larger.body, larger.iterators, larger.where)
    return touched.intersect(matters).is_empty()


def relax_reduction(scope: Scope, reduction: int | None, box: Box, where: Sequence[str]) -> Scope:
    """Grow the domain of a reduction; `RuleError` where an added point may add something."""
    node = reduction_at(scope, reduction)
    outer, outer_where = enclosing_domain(scope, node)
    iterators, conditions = resized(node.iterators, box), parse_conditions(where)
    old = (*outer, *node.iterators), (*outer_where, *node.where)
    new = (*outer, *iterators), (*outer_where, *conditions)
    _check_larger(*old, *new)
    fill = node.identity
    body = with_padded_reads(node.body, new[0], fill)
    before, after = domain_set(*old), domain_set(*new)
    changed = may_differ_from(fill, body, *new)
    if not holds_everywhere(lambda: after.subtract(before).intersect(changed).is_empty()):
        raise RuleError(
            f"the body is not {fill} at every point that would be added to the reduction"
        )
    larger = Reduce(node.op, iterators, conditions, body)
    result = replace_reduction(scope, node, larger)
    check_scope(result)
    return simplify_scope(result)


def _check_larger(iterators: Any, where: Any, grown: Any, new_where: Any) -> None:
    before, after = domain_set(iterators, where), domain_set(grown, new_where)
    if not before.is_subset(after):
        raise RuleError(
            "the new domain does not contain the old one\n"
            "  boundary tightening makes domains smaller"
        )
    is_same = box_of(iterators) == box_of(grown) and len(where) == len(new_where)
    if is_same and after.is_subset(before):
        raise RuleError("the new domain is the old one")


RULE = Rule(
    name="boundary relaxing",
    before="L[x∈X] f",
    after="L[x∈X∪Y] f",
    requires=(
        "the added points are not read, or f is the fill there; "
        "the added reads are covered by padding"
    ),
    find=find,
    rewrite=relax,
    example=Example(
        "O[r:3,h:8] = (L[r:3,t:-1:9](A.pad(1)[t]*K[r], where=(t+1>=r, r+6>=t)))[r,h+r-1]",
        {"A": 8, "K": 3},
    ),
)
