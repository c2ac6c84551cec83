"""Operands of a library as arrays: strided views of contiguous buffers, read in place where one stride walks along each axis."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from einalg.language.ir.kernel import View

Array = np.ndarray[Any, Any]
Axis = tuple[int, int]  # extent and stride, in elements
BATCH = "*"  # stands for the batch axes of a view, beside its letters


@dataclass(frozen=True)
class OperandView:
    """A strided view of a contiguous array: groups of axes, each of which a library sees as one, and where it begins (in elements)."""

    name: str
    groups: tuple[tuple[Axis, ...], ...]
    offset: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(extent for extent, _ in group) for group in self.groups)

    def matrices(self) -> tuple[Axis, ...] | None:
        """Of three groups, single axes that BLAS can walk, or None."""
        batch, row, column = map(_merged, self.groups)
        if batch is None or row is None or column is None:
            return None
        (rows, step), (columns, stride) = row, column
        if columns == 1:
            stride = 1 if step != 1 or rows == 1 else rows
        if rows == 1:
            step = columns if stride == 1 else 1
        ordered = (stride == 1 and step >= columns) or (step == 1 and stride >= rows)
        return (batch, (rows, step), (columns, stride)) if ordered else None

    def of(self, array: Array, axes: Sequence[Axis]) -> Array:
        size = array.itemsize
        return np.ndarray(
            [n for n, _ in axes],
            array.dtype,
            array,
            self.offset * size,
            [s * size for _, s in axes],
        )

    def whole(self, array: Array) -> Array:
        """The view with one axis for each index."""
        return self.of(array, [axis for group in self.groups for axis in group])

    def read(self, array: Array) -> Array:
        """The view with one axis for each group; a copy where a group is no single axis of memory."""
        return self.whole(array).reshape(self.sizes)

    def places(self, group: int) -> tuple[int, ...]:
        """The axes of `whole` that make up a group."""
        first = sum(map(len, self.groups[:group]))
        return tuple(range(first, first + len(self.groups[group])))


def operand(view: View, *groups: str) -> OperandView:
    """A view as an operand with a group for each of some words: the axes of its letters in order, `*` being those of the batch.

    >>> operand(View("A", 0, {"n": ((2, 12),), "c": ((3, 4),)}, batch=((4, 1),)), "n", "*c", "h")
    OperandView(name='A', groups=(((2, 12),), ((4, 1), (3, 4)), ()), offset=0)
    """
    axes = {**view.axes, BATCH: view.batch}
    return OperandView(
        view.name,
        tuple(tuple(axis for letter in group for axis in axes.get(letter, ())) for group in groups),
        view.offset,
    )


def writable(array: Array) -> Array:
    """The same memory as an array that may be written, for libraries that take no other; nothing writes there."""
    if array.flags.writeable or not array.size:
        return array
    memory: Any = (ctypes.c_char * array.nbytes).from_address(array.__array_interface__["data"][0])
    return np.ndarray(array.shape, array.dtype, memory)  # of a buffer, which is contiguous


def _merged(group: Sequence[Axis]) -> Axis | None:
    """Axes that lie in memory like a single one, as that one."""
    axes = [axis for axis in group if axis[0] != 1]
    if not axes:
        return 1, 0
    extent, stride = axes[-1]
    for outer, step in reversed(axes[:-1]):
        if step != extent * stride:
            return None
        extent *= outer
    return extent, stride
