"""Validity of expressions: indices are bound once, and every read is inside its padded box (design
§2).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import islpy as isl

from einalg.errors import NotationError, RangeError
from einalg.language.analysis.sizes import check_inside_for_all_sizes, check_size_names
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space, all_values, bounded, domain_set
from einalg.language.index.iterator import BoundTwice, LoopIndex, sizes_of
from einalg.language.index.size import is_always_negative, largest
from einalg.language.ir.body import Reduce
from einalg.language.ir.functions import OPERATIONS, not_a_function
from einalg.language.ir.scope import Scope, all_scopes, tensors
from einalg.language.ir.tensor import Access, Padded, Tensor, describe, padded_box, unpadded
from einalg.language.ir.traversal import IndexArithmetic

Statements = Mapping[str, Scope]


def check(expression: Any) -> None:
    """Raise `RangeError` or `NotationError` where a scope or program, or a scope inside it, is not
    well-formed.
    """
    statements = [("", expression)]
    if not isinstance(expression, Scope):
        statements = expression.statements
    known: dict[str, Scope] = {}
    for name, scope in statements:
        for node in all_scopes(scope):
            check_scope(node, known)
        known[name] = scope


def check_scope(scope: Scope, statements: Statements = MappingProxyType({})) -> None:
    """Check one scope, not the scopes that it reads; `statements` are those that it may read by
    name.
    """
    _bind({}, scope.iterators)
    for condition in scope.where:
        _all_bound(condition.indices, scope.ranges, condition)
    tensors(scope)  # refuses two tensors of one name
    check_size_names(scope)
    _visit(scope.body, scope.iterators, scope.where, statements)


def _bind(
    ranges: dict[Index, tuple[int, int]], iterators: tuple[LoopIndex, ...]
) -> dict[Index, tuple[int, int]]:
    ranges = dict(ranges)
    for it in iterators:
        if it.index in ranges:
            raise BoundTwice(it.index).error()
        if is_always_negative(it.extent):
            message = (
                f"index {it.index} has the range [{it.low},{it.high}), whose end is before its "
                "start"
            )
            raise RangeError(
                f"{message}\n  write {LoopIndex(it.index, it.high, it.low)}"
            ).regarding(it.index)
        ranges[it.index] = (it.low, it.high)
    return ranges


def _all_bound(indices: Any, ranges: Any, where: Any) -> None:
    loose = sorted(i.name for i in indices if i not in ranges)
    if loose:
        message = (
            f"index {loose[0]} in {where} is not bound\n"
            f"  add it to L[...] or to a reduction, e.g. Sum[{loose[0]}](...)"
        )
        raise NotationError(message).regarding(Index(loose[0]))


def _visit(
    body: Any,
    iterators: tuple[LoopIndex, ...],
    where: tuple[Constraint, ...],
    statements: Statements,
) -> None:
    ranges = {it.index: (it.low, it.high) for it in iterators}
    if isinstance(body, Access):
        _check_access(body, iterators, where, ranges)
        _check_inside_domain(body, iterators, where, statements)
    elif isinstance(body, Reduce):
        _bind(ranges, body.iterators)
        inner = (*iterators, *body.iterators)
        known = {it.index for it in inner}
        for condition in body.where:
            _all_bound(condition.indices, known, condition)
        _visit(body.body, inner, (*where, *body.where), statements)
    elif isinstance(body, IndexArithmetic):
        _all_bound(affine(body).indices, ranges, body)
    elif body.is_Symbol:
        message = f"{body} is neither an index, a tensor nor a number"
        raise NotationError(
            f"{message}\n"
            f"  make it an index with ea.indices({str(body)!r}), or a tensor with ea.tensor"
        )
    elif body.args and type(body) not in OPERATIONS:
        raise NotationError(not_a_function(type(body).__name__))
    else:
        for argument in body.args:
            _visit(argument, iterators, where, statements)


def _check_access(
    access: Access, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...], ranges: Any
) -> None:
    for subscript in access.subscripts:
        _all_bound(subscript.indices, ranges, access)
    box = padded_box(access.base)
    if any(largest(it.extent) <= 0 for it in iterators):
        return
    for axis, (subscript, (low, high)) in enumerate(zip(access.subscripts, box)):
        first, last = subscript.interval(ranges)
        if not (type(first) is type(last) is type(low) is type(high) is int):
            check_inside_for_all_sizes(access, axis, iterators, where)
        elif first < low or last >= high:
            exact = _exact_interval(subscript, iterators, where)
            if exact is not None and (exact[0] < low or exact[1] >= high):
                raise RangeError(outside(access, axis, subscript, *exact)).regarding((access, axis))


def outside(access: Access, axis: int, subscript: Affine, first: int, last: int) -> str:
    """Return the message for a read outside the padded box, with the padding that would make it
    right.
    """
    low, high = padded_box(access.base)[axis]
    missing: list[Any] = [0] * access.base.rank
    missing[axis] = max(0, low - first), max(0, last + 1 - high)
    fill = access.base.fill if isinstance(access.base, Padded) else 0
    view = str(Padded(access.base, missing, fill))
    if not isinstance(unpadded(access.base), Tensor):
        view = f"(...){view[view.rindex('.pad(') :]}"
    return (
        f"{subscript} reads [{first},{last + 1}) of {describe(access.base)} axis {axis}, which "
        f"holds [{low},{high})\n"
        f"  pad it: {view}, or narrow an index"
    )


def _exact_interval(
    form: Affine, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> tuple[int, int] | None:
    """Return the smallest and largest value on the domain; None where the domain is empty."""
    try:
        with bounded():
            return _interval_on_points(form, iterators, where)
    except isl.Error:
        return form.interval({it.index: (it.low, it.high) for it in iterators})


@lru_cache(maxsize=8192)  # a derivation checks the same reads after every move
def _interval_on_points(
    form: Affine, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> tuple[int, int] | None:
    space = Space([it.index for it in iterators])
    points = space.set(iterators, where)
    if points.is_empty():
        return None
    aff = space.aff(form)
    return int(points.min_val(aff).to_python()), int(points.max_val(aff).to_python())


def _check_inside_domain(
    access: Access,
    iterators: tuple[LoopIndex, ...],
    where: tuple[Constraint, ...],
    statements: Statements,
) -> None:
    """Check that a scope whose domain is cut, and that is not padded, is read inside its domain."""
    base = access.base
    inner: Any = base
    if isinstance(base, Tensor) and base.role == "intermediate":
        inner = statements.get(base.name)
    if not isinstance(inner, Scope) or not inner.where:
        return
    if any(largest(it.extent) <= 0 for it in iterators):
        return
    space = Space([it.index for it in iterators])
    target = domain_set(inner.iterators, inner.where)
    try:
        with bounded():
            points = space.set(iterators, where)
            if scope_sizes := {*sizes_of(iterators), *inner.sizes.values()}:
                points = points.intersect_params(all_values(scope_sizes))
            reads = space.map(access.subscripts).intersect_domain(points)
            inside = reads.range().is_subset(target)
    except isl.Error:
        inside = False
    if not inside:
        conditions = " and ".join(map(str, inner.where))
        name = base.name if isinstance(base, Tensor) else "(...)"
        message = (
            f"{access} reads points of {describe(base)} at which it has no value (it has where "
            f"{conditions})"
        )
        raise RangeError(
            f"{message}\n  pad it: {name}.pad({', '.join('0' * inner.rank)})"
        ).regarding(access)
