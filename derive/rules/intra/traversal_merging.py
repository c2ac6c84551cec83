"""Traversal merging: an inner scope is evaluated where it is read, and its reduction joins the one around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy

from derive.rewriting.body_queries import ReadContext, holds_everywhere, reads_of
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import child
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import IDENTITY, Reduce, fresh_index, rebuild, substitute
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded
from einalg.language.ir.traversal import reductions


def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Every inner scope whose reads all lie inside its domain, or whose fill vanishes where they do not."""
    for position, inner in enumerate(inner_scopes(scope)):
        if all(_mergeable(read, inner) for read in reads_of(scope, inner)):
            yield {"inner": position}


def merge(scope: Scope, inner: int) -> Scope:
    """Replace every read of an inner scope by its body at the point that is read."""
    target = child(scope, inner)
    if not all(_mergeable(read, target) for read in reads_of(scope, target)):
        raise RuleError(
            "the inner scope is read outside its domain, and its fill is not what the reduction around the read ignores"
        )
    return simplify_scope(
        Scope(scope.iterators, scope.where, with_joined_reductions(inline(scope, target)))
    )


def inline(scope: Scope, target: Scope) -> Any:
    """The body of `scope` with every read of `target` replaced by its body there; reads outside its domain give nothing."""
    taken = {
        *scope.indices,
        *target.indices,
        *(i for node in reductions(scope.body) for i in node.indices),
    }

    def leaf(node: Any) -> Any:
        if isinstance(node, Access) and isinstance(node.tensor, Scope) and node.tensor == target:
            return _padded_copy(node, target) or _guarded(
                node, target, _body_at(target, node, taken), ranges
            )
        if isinstance(node, Reduce):
            outer = dict(ranges)
            ranges.update({it.index: (it.low, it.high) for it in node.iterators})
            inner = rebuild(node.body, leaf)
            ranges.clear()
            ranges.update(outer)
            return (
                node if inner is node.body else Reduce(node.op, node.iterators, node.where, inner)
            )
        return node

    ranges = scope.ranges
    return rebuild(scope.body, leaf)


def _body_at(target: Scope, access: Access, taken: set[Index]) -> Any:
    return substitute(
        _with_fresh_names(target.body, taken), dict(zip(target.indices, access.subscripts))
    )


def _with_fresh_names(body: Any, taken: set[Index]) -> Any:
    """Reductions with names that occur nowhere else, so that they can join the reduction around them."""

    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        names: dict[Index, Index] = {}
        for it in node.iterators:
            names[it.index] = fresh_index(it.index.name, taken)
            taken.add(names[it.index])
        iterators = [LoopIndex(names[it.index], it.low, it.high) for it in node.iterators]
        renamed = Reduce(node.op, node.iterators, node.where, node.body)
        where = tuple(c.substitute({k: v + 0 for k, v in names.items()}) for c in renamed.where)
        return Reduce(
            node.op, iterators, where, _with_fresh_names(substitute(node.body, names), taken)
        )

    return rebuild(body, leaf)


def _padded_copy(access: Access, target: Scope) -> Access | None:
    """A padded read of a scope that is another tensor with its axes in another order: a read of that tensor, padded in the same way."""
    if (
        not isinstance(access.base, Padded)
        or isinstance(access.base.base, Padded)
        or target.where
        or not isinstance(target.body, Access)
    ):
        return None
    copied, places = target.body, {index: k for k, index in enumerate(target.indices)}
    bare = [subscript.as_index() for subscript in copied.subscripts]
    whole = [
        index in places and target.ranges[index] == range_
        for index, range_ in zip(bare, copied.tensor.box)
    ]
    if isinstance(copied.base, Padded) or not all(whole) or len(set(bare)) != len(places):
        return None
    moved = [
        (access.base.amounts[places[index]], access.subscripts[places[index]])
        for index in bare
        if index is not None
    ]
    return Access.of(
        Padded(copied.base, [amount for amount, _ in moved], access.base.fill),
        tuple(subscript for _, subscript in moved),
    )


def _guarded(access: Access, target: Scope, body: Any, ranges: Any) -> Any:
    """The body under the conditions that a padded read lies inside the domain."""
    if not isinstance(access.base, Padded):
        return body
    conditions = []
    for subscript, (low, high) in zip(access.subscripts, target.box):
        first, last = subscript.interval(ranges)
        conditions += [Constraint(subscript - low, ">=")] if first < low else []
        conditions += [Constraint(-subscript + (high - 1), ">=")] if last >= high else []
    mapping = dict(zip(target.indices, access.subscripts))
    conditions += [c.substitute(mapping) for c in target.where]
    if not conditions:
        return body
    op = next((op for op, identity in IDENTITY.items() if identity == access.base.fill), None)
    if op is None:
        return body
    return Reduce(op, (), conditions, body)


def with_joined_reductions(body: Any) -> Any:
    """Nested reductions of one kind joined, and sums moved out of the products around them, within a reduction."""

    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        inner = with_joined_reductions(node.body)
        joined = _join(node, inner)
        return (
            node
            if joined is None and inner is node.body
            else joined or Reduce(node.op, node.iterators, node.where, inner)
        )

    return rebuild(body, leaf)


def _join(node: Reduce, inner: Any) -> Reduce | None:
    factors = inner.args if isinstance(inner, sympy.Mul) and node.op == "Sum" else (inner,)
    for factor in factors:
        if isinstance(factor, Reduce) and factor.op == node.op:
            others = [a for a in factors if a is not factor]
            apart = _apart(factor, node, others)
            body = sympy.Mul(apart.body, *others) if others else apart.body
            joined = Reduce(
                node.op, (*node.iterators, *apart.iterators), (*node.where, *apart.where), body
            )
            return _join(joined, body) or joined
    return None


def _apart(factor: Reduce, node: Reduce, others: list[Any]) -> Reduce:
    """The factor with names for its indices that nothing around it uses."""
    around = {*node.indices, *(i for a in (*others, *node.where) for i in _names_in(a))}
    return (
        factor
        if around.isdisjoint(factor.indices)
        else _with_fresh_names(factor, around | factor.free_symbols)
    )


def _names_in(part: Any) -> set[Index]:
    bound = (
        {i for r in reductions(part) for i in r.indices}
        if not isinstance(part, Constraint)
        else set()
    )
    return bound | (set(part.indices) if isinstance(part, Constraint) else part.free_symbols)


def _mergeable(read: ReadContext, inner: Scope) -> bool:
    """Whether a read may be replaced: it lies inside the domain, or its fill is what a reduction over nothing gives."""
    base = read.access.base
    if not isinstance(base, Padded):
        return True  # a well-formed read without padding lies inside
    if isinstance(base.base, Padded):
        return False
    if _padded_copy(read.access, inner) is not None:
        return True
    return base.fill in IDENTITY.values() or holds_everywhere(
        lambda: read.image().is_subset(inner.domain)
    )


RULE = Rule(
    name="traversal merging",
    before="L[x] Σ[s] {L[y] Σ[t] f(y,t)}[Φ(x,s)]",
    after="L[x] Σ[s,t] f(Φ(x,s),t)",
    requires="Φ(X) inside the domain of the inner scope, or outside it the fill is the reduction's identity",
    find=find,
    rewrite=merge,
    example=Example(
        "O[h] += (L[r:3,h:8](Sum[c](A.pad(1,0)[h+r-1,c]*K[r,c])))[r,h]", {"A": (8, 4), "K": (3, 4)}
    ),
)
