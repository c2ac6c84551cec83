"""What an expression or an operator reads of an array, as slices, reshapes, transpositions, and look-ups of positions along axes."""

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
    """Axes of an array, and the positions that are read in these, flattened: an array with an axis for each index."""

    axes: tuple[int, ...]
    positions: Array


def taken(writer: OnnxGraphBuilder, array: Buf, parts: Sequence[GatheredAxes]) -> Buf:
    """The elements at some positions, every axis of the array being in one part: the axes of the result are those of the parts, in order."""
    found = writer.transpose(array, [axis for part in parts for axis in part.axes])
    sizes = [prod(array.shape[axis] for axis in part.axes) for part in parts]
    wanted = [axis for axis, part in enumerate(parts) if _is_looked_up(part.positions, sizes[axis])]
    found = writer.reshape(found, sizes) if wanted else found
    for axis in reversed(wanted):
        positions = parts[axis].positions
        if (step := _step(positions)) is not None:
            found = writer.slice(found, axis, int(positions.flat[0]), positions.size, step)
        else:
            shape = [*found.shape[:axis], *positions.shape, *found.shape[axis + 1 :]]
            found = writer.add(
                "Gather",
                [found, writer.constant(positions, "i64", "positions")],
                shape,
                found.dtype,
                axis=axis,
            )
    return writer.reshape(found, [n for part in parts for n in part.positions.shape])


def _is_looked_up(positions: Array, size: int) -> bool:
    """Whether it is not all elements in order."""
    return positions.size != size or _step(positions) != 1 or positions.flat[0] != 0


def _step(positions: Array) -> int | None:
    """The step of positions that progress evenly, None for others."""
    flat = positions.ravel()
    if flat.size == 1:
        return 1
    steps = np.diff(flat)
    return int(steps[0]) if steps[0] and (steps == steps[0]).all() else None


def element(
    writer: OnnxGraphBuilder,
    array: Buf,
    box: Box,
    subscripts: Sequence[Affine],
    ranges: Mapping[Index, Range],
) -> Buf:
    """`array[subscripts]` at every point of the loops, whose axes are those of `ranges`, of extent 1 where nothing varies.

    A subscript that leaves the box does so only at points that a condition excludes: it is moved to the nearest element.
    """
    parts, order = list[GatheredAxes](), list[Index]()
    for axes in _sharing([form.indices for form in subscripts]):
        indices = [i for i in ranges if any(i in subscripts[axis].indices for axis in axes)]
        between = {i: ranges[i] for i in indices}
        points, positions = along_axes(between), np.zeros((), np.int64)
        for axis in axes:
            low, high = box[axis]
            positions = positions * (high - low) + np.clip(
                subscripts[axis].evaluate(points) - low, 0, high - low - 1
            )
        parts.append(
            GatheredAxes(
                axes, np.broadcast_to(positions, [high - low for low, high in between.values()])
            )
        )
        order += indices
    found = taken(writer, array, parts)
    found = writer.transpose(
        found, sorted(range(len(order)), key=lambda k: list(ranges).index(order[k]))
    )
    return writer.reshape(
        found, [high - low if i in order else 1 for i, (low, high) in ranges.items()]
    )


def _sharing(indices: Sequence[frozenset[Index]]) -> list[tuple[int, ...]]:
    """Axes in groups, so that no index is in two of them."""
    groups: list[tuple[tuple[int, ...], frozenset[Index]]] = []
    for axis, own in enumerate(indices):
        joined = [group for group in groups if group[1] & own]
        axes = tuple(sorted([axis, *(a for group in joined for a in group[0])]))
        groups = [group for group in groups if group not in joined] + [
            (axes, own.union(*(group[1] for group in joined)))
        ]
    return [axes for axes, _ in sorted(groups)]


def operand(writer: OnnxGraphBuilder, array: Buf, view: View, *groups: str) -> Buf:
    """An array as an operator sees it: an axis for each word, made of the axes that the view has for its letters (`*`: those of the batch)."""
    walks = [walk for group in groups for walk in walks_of(view, group)]
    units = [prod(array.shape[axis:]) for axis in range(1, len(array.shape))]
    cuts = [axis + 1 for axis, unit in enumerate(units) if _is_cut(unit, view.offset, walks)]
    parts, order = list[GatheredAxes](), list[int]()
    for first, last in pairwise([0, *cuts, len(array.shape)]):
        left, right = prod(array.shape[first:]), prod(array.shape[last:])
        own = [
            k
            for k, (_, stride) in enumerate(walks)
            if stride % right == 0 and (first == 0 or stride % left)
        ]
        steps = [
            walks[k][1]
            // right
            * np.arange(walks[k][0]).reshape([-1 if k == other else 1 for other in own])
            for k in own
        ]
        positions = view.offset % left // right + sum(steps, np.zeros([1] * len(own), np.int64))
        parts.append(GatheredAxes(tuple(range(first, last)), positions))
        order += own
    found = taken(writer, array, parts)
    found = writer.transpose(found, [order.index(k) for k in range(len(walks))])
    return writer.reshape(
        found, [prod(extent for extent, _ in walks_of(view, group)) for group in groups]
    )


def walks_of(view: View, group: str) -> list[Walk]:
    """The axes of a view for the letters of a word."""
    named = {**view.axes, "*": view.batch}
    return [axis for letter in group for axis in named.get(letter, ())]


def _is_cut(unit: int, offset: int, walks: Sequence[Walk]) -> bool:
    """Whether the axes before and after a place can be read apart: no walk among the inner ones, of `unit` elements, goes on to the outer ones."""
    moves = [(extent - 1) * stride for extent, stride in walks if stride % unit]
    return (
        offset % unit + sum(min(0, m) for m in moves) >= 0
        and offset % unit + sum(max(0, m) for m in moves) < unit
    )


def placed(writer: OnnxGraphBuilder, result: Buf, target: View, *groups: str) -> Buf | None:
    """What an operator computed, an axis for each word, in the axes of its output in memory order; None where it does not fill the output so."""
    walks = [walk for group in groups for walk in walks_of(target, group)]
    order = sorted(range(len(walks)), key=lambda k: (-walks[k][1], k))
    inner = 1
    for extent, stride in (walks[k] for k in reversed(order)):
        if extent > 1 and stride != inner:
            return None
        inner *= extent
    return (
        writer.transpose(writer.reshape(result, [extent for extent, _ in walks]), order)
        if target.offset == 0
        else None
    )
