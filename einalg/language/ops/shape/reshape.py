"""Changes of shape that keep the elements in row-major order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine, Index, IndexLike
from einalg.language.index.convert import affine
from einalg.language.index.size import Extent, is_number, largest, least, settled
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import (
    as_tuple,
    axis_number,
    axis_numbers,
    result_indices,
    with_entries,
    without_entries,
)
from einalg.language.ops.definition.operands import (
    ArrayView,
    is_multiple,
    operand,
    product,
    size_of_axis,
    spans,
)
from einalg.language.ops.definition.registry import operator

Sizes = tuple[Extent, ...]


@operator
def reshape(x: Any, shape: Any) -> Scope:
    """Return the elements of `x` in row-major order under another shape; one size may be -1, which
    is inferred.

    Raises `ShapeError` where the sizes do not hold the elements of `x`.

    >>> import einalg as ea
    >>> reshape(ea.tensor("x", (6, 4)), (2, 3, -1)), reshape(ea.tensor("x", (2, 3)), (6,))
    (L[i:2, j:3, k:4](x[3*i + j, k]), L[i:6](x[i//3, i%3]))
    """
    view = operand(x, "x", dtype="any")
    sizes = tuple(size_of_axis(size, "shape") for size in as_tuple(shape))
    return _reshaped(view, _inferred(sizes, view.shape))


def _inferred(new: Sizes, old: Sizes) -> Sizes:
    """Return the new shape with -1 replaced, checked to hold as many elements."""
    if min(map(largest, new), default=0) < -1 or new.count(-1) > 1:
        raise ShapeError(
            f"shape is {new}; its sizes must be 0 or more, and one may be -1\n"
            f"  e.g. shape=({prod(old)},)"
        )
    count, known = _elements(old, [size for size in new if size != -1])
    if -1 in new:
        if not is_number(known):
            raise ShapeError(
                f"shape is {new}, of which -1 does not follow: x has shape {old}\n  write all sizes"
            )
        if not known or not is_multiple(count, known):
            raise ShapeError(
                f"shape is {new}, but {known} does not divide the {count} elements of x, of "
                f"shape {old}\n"
                f"  e.g. shape=({count},)"
            )
        return with_entries(new, {new.index(-1): settled(count // known)})
    if known != count:
        raise ShapeError(
            f"shape is {new}, which holds {known} elements, but x, of shape {old}, has "
            f"{count}\n"
            f"  e.g. shape=({count},)"
        )
    return new


def _elements(one: Sequence[Extent], two: Sequence[Extent]) -> tuple[Extent, Extent]:
    """Return the numbers of elements of two shapes, both without the symbolic sizes that they
    share.
    """
    if all(map(is_number, (*one, *two))):
        return prod(one), prod(two)
    ours, theirs = list(one), list(two)
    for size in one:
        if not is_number(size) and size in theirs:
            ours.remove(size)
            theirs.remove(size)
    return product(ours), product(theirs)


def _reshaped(view: ArrayView, shape: Sizes) -> Scope:
    at = result_indices(len(shape))
    return L[spans(at, shape)](view[row_major(view.shape, at, shape)])


def row_major(old: Sizes, at: Sequence[Index], new: Sizes) -> tuple[Affine, ...]:
    """Return subscripts of an array of sizes `old` for the element that stands at `at` when its
    shape is `new`.

    >>> i, j = result_indices(2)
    >>> row_major((4, 3), (i, j), (2, 6))
    (2*i + j//3, j%3)
    """
    if 0 in old:
        return (affine(0),) * len(old)
    subscripts: list[Affine] = []
    for old_axes, new_axes in _groups(old, new):
        sizes = old[old_axes.start : old_axes.stop]
        group = slice(new_axes.start, new_axes.stop)
        named = []
        for index, size, stride in zip(at[group], new[group], _strides(new[group])):
            if size != 1:
                named.append((index, size, stride))
        by_digits: list[Affine] = []
        if all(map(is_number, (*sizes, *new[group]))):
            by_digits = _by_digits(list(zip(sizes, _strides(sizes))), named)
        if not by_digits:
            position = sum((index * stride for index, _, stride in named), affine(0))
            by_digits = digits(position, sizes)
        subscripts += by_digits
    return tuple(subscripts)


def _strides(shape: Sizes) -> Sizes:
    """Return the elements between neighbours along each axis, in row-major order.

    >>> _strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(product(shape[position + 1 :]) for position in range(len(shape)))


def _groups(old: Sizes, new: Sizes) -> list[tuple[range, range]]:
    """Return runs of axes of both shapes that hold the same elements, as short as possible.

    >>> _groups((4, 3, 5), (12, 5))
    [(range(0, 2), range(0, 1)), (range(2, 3), range(1, 2))]
    """
    groups, p, q = [], 0, 0
    while p < len(old) or q < len(new):
        first_old, first_new = p, q
        old_elements: Extent = 1
        new_elements: Extent = 1
        if p < len(old):
            old_elements = old[p]
            p += 1
        while old_elements != new_elements or p == first_old:
            if q < len(new) and (_is_behind(new_elements, old_elements) or p == len(old)):
                new_elements = product((new_elements, new[q]))
                q += 1
            elif p < len(old):
                old_elements = product((old_elements, old[p]))
                p += 1
            else:
                break
        groups.append((range(first_old, p), range(first_new, q)))
    return groups


def _is_behind(one: Extent, two: Extent) -> bool:
    """Return whether of two numbers of elements the first is the one that further axes multiply:
    the smaller one, and a number beside a symbolic size.
    """
    if is_number(one) != is_number(two):
        return is_number(one)
    return least(two - one) > 0


def _by_digits(wanted: list[tuple[int, int]], named: list[tuple[Index, int, int]]) -> list[Affine]:
    """Return subscripts of axes `(size, stride)` from indices `(index, size, stride)` of the same
    elements, without adding indices up.

    A number in mixed radix, of which every axis of both shapes holds neighbouring digits; none
    where there is no such radix.
    """
    boundaries = {stride for _, stride in wanted}
    boundaries.update(stride for _, _, stride in named)
    boundaries.add(prod(size for size, _ in wanted))
    weights = sorted(boundaries, reverse=True)
    if any(above % weight for above, weight in pairwise(weights)):
        return []
    by_weight = _digits_by_weight(weights, named)
    subscripts = []
    for size, stride in wanted:
        total = affine(0)
        for weight, digit in by_weight.items():
            if stride <= weight < stride * size:
                total = total + digit * (weight // stride)
        subscripts.append(total)
    return subscripts


def _digits_by_weight(
    weights: Sequence[int], named: list[tuple[Index, int, int]]
) -> dict[int, Affine]:
    """Return the digits of indices `(index, size, stride)` in the radix of these weights."""
    by_weight: dict[int, Affine] = {}
    for index, size, stride in named:
        for above, weight in pairwise(weights):
            if stride <= weight and above <= stride * size:
                digit = affine(index) // (weight // stride)
                if above != stride * size:
                    digit = digit % (above // weight)
                by_weight[weight] = digit
    return by_weight


def digits(position: IndexLike, sizes: Sequence[int], bounded: bool = True) -> list[Affine]:
    """Return the subscripts of a row-major position in an array of these sizes; taken modulo their
    product unless it is `bounded` by it.

    >>> digits(Index("i"), (4, 1, 3)), digits(Index("i"), (4, 3), bounded=False)
    ([i//3, 0, i%3], [(i//3)%4, i%3])
    """
    subscripts = []
    for size, stride in zip(sizes, _strides(tuple(sizes))):
        digit = affine(0)
        if largest(size) > 1 and stride != 0:
            digit = affine(position) // stride
            is_leading = bounded and size * stride == product(sizes)
            if not is_leading:
                digit = digit % size
        subscripts.append(digit)
    return subscripts


@operator
def flatten(x: Any, start: int = 0, end: int = -1) -> Scope:
    """Return `x` with the axes from `start` to `end`, both included, as one; negative numbers count
    from the end. A scalar gives one axis.

    Raises `ShapeError` for axes that `x` does not have, or `end` before `start`.

    >>> import einalg as ea
    >>> flatten(ea.tensor("x", (2, 3, 4)), 1)
    L[i:2, j:12](x[i, j//4, j%4])
    """
    view = operand(x, "x", dtype="any")
    if not view.rank:
        return _reshaped(view, (1,))
    first, last = axis_number(start, "start", view.rank), axis_number(end, "end", view.rank)
    if last < first:
        raise ShapeError(
            f"end is axis {last}, which is before start, axis {first}\n  exchange the two"
        )
    before, merged, after = view.shape[:first], view.shape[first : last + 1], view.shape[last + 1 :]
    return _reshaped(view, (*before, product(merged), *after))


@operator
def squeeze(x: Any, axes: Any = None) -> Scope:
    """Return `x` without axes of size 1: those of `axes` (a number or several), or all of them.

    Raises `ShapeError` for an axis that `x` does not have, or whose size is not 1.

    >>> import einalg as ea
    >>> squeeze(ea.tensor("x", (1, 3, 1)), 0)
    L[i:3, j:1](x[0, i, j])
    """
    view = operand(x, "x", dtype="any")
    removed = [axis for axis, size in enumerate(view.shape) if size == 1]
    if axes is not None:
        removed = axis_numbers(axes, "axes", view.rank)
    for axis in removed:
        if view.shape[axis] != 1:
            raise ShapeError(
                f"axis {axis} of x has size {view.shape[axis]}, not 1\n  leave it out of axes"
            )
    shape = without_entries(view.shape, removed)
    at = result_indices(len(shape))
    remaining = iter(at)
    subscripts: list[Any] = []
    for axis in range(view.rank):
        subscripts.append(0 if axis in removed else next(remaining))
    return L[spans(at, shape)](view[tuple(subscripts)])


@operator
def unsqueeze(x: Any, axes: Any) -> Scope:
    """Return `x` with new axes of size 1 at `axes` (a number or several) of the result.

    Raises `ShapeError` for an axis that the result does not have.

    >>> import einalg as ea
    >>> unsqueeze(ea.tensor("x", (3,)), (0, -1))
    L[i:1, j:3, k:1](x[j])
    """
    view = operand(x, "x", dtype="any")
    entries = () if axes is None else as_tuple(axes)
    rank = view.rank + len(entries)
    new = axis_numbers(entries, "axes", rank)
    at = result_indices(rank)
    old = without_entries(at, new)
    sizes = dict(zip(old, view.shape))
    return L[spans(at, [sizes.get(index, 1) for index in at])](view[old])
