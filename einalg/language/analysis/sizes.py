"""Symbolic sizes of an expression: the values at which it has a meaning, and reads that stay inside
at all of them (design §14).

An expression has a meaning at the sizes that meet their own bounds, and at which no range ends
before its start: `O[i:N - 2]` at N of at least 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import islpy as isl

from einalg.errors import NotationError, RangeError
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space, all_values, bounded
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.size import Extent, Size, check_names, is_number, least
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Tensor, describe, padded_box, paddings
from einalg.language.ir.traversal import accesses, reductions


def allowed_sizes(*expressions: Scope | Program) -> isl.Set:
    """Return the sizes at which all of some expressions have a meaning, as an isl set of
    parameters.

    >>> import einalg as ea
    >>> allowed_sizes(ea.parse("O[i:N-2] = A[i+2]", A=("N",)))
    Set("[N] -> {  : N >= 2 }")
    """
    sizes: set[Size] = set()
    extents: dict[Extent, None] = {}
    for scope in _scopes(expressions):
        sizes.update(scope.sizes.values())
        for inner in all_scopes(scope):
            extents.update(dict.fromkeys(_extents(inner)))
    return where_not_negative(extents).intersect(all_values(sizes))


def where_not_negative(extents: Iterable[Extent]) -> isl.Set:
    """Return the sizes for which no extent is below 0, as an isl set of parameters."""
    conditions = [Constraint(extent, ">=") for extent in extents if not is_number(extent)]
    return where_all_hold(conditions)


def where_all_hold(conditions: Iterable[Constraint]) -> isl.Set:
    """Return the sizes at which conditions without indices hold, as an isl set of parameters."""
    space = Space(())
    points = space.universe()
    for condition in conditions:
        points = points.intersect(space.where(condition))
    return points.params()


def _scopes(expressions: Iterable[Scope | Program]) -> Iterator[Scope]:
    for expression in expressions:
        if isinstance(expression, Program):
            for _, scope in expression.statements:
                yield scope
        else:
            yield expression


def _extents(scope: Scope) -> Iterator[Extent]:
    """Yield what must not be negative: the extents of ranges and of tensors, and paddings."""
    for it in scope.iterators:
        yield it.extent
    for reduction in reductions(scope.body):
        for it in reduction.iterators:
            yield it.extent
    for access in accesses(scope.body):
        for view in paddings(access.base):
            for pair in view.amounts:
                yield from pair
        if isinstance(access.tensor, Tensor):
            yield from access.tensor.shape


def check_size_names(scope: Scope) -> None:
    """Raise `NotationError` where two sizes, or a size and an index, have one name."""
    limits = [limit for it in scope.iterators for limit in (it.low, it.high)]
    for tensor in scope.tensors.values():
        for axis in tensor.axes:
            limits += axis
    if all(map(is_number, limits)):
        return
    sizes: set[Size] = set()
    for inner in all_scopes(scope):
        sizes.update(inner.sizes.values())
    check_names(sizes)
    names = {size.name for size in sizes}
    bound = list(scope.iterators)
    for reduction in reductions(scope.body):
        bound += reduction.iterators
    for it in bound:
        if it.index.name in names:
            raise NotationError(
                f"{it.index} is the name of an index and of a size\n  rename one of the two"
            ).regarding(it.index)


def check_inside_for_all_sizes(
    access: Access, axis: int, iterators: Sequence[LoopIndex], where: Sequence[Constraint]
) -> None:
    """Raise `RangeError` where a read leads outside its padded box at sizes that are allowed."""
    subscript: Affine = access.subscripts[axis]
    low, high = padded_box(access.base)[axis]
    first, last = subscript.interval({it.index: (it.low, it.high) for it in iterators})
    if least(first - low) >= 0 and least(high - 1 - last) >= 0:
        return
    try:
        with bounded():
            example = _example_outside(subscript, (low, high), tuple(iterators), tuple(where))
            if example is None:
                return
    except isl.Error:
        example = {}
    raise RangeError(
        f"{subscript} reads [{first},{affine(last) + 1}) of {describe(access.base)} axis {axis}, "
        f"which holds [{low},{high}){_text(example)}\n"
        "  pad it, narrow an index, or give a size other bounds, e.g. ea.size('N', at_least=2)"
    ).regarding((access, axis))


@lru_cache(maxsize=8192)  # operators of the same shapes read alike
def _example_outside(
    subscript: Affine,
    box: tuple[Extent, Extent],
    iterators: tuple[LoopIndex, ...],
    where: tuple[Constraint, ...],
) -> Mapping[str, int] | None:
    """Return the smallest sizes at which a read leads outside; None where there are none."""
    points = _points_outside(subscript, box, iterators, where)
    return None if points.is_empty() else smallest(points.params())


def _points_outside(
    subscript: Affine,
    box: tuple[Extent, Extent],
    iterators: Sequence[LoopIndex],
    where: Sequence[Constraint],
) -> isl.Set:
    """Return the points at which a read leads outside, with the sizes that are allowed as
    parameters.
    """
    low, high = box
    space = Space([it.index for it in iterators])
    below, above = Constraint(low - subscript - 1, ">="), Constraint(subscript - high, ">=")
    outside = space.where(below).union(space.where(above))
    sizes: set[Any] = set()
    for form in (subscript, affine(low), affine(high)):
        sizes |= form.sizes
    extents = [it.extent for it in iterators]
    for extent in extents:
        sizes |= affine(extent).sizes
    allowed = where_not_negative([*extents, high - low]).intersect(all_values(sizes))
    return space.set(iterators, where).intersect(outside).intersect_params(allowed)


def _text(example: Mapping[str, int]) -> str:
    """Return the smallest sizes at which a read leads outside, as text."""
    if not example:
        return ""
    return ": outside at " + ", ".join(f"{name} = {value}" for name, value in example.items())


def conditions_text(sizes: isl.Set) -> str:
    """Return the conditions of a set of sizes as text; none where these may have any values.

    >>> conditions_text(isl.Set("[N, M] -> { : N >= 3 and M = N }").params())
    'M = N and N >= 3'
    """
    conditions = str(sizes.coalesce()).partition(":")[2]
    return conditions.rpartition("}")[0].strip()


def smallest(sizes: isl.Set) -> dict[str, int]:
    """Return the lexicographically smallest of some sizes that have lower bounds; none of an empty
    set.

    >>> import islpy as isl
    >>> smallest(isl.Set("[N, M] -> { : N >= 3 and M > N }"))
    {'N': 3, 'M': 4}
    """
    count = sizes.dim(isl.dim_type.param)
    names = [sizes.get_dim_name(isl.dim_type.param, k) for k in range(count)]
    points = sizes.from_params().move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count)
    if points.is_empty():
        return {}
    point = points.lexmin().sample_point()
    values = {}
    for position, name in enumerate(names):
        value = point.get_coordinate_val(isl.dim_type.set, position)
        values[name] = int(value.to_python())
    return values
