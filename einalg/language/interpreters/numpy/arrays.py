"""Tensors, scopes and their padded views as arrays, and accesses as views of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


class ArrayStore:
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
            for arrays in (self.tensors, self.scopes, self._padded):
                arrays.pop(base, None)

    def _pad(self, view: Padded) -> BoxedArray:
        values, _, known = self[view.base]
        box = padded_box(view)
        fill = self.arithmetic.number(view.fill)
        if known is not None:
            values = self.arithmetic.select(known, values, fill)
        if not any(before or after for before, after in view.amounts):
            return BoxedArray(values, box)
        padded = np.full(_shape(box), fill, np.result_type(values.dtype, fill))
        inner = []
        for (before, _), extent in zip(view.amounts, values.shape):
            inner.append(slice(before, before + extent))
        padded[tuple(inner)] = values
        return BoxedArray(padded, box)


def _shape(box: Box) -> list[int]:
    return [high - low for low, high in box]


def view(stored: BoxedArray, subscripts: Sequence[Affine], loops: Loops) -> Array:
    """Return `stored[subscripts]` at every point of the loops, without a copy where every subscript
    is affine and stays inside.

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
    """Return the axes that strides cannot express, and those that share an index with them.

    An example: both axes of `A[i//2, i]`, but only the first of `A[i//2, j]`.
    """
    gathered: list[int] = []
    for axis, form in enumerate(subscripts):
        if not form.is_affine() or not _inside(form.interval(ranges), box[axis]):
            gathered.append(axis)
    while True:
        indices = _indices(subscripts, gathered)
        joined = []
        for axis, form in enumerate(subscripts):
            if axis in gathered or not indices.isdisjoint(form.indices):
                joined.append(axis)
        if joined == gathered:
            return gathered
        gathered = joined


def gathered_elements(access: Access, ranges: Mapping[Index, tuple[int, int]]) -> int:
    """Return the number of elements that a view of an access copies."""
    axes = gathered_axes(access.subscripts, padded_box(access.base), ranges)
    if not axes:
        return 0
    elements = 1
    for index in _indices(access.subscripts, axes):
        low, high = ranges[index]
        elements *= high - low
    for axis, form in enumerate(access.subscripts):
        if axis not in axes:
            first, last = form.interval(ranges)
            elements *= last - first + 1
    return elements


def _indices(subscripts: Sequence[Affine], axes: Iterable[int]) -> frozenset[Index]:
    return frozenset[Index]().union(*(subscripts[axis].indices for axis in axes))


def _inside(interval: tuple[int, int], axis: tuple[int, int]) -> bool:
    return axis[0] <= interval[0] and interval[1] < axis[1]


def _strided(
    values: Array, lows: Sequence[int], subscripts: Sequence[Affine], loops: Loops
) -> Array:
    """Return a view of `values` whose subscripts are affine and stay inside."""
    origin = {index: low for index, (low, _) in loops.ranges.items()}
    starts = []
    strides = dict.fromkeys(loops.ranges, 0)
    for form, low, stride in zip(subscripts, lows, values.strides):
        starts.append(slice(form.evaluate(origin) - low, None))
        for index in form.indices:
            strides[index] += form.coefficient(index) * stride
    used = _indices(subscripts, range(len(subscripts)))
    shape = []
    for index, (low, high) in loops.ranges.items():
        shape.append(high - low if index in used else 1)
    return as_strided(values[tuple(starts)], shape, tuple(strides.values()), writeable=False)


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
    positions = []
    for axis in axes:
        position = subscripts[axis].evaluate(points) - lows[axis]
        positions.append(np.clip(position, 0, values.shape[axis] - 1))
    forms = [Affine(0, (index, 1)) for index in ranges]
    starts = [low for low, _ in ranges.values()]
    others, parts = [], []
    for axis, form in enumerate(subscripts):
        if axis not in axes:
            first, last = form.interval(loops.ranges)
            others.append(axis)
            parts.append(slice(first - lows[axis], last + 1 - lows[axis]))
            forms.append(form)
            starts.append(first)
    part = values.transpose((*axes, *others))[((slice(None),) * len(axes)) + tuple(parts)]
    return _strided(part[tuple(positions)], starts, forms, loops)
