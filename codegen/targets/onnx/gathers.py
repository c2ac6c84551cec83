"""Reads of arrays by expressions and operators.

It is read by slices, reshapes, transpositions, and look-ups of positions along axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from codegen.ir.nodes import Buf
from codegen.targets.onnx.graph_builder import OnnxGraphBuilder
from einalg.language.index.affine import Affine, Index
from einalg.language.interpreters.numpy.loops import along_axes
from einalg.language.ir.kernel import View
from einalg.language.ir.tensor import Box

Array = np.ndarray[Any, Any]
Range = tuple[int, int]
Walk = tuple[int, int]  # extent and stride, in elements


class GatheredAxes(NamedTuple):
    """Axes of an array, and the positions that are read in these, flattened.

    The positions are an array with an axis for each index: `A[i + j]` has `[[0, 1], [1, 2]]`.
    """

    axes: tuple[int, ...]
    positions: Array


def gathered(writer: OnnxGraphBuilder, array: Buf, parts: Sequence[GatheredAxes]) -> Buf:
    """Return the elements at some positions, every axis of the array being in one part.

    The axes of the result are those of the parts, in order.
    """
    order: list[int] = []
    shape: list[int] = []
    sizes: list[int] = []
    for part in parts:
        order += part.axes
        shape += part.positions.shape
        sizes.append(prod(array.shape[axis] for axis in part.axes))
    selected = [axis for axis, part in enumerate(parts) if not _is_whole(part, sizes[axis])]
    result = writer.transpose(array, order)
    if selected:
        result = writer.reshape(result, sizes)
    for axis in reversed(selected):
        result = _selection(writer, result, axis, parts[axis].positions)
    return writer.reshape(result, shape)


def _is_whole(part: GatheredAxes, size: int) -> bool:
    """Return whether all of so many elements are read, in order."""
    positions = part.positions
    return positions.size == size and _step(positions) == 1 and positions.flat[0] == 0


def _selection(writer: OnnxGraphBuilder, array: Buf, axis: int, positions: Array) -> Buf:
    """Return the elements at positions along an axis: a slice where these progress evenly."""
    step = _step(positions)
    if step is not None:
        return writer.slice(array, axis, int(positions.flat[0]), positions.size, step)
    shape = [*array.shape[:axis], *positions.shape, *array.shape[axis + 1 :]]
    looked_up = writer.constant(positions, "i64", "positions")
    return writer.add("Gather", [array, looked_up], shape, array.dtype, axis=axis)


def _step(positions: Array) -> int | None:
    """Return the step of positions that progress evenly, None for others.

    >>> _step(np.array([3, 5, 7])), _step(np.array([3, 5, 6]))
    (2, None)
    """
    flat = positions.ravel()
    if flat.size == 1:
        return 1
    steps = np.diff(flat)
    if steps[0] and (steps == steps[0]).all():
        return int(steps[0])
    return None


def element(
    writer: OnnxGraphBuilder,
    array: Buf,
    box: Box,
    subscripts: Sequence[Affine],
    ranges: Mapping[Index, Range],
) -> Buf:
    """Return `array[subscripts]` at every point of the loops.

    Its axes are those of `ranges`, of extent 1 where nothing varies. A subscript that leaves the
    box does so only at points that a condition excludes: it is moved to the nearest element.
    """
    parts: list[GatheredAxes] = []
    order: list[Index] = []
    for axes in _groups_sharing_indices([form.indices for form in subscripts]):
        forms = [subscripts[axis] for axis in axes]
        inside = _ranges_of(forms, ranges)
        parts.append(GatheredAxes(axes, _positions(forms, [box[axis] for axis in axes], inside)))
        order += inside
    loops = list(ranges)
    result = gathered(writer, array, parts)
    result = writer.transpose(
        result, sorted(range(len(order)), key=lambda k: loops.index(order[k]))
    )
    shape = []
    for index, (low, high) in ranges.items():
        extent = 1
        if index in order:
            extent = high - low
        shape.append(extent)
    return writer.reshape(result, shape)


def _ranges_of(forms: Sequence[Affine], ranges: Mapping[Index, Range]) -> dict[Index, Range]:
    """Return the ranges of those indices that index expressions depend on."""
    indices = frozenset[Index]().union(*(form.indices for form in forms))
    return {index: bounds for index, bounds in ranges.items() if index in indices}


def _positions(
    forms: Sequence[Affine], box: Sequence[Range], ranges: Mapping[Index, Range]
) -> Array:
    """Return the positions of elements in some axes, flattened, for every value of the indices."""
    points, positions = along_axes(ranges), np.zeros((), np.int64)
    for form, (low, high) in zip(forms, box):
        extent = high - low
        positions = positions * extent + np.clip(form.evaluate(points) - low, 0, extent - 1)
    return np.broadcast_to(positions, [high - low for low, high in ranges.values()])


def _groups_sharing_indices(indices: Sequence[frozenset[Index]]) -> list[tuple[int, ...]]:
    """Return axes in groups, so that no index is in two of them.

    Of `A[i, j, i + k]` the axes 0 and 2, and the axis 1.
    """
    groups: list[tuple[tuple[int, ...], frozenset[Index]]] = []
    for axis, of_axis in enumerate(indices):
        axes, shared = [axis], of_axis
        others = []
        for group in groups:
            if group[1] & of_axis:
                axes += group[0]
                shared |= group[1]
            else:
                others.append(group)
        groups = [*others, (tuple(sorted(axes)), shared)]
    return [axes for axes, _ in sorted(groups)]


def operand(writer: OnnxGraphBuilder, array: Buf, view: View, *groups: str) -> Buf:
    """Return an array as an operator sees it, with an axis for each word of `groups`.

    It is made of the axes that the view has for the letters of the word (`*`: those of the batch).
    """
    walks = _all_walks(view, groups)
    cuts = [0]
    for axis in range(1, len(array.shape)):
        if _is_cut(prod(array.shape[axis:]), view.offset, walks):
            cuts.append(axis)
    cuts.append(len(array.shape))
    parts: list[GatheredAxes] = []
    order: list[int] = []
    for first, last in pairwise(cuts):
        outer, inner = prod(array.shape[first:]), prod(array.shape[last:])
        chosen = []
        for k, (_, stride) in enumerate(walks):
            if stride % inner == 0 and (first == 0 or stride % outer):
                chosen.append(k)
        start = view.offset % outer // inner
        positions = _walked([walks[k] for k in chosen], start, inner)
        parts.append(GatheredAxes(tuple(range(first, last)), positions))
        order += chosen
    result = gathered(writer, array, parts)
    result = writer.transpose(result, [order.index(k) for k in range(len(walks))])
    shape = [prod(extent for extent, _ in walks_of(view, group)) for group in groups]
    return writer.reshape(result, shape)


def _walked(walks: Sequence[Walk], start: int, unit: int) -> Array:
    """Return the positions of some walks from `start` on, in `unit` elements."""
    positions = np.full([1] * len(walks), start, np.int64)
    for axis, (extent, stride) in enumerate(walks):
        shape = [1] * len(walks)
        shape[axis] = extent
        positions = positions + stride // unit * np.arange(extent).reshape(shape)
    return positions


def walks_of(view: View, group: str) -> list[Walk]:
    """Return the axes of a view for the letters of a word."""
    walks: list[Walk] = []
    for letter in group:
        if letter == "*":
            walks += view.batch
        else:
            walks += view.axes.get(letter, ())
    return walks


def _all_walks(view: View, groups: Sequence[str]) -> list[Walk]:
    walks: list[Walk] = []
    for group in groups:
        walks += walks_of(view, group)
    return walks


def _is_cut(unit: int, offset: int, walks: Sequence[Walk]) -> bool:
    """Return whether the axes before and after a place can be read one after the other.

    No walk among the inner ones, of `unit` elements, goes on to the outer ones.
    """
    low = high = offset % unit
    for extent, stride in walks:
        if stride % unit:
            low += min(0, (extent - 1) * stride)
            high += max(0, (extent - 1) * stride)
    return low >= 0 and high < unit


def in_memory_order(
    writer: OnnxGraphBuilder, result: Buf, target: View, *groups: str
) -> Buf | None:
    """Return what an operator computed in the axes of its output, in the order of memory.

    The result has an axis for each word of `groups`. None where it does not fill the output so.
    """
    walks = _all_walks(target, groups)
    order = sorted(range(len(walks)), key=lambda k: (-walks[k][1], k))
    inner = 1
    for extent, stride in (walks[k] for k in reversed(order)):
        if extent > 1 and stride != inner:
            return None
        inner *= extent
    if target.offset:
        return None
    split = writer.reshape(result, [extent for extent, _ in walks])
    return writer.transpose(split, order)
