"""Traversal merging: an inner scope is evaluated where it is read, its reduction joins in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy

from derive.rewriting.body_queries import (
    ReadContext,
    bound_indices,
    holds_everywhere,
    index_ranges,
    reads_of,
    substitute_conditions,
    with_body,
)
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import child
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import IDENTITY, Reduce, as_factor, fresh_index, rebuild, substitute
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded
from einalg.language.ir.traversal import reductions

MAX_POWER = 3  # of a sum that is multiplied out


def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Propose every inner scope that is read inside its domain alone, or whose fill vanishes."""
    for position, inner in enumerate(inner_scopes(scope)):
        if _is_mergeable(scope, inner):
            yield {"inner": position}


def merge(scope: Scope, inner: int) -> Scope:
    """Replace every read of an inner scope by its body at the point that is read."""
    target = child(scope, inner)
    if not _is_mergeable(scope, target):
        raise RuleError(
            "the inner scope is read outside its domain, "
            "and its fill is not what the reduction around the read ignores"
        )
    body = with_joined_reductions(inline(scope, target))
    return simplify_scope(Scope(scope.iterators, scope.where, body))


def inline(scope: Scope, target: Scope) -> Any:
    """Return the body of `scope` with every read of `target` replaced by its body there.

    Reads outside the domain give nothing.
    """
    used = bound_indices(scope) | set(target.indices)

    def leaf(node: Any) -> Any:
        if isinstance(node, Access) and isinstance(node.tensor, Scope) and node.tensor == target:
            copy = _padded_copy(node, target)
            if copy is not None:
                return copy
            return _guarded(node, target, _body_at(target, node, used), ranges)
        if isinstance(node, Reduce):
            outer = dict(ranges)
            ranges.update(index_ranges(node.iterators))
            inner = rebuild(node.body, leaf)
            ranges.clear()
            ranges.update(outer)
            return with_body(node, inner)
        return node

    ranges = scope.ranges
    return rebuild(scope.body, leaf)


def _body_at(target: Scope, access: Access, used: set[Index]) -> Any:
    body = _with_fresh_names(target.body, used)
    return substitute(body, dict(zip(target.indices, access.subscripts)))


def _with_fresh_names(body: Any, used: set[Index]) -> Any:
    """Give reductions names of their own, so that they can join the reduction around them."""

    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        names: dict[Index, Index] = {}
        iterators = []
        for it in node.iterators:
            names[it.index] = fresh_index(it.index.name, used)
            used.add(names[it.index])
            iterators.append(LoopIndex(names[it.index], it.low, it.high))
        forms = {old: affine(new) for old, new in names.items()}
        where = substitute_conditions(node.where, forms)
        inner = _with_fresh_names(substitute(node.body, names), used)
        return Reduce(node.op, iterators, where, inner)

    return rebuild(body, leaf)


def _padded_copy(access: Access, target: Scope) -> Access | None:
    """Return a padded read of a tensor in place of one of its copy.

    The axes that are padded are whole axes of the tensor: `A.pad(0, 1)[k, i]` is read in place of
    `{L[i](A[k, i])}.pad(1)[i]`.
    """
    if not isinstance(access.base, Padded) or isinstance(access.base.base, Padded):
        return None
    if target.where or not isinstance(target.body, Access):
        return None
    amounts = _amounts_of_copied(access.base, target, target.body)
    if amounts is None:
        return None
    places = dict(zip(target.indices, access.subscripts))
    subscripts = [subscript.substitute(places) for subscript in target.body.subscripts]
    return Access.of(Padded(target.body.base, amounts, access.base.fill), tuple(subscripts))


def _amounts_of_copied(padded: Padded, scope: Scope, read: Access) -> list[Any] | None:
    """Return the padding of a tensor in place of that of its copy; None where another element than
    the fill would be read outside.
    """
    if isinstance(read.base, Padded):
        return None
    pending: dict[Index, Any] = {}
    for index, amount in zip(scope.indices, padded.amounts):
        if amount != (0, 0):
            pending[index] = amount
    outside, ranges = frozenset(pending), scope.ranges
    amounts: list[Any] = []
    for subscript, bounds in zip(read.subscripts, read.tensor.box):
        index = subscript.as_index()
        if index in pending and ranges[index] == bounds:
            amounts.append(pending.pop(index))
        elif outside.isdisjoint(subscript.indices):
            amounts.append((0, 0))
        else:
            return None
    return None if pending else amounts


def _guarded(access: Access, target: Scope, body: Any, ranges: Any) -> Any:
    """Return the body under the conditions that a padded read lies inside the domain."""
    if not isinstance(access.base, Padded):
        return body
    conditions = _inside_conditions(access, target, ranges)
    op = _reduction_with_identity(access.base.fill)
    if not conditions or op is None:
        return body
    return Reduce(op, (), conditions, body)


def _inside_conditions(access: Access, target: Scope, ranges: Any) -> list[Constraint]:
    conditions: list[Constraint] = []
    for subscript, (low, high) in zip(access.subscripts, target.box):
        first, last = subscript.interval(ranges)
        if first < low:
            conditions.append(Constraint(subscript - low, ">="))
        if last >= high:
            conditions.append(Constraint(-subscript + (high - 1), ">="))
    mapping = dict(zip(target.indices, access.subscripts))
    for condition in target.where:
        conditions.append(condition.substitute(mapping))
    return conditions


def _reduction_with_identity(value: Any) -> str | None:
    """Return the first reduction whose identity is a value, as "Sum" for 0; None without one."""
    for op, identity in IDENTITY.items():
        if identity == value:
            return op
    return None


def with_joined_reductions(body: Any) -> Any:
    """Return a body with nested reductions of one kind joined.

    Sums move out of the products around them, within a reduction.
    """

    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        inner = with_joined_reductions(node.body)
        joined = _joined(node, inner)
        if joined is not None:
            return joined
        return with_body(node, inner)

    return rebuild(body, leaf)


def _joined(node: Reduce, inner: Any) -> Reduce | None:
    """Return a reduction of `inner` joined with a reduction that is a factor of it, if one is."""
    factors = _factors(inner) if node.op == "Sum" else [inner]
    for factor in factors:
        if isinstance(factor, Reduce) and factor.op == node.op:
            others = list(factors)
            others.remove(factor)
            distinct = _with_distinct_names(factor, node, others)
            body = distinct.body
            if others:
                body = sympy.Mul(as_factor(body), *others)
            iterators = (*node.iterators, *distinct.iterators)
            joined = Reduce(node.op, iterators, (*node.where, *distinct.where), body)
            return _joined(joined, body) or joined
    return None


def _factors(body: Any) -> list[Any]:
    """Return the factors of a product; a small power of a sum is as many."""
    operands: tuple[Any, ...] = sympy.Mul.make_args(body)
    factors: list[Any] = []
    for factor in operands:
        is_power = isinstance(factor, sympy.Pow)
        base, exponent = factor.as_base_exp() if is_power else (factor, 1)
        is_sum = isinstance(base, Reduce) and base.op == "Sum"
        if is_sum and exponent in range(2, MAX_POWER + 1):
            factors += [base] * int(exponent)
        else:
            factors.append(factor)
    return factors


def _with_distinct_names(factor: Reduce, node: Reduce, others: list[Any]) -> Reduce:
    """Return the factor with names for its indices that nothing around it uses."""
    used = set(node.indices)
    for condition in node.where:
        used |= condition.indices
    for other in others:
        used |= other.free_symbols
        for reduction in reductions(other):
            used.update(reduction.indices)
    if used.isdisjoint(factor.indices):
        return factor
    return _with_fresh_names(factor, used | factor.free_symbols)


def _is_mergeable(scope: Scope, inner: Scope) -> bool:
    """Tell whether every read of an inner scope may be replaced."""
    return all(_is_replaceable(read, inner) for read in reads_of(scope, inner))


def _is_replaceable(read: ReadContext, inner: Scope) -> bool:
    """Tell whether a read lies inside the domain, or its fill is that of an empty reduction."""
    base = read.access.base
    if not isinstance(base, Padded):
        return True  # a well-formed read without padding lies inside
    if isinstance(base.base, Padded):
        return False
    if _padded_copy(read.access, inner) is not None or base.fill in IDENTITY.values():
        return True
    return holds_everywhere(lambda: read.image().is_subset(inner.domain))


RULE = Rule(
    name="traversal merging",
    before="L[x] Σ[s] {L[y] Σ[t] f(y,t)}[Φ(x,s)]",
    after="L[x] Σ[s,t] f(Φ(x,s),t)",
    requires=(
        "Φ(X) inside the domain of the inner scope, "
        "or outside it the fill is the reduction's identity"
    ),
    find=find,
    rewrite=merge,
    example=Example(
        "O[h] += (L[r:3,h:8](Sum[c](A.pad(1,0)[h+r-1,c]*K[r,c])))[r,h]", {"A": (8, 4), "K": (3, 4)}
    ),
)
