"""Tensors, scopes and their padded views as arrays, and accesses as views of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from einalg.language.index.affine import Affine, Index
from einalg.language.interpreters.numpy.arithmetic import Arithmetic, Array
from einalg.language.interpreters.numpy.loops import Loops, along_axes
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Box, Padded, Tensor, padded_box


class BoxedArray(NamedTuple):
    """Values over a box. `known` is False where a scope with a condition has no value, None where
    it has one everywhere.
    """

    values: Array
    box: Box
    known: Array | None = None


class Store:
    """The arrays of everything that has been evaluated; each padded view is made once."""

    def __init__(self, arithmetic: Arithmetic):
        self.arithmetic = arithmetic
        self.tensors: dict[str, BoxedArray] = {}
        self.scopes: dict[Scope, BoxedArray] = {}
        self._padded: dict[Padded, BoxedArray] = {}

    def __getitem__(self, base: Any) -> BoxedArray:
        if isinstance(base, Tensor):
            return self.tensors[base.name]
        if isinstance(base, Scope):
            return self.scopes[base]
        if base not in self._padded:
            self._padded[base] = self._pad(base)
        return self._padded[base]

    def forget(self, bases: Iterable[Any]) -> None:
        """Keep tensors of these names, padded views and scopes no longer."""
        for base in bases:
            for kept in (self.tensors, self.scopes, self._padded):
                kept.pop(base, None)

    def _pad(self, view: Padded) -> BoxedArray:
        values, _, known = self[view.base]
        box = padded_box(view)
        fill = self.arithmetic.number(view.fill)
        if known is not None:
            values = self.arithmetic.select(known, values, fill)
        if not any(before or after for before, after in view.amounts):
            return BoxedArray(values, box)
        padded = np.full(
            tuple(high - low for low, high in box), fill, np.result_type(values.dtype, fill)
        )
        padded[
            tuple(
                slice(before, before + extent)
                for (before, _), extent in zip(view.amounts, values.shape)
            )
        ] = values
        return BoxedArray(padded, box)


def view(stored: BoxedArray, subscripts: Sequence[Affine], loops: Loops) -> Array:
    """`stored[subscripts]` at every point of the loops, without a copy where every subscript is
    affine and stays inside.

    A subscript that leaves the box does so only at points that a condition excludes: it is moved to
    the nearest element.
    """
    values, box, _ = stored
    if not values.size:
        return np.zeros((1,) * loops.rank, values.dtype)
    lows = [low for low, _ in box]
    axes = gathered_axes(subscripts, box, loops.ranges)
    if axes:
        return _gathered(values, lows, subscripts, axes, loops)
    return _strided(values, lows, subscripts, loops)


def gathered_axes(
    subscripts: Sequence[Affine], box: Box, ranges: Mapping[Index, tuple[int, int]]
) -> list[int]:
    """The axes that strides cannot express, and those that share an index with them."""
    found = {
        axis
        for axis, form in enumerate(subscripts)
        if not form.is_affine() or not _inside(form.interval(ranges), box[axis])
    }
    while True:
        indices = _indices(subscripts, found)
        joined = {
            axis
            for axis, form in enumerate(subscripts)
            if axis in found or not indices.isdisjoint(form.indices)
        }
        if joined == found:
            return sorted(found)
        found = joined


def gathered_elements(access: Access, ranges: Mapping[Index, tuple[int, int]]) -> int:
    """Number of elements that a view of an access copies."""
    axes = gathered_axes(access.subscripts, padded_box(access.base), ranges)
    if not axes:
        return 0
    indices = _indices(access.subscripts, axes)
    spans = (
        form.interval(ranges) for axis, form in enumerate(access.subscripts) if axis not in axes
    )
    return prod(ranges[i][1] - ranges[i][0] for i in indices) * prod(
        last - first + 1 for first, last in spans
    )


def _indices(subscripts: Sequence[Affine], axes: Iterable[int]) -> frozenset[Index]:
    return frozenset[Index]().union(*(subscripts[axis].indices for axis in axes))


def _inside(interval: tuple[int, int], axis: tuple[int, int]) -> bool:
    return axis[0] <= interval[0] and interval[1] < axis[1]


def _strided(
    values: Array, lows: Sequence[int], subscripts: Sequence[Affine], loops: Loops
) -> Array:
    origin = {index: low for index, (low, _) in loops.ranges.items()}
    corner = values[
        tuple(slice(form.evaluate(origin) - low, None) for form, low in zip(subscripts, lows))
    ]
    strides = dict.fromkeys(loops.ranges, 0)
    used: set[Index] = set()
    for form, stride in zip(subscripts, values.strides):
        for index in form.indices:
            strides[index] += form.coefficient(index) * stride
        used |= form.indices
    shape = tuple(high - low if index in used else 1 for index, (low, high) in loops.ranges.items())
    return as_strided(corner, shape, tuple(strides.values()), writeable=False)


def _gathered(
    values: Array,
    lows: Sequence[int],
    subscripts: Sequence[Affine],
    axes: Sequence[int],
    loops: Loops,
) -> Array:
    """Look up `axes` by arrays of positions; what is left has one axis for each of their indices,
    then the other axes.
    """
    indices = _indices(subscripts, axes)
    ranges = {index: between for index, between in loops.ranges.items() if index in indices}
    points = along_axes(ranges)
    positions = tuple(
        np.clip(subscripts[axis].evaluate(points) - lows[axis], 0, values.shape[axis] - 1)
        for axis in axes
    )
    others = [axis for axis in range(values.ndim) if axis not in axes]
    spans = {other: subscripts[other].interval(loops.ranges) for other in others}
    part = values.transpose((*axes, *others))
    part = part[
        (slice(None),) * len(axes)
        + tuple(
            slice(spans[axis][0] - lows[axis], spans[axis][1] + 1 - lows[axis]) for axis in others
        )
    ]
    forms = [Affine(0, (index, 1)) for index in ranges] + [subscripts[axis] for axis in others]
    starts = [low for low, _ in ranges.values()] + [spans[axis][0] for axis in others]
    return _strided(part[positions], starts, forms, loops)
