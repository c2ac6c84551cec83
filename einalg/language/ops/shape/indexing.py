"""Operators that index: permutations, slices, repetitions, diagonals, triangles."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, NamedTuple

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.size import Extent, as_extent, is_number, largest, settled
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import (
    aligned,
    as_tuple,
    axis_number,
    axis_numbers,
    entries,
    integer,
    result_indices,
    with_entries,
    without_entries,
)
from einalg.language.ops.definition.operands import ArrayView, operand, size_of_axis, spans, whole
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.shape.concatenation import concat


def _along_axes(
    view: ArrayView, sizes: dict[int, Extent], subscripts: Callable[[int, Index], Any]
) -> Scope:
    """`O[…, i, …] = x[…, subscripts(axis, i), …]` on the axes that have an entry in `sizes`, which
    says their new sizes.
    """
    at = result_indices(view.rank)
    shape = with_entries(view.shape, sizes)
    changed = {axis: subscripts(axis, at[axis]) for axis in sizes}
    return L[spans(at, shape)](view[with_entries(at, changed)])


@operator
def transpose(x: Any, axes: Any = None) -> Scope:
    """Return `x` with its axes in another order: axis `k` of the result is axis `axes[k]` of `x`;
    None reverses them.

    Raises `ShapeError` where `axes` does not name every axis of `x` once.

    >>> import einalg as ea
    >>> transpose(ea.tensor("x", (2, 3, 4)), (0, 2, 1))
    L[i:2, j:4, k:3](x[i, k, j])
    """
    view = operand(x, "x", dtype="any")
    reverse = tuple(range(view.rank))[::-1]
    order = reverse if axes is None else axis_numbers(axes, "axes", view.rank)
    if len(order) != view.rank:
        raise ShapeError(
            f"axes is {axes!r}, but x has {view.rank} axes\n"
            f"  name every axis once, e.g. axes={reverse}"
        )
    at = result_indices(view.rank)
    subscripts = with_entries(at, dict(zip(order, at)))
    return L[spans(at, [view.shape[axis] for axis in order])](view[subscripts])


@operator
def slice(x: Any, starts: Any, stops: Any, steps: Any = None, axes: Any = None) -> Scope:
    """Return `x[start:stop:step]` on `axes` (by default the first ones), as Python and NumPy read
    it: negative numbers and None included.

    `starts`, `stops` and `steps` are a number or None for one axis, or one entry for each axis.
    Raises `ShapeError` for a step of 0, an axis that `x` does not have, or entries that do not fit
    the axes.

    >>> import einalg as ea
    >>> slice(ea.tensor("x", (7, 3)), 1, -1, 2), slice(ea.tensor("x", (7,)), None, None, -1)
    (L[i:3, j:3](x[2*i + 1, j]), L[i:7](x[-i + 6]))
    """
    view = operand(x, "x", dtype="any")
    if axes is None:
        axes = tuple(range(_entry_count(starts, stops, steps)))
    numbers = axis_numbers(axes, "axes", view.rank)
    rows = zip(
        numbers,
        entries(starts, "starts", len(numbers), "axes"),
        entries(stops, "stops", len(numbers), "axes"),
        entries(steps, "steps", len(numbers), "axes"),
    )
    positions = {}
    for axis, start, stop, step in rows:
        positions[axis] = _positions(view.shape[axis], start, stop, step)
    sizes = {axis: read.count for axis, read in positions.items()}

    def subscript(axis: int, index: Index) -> Any:
        return positions[axis].start + positions[axis].step * index

    return _along_axes(view, sizes, subscript)


def _entry_count(*values: Any) -> int:
    """Return how many entries the first of several arguments has that is no single value."""
    for value in values:
        if isinstance(value, (tuple, list)):
            return len(value)
    return 1


class _Positions(NamedTuple):
    """The positions of a slice: so many, from `start` on."""

    start: Extent
    step: int
    count: Extent


def _positions(size: Extent, start: Any, stop: Any, step: Any) -> _Positions:
    """Return the positions of a slice of an axis."""
    stride = 1 if step is None else integer(step, "steps")
    if stride == 0:
        raise ShapeError(
            "steps is 0, with which no slice ends\n"
            "  give 1 or another step, negative to go backwards"
        )
    first, last = _position_or_none(start, "starts"), _position_or_none(stop, "stops")
    if all(limit is None or is_number(limit) for limit in (size, first, last)):
        read = range(*builtins.slice(first, last, stride).indices(size))
        return _Positions(read.start, stride, len(read))
    return _symbolic_positions(size, first, last, stride)


def _symbolic_positions(
    size: Extent, first: Extent | None, last: Extent | None, stride: int
) -> _Positions:
    """Return the positions of a slice at the sizes at which it stays on the axis as it is written,
    and does not end before its start.
    """
    ends = (0, size) if stride > 0 else (size - 1, affine(-1))
    start = ends[0] if first is None else _from_start(size, first)
    stop = ends[1] if last is None else _from_start(size, last)
    length = stop - start if stride > 0 else start - stop
    return _Positions(start, stride, settled(-(-affine(length) // abs(stride))))


def _from_start(size: Extent, position: Extent) -> Extent:
    """Return a position of a slice counted from the start; negative ones count from the end."""
    return size + position if largest(position) < 0 else position


def _position_or_none(value: Any, name: str) -> Extent | None:
    if value is None:
        return None
    position = as_extent(value)
    if position is None:
        return integer(value, name)
    return position


@operator
def flip(x: Any, axes: Any = None) -> Scope:
    """Return `x` in reverse order along `axes` (a number, several, or None for all). Raises
    `ShapeError` for an axis that `x` does not have.

    >>> import einalg as ea
    >>> flip(ea.tensor("x", (2, 3)), 1)
    L[i:2, j:3](x[i, -j + 2])
    """
    view = operand(x, "x", dtype="any")
    sizes = {axis: view.shape[axis] for axis in axis_numbers(axes, "axes", view.rank)}
    return _along_axes(view, sizes, lambda axis, index: sizes[axis] - 1 - index)


@operator
def roll(x: Any, shifts: Any, axes: Any) -> Scope:
    """Return `x` moved towards higher subscripts by `shifts` (of either sign) along `axes`; what
    leaves at one end enters at the other.

    Raises `ShapeError` for an axis that `x` does not have, or shifts that do not fit the axes.

    >>> import einalg as ea
    >>> roll(ea.tensor("x", (5,)), 2, 0)
    L[i:5](x[(i + 3)%5])
    """
    view = operand(x, "x", dtype="any")
    numbers = axis_numbers(axes, "axes", view.rank)
    amounts, sizes = {}, {}
    for axis, shift in zip(numbers, entries(shifts, "shifts", len(numbers), "axes")):
        amount = integer(shift, "shifts")
        if is_number(view.shape[axis]):
            amounts[axis], sizes[axis] = amount, view.shape[axis]
        else:
            view = operand(_rolled(view, axis, amount), "x", dtype="any")

    def subscript(axis: int, index: Index) -> Affine:
        return _around(index - amounts[axis], sizes[axis])

    return _along_axes(view, sizes, subscript)


def _rolled(view: ArrayView, axis: int, shift: int) -> Scope:
    """Return an operand whose last elements along an axis of symbolic size, of which there are at
    least so many as they are moved, stand before the others.
    """
    cut = affine(-shift) if shift < 0 else view.shape[axis] - shift
    ends = (slice(view.value, cut, None, 1, axis), slice(view.value, 0, cut, 1, axis))
    return concat(ends, axis)


def _around(form: Affine, size: int) -> Affine:
    """Return a position modulo the size of its axis; an empty axis is never read."""
    if not size:
        return affine(0)
    return form % size


@operator
def repeat(x: Any, repeats: int, axis: int) -> Scope:
    """Return every element `repeats` times in a row along an axis, as `numpy.repeat` does.

    Raises `ShapeError` for an axis that `x` does not have, or negative repeats.

    >>> import einalg as ea
    >>> repeat(ea.tensor("x", (2, 3)), 2, 1)
    L[i:2, j:6](x[i, j//2])
    """
    view, times = operand(x, "x", dtype="any"), whole(repeats, "repeats", 0)
    position = axis_number(axis, "axis", view.rank)

    def subscript(_: int, index: Index) -> Affine:
        if not times:
            return affine(0)
        return affine(index) // times

    return _along_axes(view, {position: view.shape[position] * times}, subscript)


@operator
def tile(x: Any, repeats: Any) -> Scope:
    """Return `x` put side by side `repeats` times: a number for each axis, aligned at the end as in
    `numpy.tile`.

    Fewer repeats than axes leave the first axes as they are; more make new axes in front. Raises
    `ShapeError` for negative repeats.

    >>> import einalg as ea
    >>> tile(ea.tensor("x", (3,)), (2, 4))
    L[i:2, j:12](x[j%3])
    """
    view = operand(x, "x", dtype="any")
    counts = tuple(whole(count, "repeats", 0) for count in as_tuple(repeats))
    counts = (1,) * (view.rank - len(counts)) + counts
    new_axes = len(counts) - view.rank
    for axis, size in enumerate(view.shape):
        count = counts[new_axes + axis]
        if count > 1 and not is_number(size):
            view = operand(concat([view.value] * count, axis), "x", dtype="any")
            counts = with_entries(counts, {new_axes + axis: 1})
    old = (1,) * new_axes + view.shape
    at = result_indices(len(counts))
    shape, subscripts = [], []
    for index, count, size in zip(at, counts, old):
        shape.append(size * count)
        subscripts.append(index if count == 1 else _around(affine(index), size))
    return L[spans(at, shape)](view[tuple(subscripts[new_axes:])])


@operator
def broadcast_to(x: Any, shape: Any) -> Scope:
    """Return `x` with its axes of size 1 repeated to a shape, aligned at the end; -1 keeps a size
    of `x`, as in `torch.expand`.

    Raises `ShapeError` where `x` does not broadcast to the shape.

    >>> import einalg as ea
    >>> broadcast_to(ea.tensor("x", (3, 1)), (2, -1, 4))
    L[i:2, j:3, k:4](x[j, 0])
    """
    view = operand(x, "x", dtype="any")
    sizes = tuple(size_of_axis(size, "shape") for size in as_tuple(shape))
    front = len(sizes) - view.rank
    if front < 0 or min(map(largest, sizes[:front]), default=0) < 0:
        raise ShapeError(
            f"shape is {sizes}, but x has shape {view.shape}\n"
            "  give one size an axis, and sizes of 0 or more for new axes in front"
        )
    full = list(sizes)
    for axis, old in enumerate(view.shape):
        new = sizes[front + axis]
        if new == -1:
            full[front + axis] = old
        elif old != new and (old != 1 or largest(new) < 0):
            raise ShapeError(
                f"axis {axis} of x has size {old}, which does not broadcast to {new}\n"
                "  only an axis of size 1 is repeated"
            )
    at = result_indices(len(full))
    return L[spans(at, full)](aligned(view, at, full))


@operator
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Scope:
    """Return the elements at which the subscript of `axis2` is that of `axis1` plus `offset`; they
    become the last axis, as in NumPy.

    Raises `ShapeError` for an axis that `x` does not have, or two axes that are one.

    >>> import einalg as ea
    >>> diagonal(ea.tensor("x", (3, 4, 5)), 1)
    L[i:5, j:3](x[j, j + 1, i])
    """
    view, shift = operand(x, "x", least=2, dtype="any"), integer(offset, "offset")
    row, column = axis_number(axis1, "axis1", view.rank), axis_number(axis2, "axis2", view.rank)
    if row == column:
        raise ShapeError(f"axis1 and axis2 are both axis {row}\n  give two axes")
    first, second = max(0, -shift), max(0, shift)
    length = max(0, min(view.shape[row] - first, view.shape[column] - second))
    *rest, d = result_indices(view.rank - 1)
    subscripts: list[Any] = list(rest)
    on_diagonal = {row: d + first, column: d + second}
    for axis in sorted(on_diagonal):
        subscripts.insert(axis, on_diagonal[axis])
    shape = (*without_entries(view.shape, (row, column)), length)
    return L[spans((*rest, d), shape)](view[tuple(subscripts)])


def _triangle(x: Any, inside: Callable[[Index, Index], Any]) -> Scope:
    view = operand(x, "x", least=2, dtype="any")
    at = result_indices(view.rank)
    return L[spans(at, view.shape)](view[at], where=inside(at[-2], at[-1]))


@operator
def tril(x: Any, k: int = 0) -> Scope:
    """Return the last two axes on and below the `k`-th diagonal; 0 elsewhere, where the scope has
    no value and other operators read 0.

    `x` is `(…, M, N)`. Raises `ShapeError` for fewer than two axes.

    >>> import einalg as ea
    >>> tril(ea.tensor("x", (3, 4)))
    L[i:3, j:4](x[i, j], where=i >= j)
    """
    shift = integer(k, "k")
    return _triangle(x, lambda i, j: i + shift >= j)


@operator
def triu(x: Any, k: int = 0) -> Scope:
    """Return the last two axes on and above the `k`-th diagonal; 0 elsewhere, where the scope has
    no value and other operators read 0.

    `x` is `(…, M, N)`. Raises `ShapeError` for fewer than two axes.

    >>> import einalg as ea
    >>> triu(ea.tensor("x", (3, 4)), 1)
    L[i:3, j:4](x[i, j], where=j >= i + 1)
    """
    shift = integer(k, "k")
    return _triangle(x, lambda i, j: j >= i + shift)
