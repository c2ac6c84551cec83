"""Operands of a library as arrays: strided views of contiguous buffers.

They are read in place where one stride walks along each axis.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from einalg.language.ir.kernel import View

Array = np.ndarray[Any, Any]
Axis = tuple[int, int]  # extent and stride, in elements
BATCH = "*"  # stands for the batch axes of a view, beside its letters


@dataclass(frozen=True)
class OperandView:
    """A strided view of a contiguous array.

    It has groups of axes, each of which a library sees as one, and begins at `offset`, in elements.
    """

    name: str
    groups: tuple[tuple[Axis, ...], ...]
    offset: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(extent for extent, _ in group) for group in self.groups)

    def matrices(self) -> tuple[Axis, ...] | None:
        """Return single axes that BLAS can walk for three groups, or None."""
        batch, row, column = map(_merged, self.groups)
        if batch is None or row is None or column is None:
            return None
        (rows, step), (columns, stride) = row, column
        if columns == 1:
            stride = 1
            if step == 1 and rows != 1:
                stride = rows
        if rows == 1:
            step = 1
            if stride == 1:
                step = columns
        is_row_major = stride == 1 and step >= columns
        is_column_major = step == 1 and stride >= rows
        if not is_row_major and not is_column_major:
            return None
        return batch, (rows, step), (columns, stride)

    def of(self, array: Array, axes: Sequence[Axis]) -> Array:
        """Return the elements of an array along some axes."""
        size = array.itemsize
        shape = [extent for extent, _ in axes]
        strides = [stride * size for _, stride in axes]
        return np.ndarray(shape, array.dtype, array, self.offset * size, strides)

    def whole(self, array: Array) -> Array:
        """Return the view with one axis for each index."""
        return self.of(array, list(chain.from_iterable(self.groups)))

    def read(self, array: Array) -> Array:
        """Return the view with one axis for each group.

        That is a copy where a group is no single axis of memory.
        """
        return self.whole(array).reshape(self.sizes)

    def places(self, group: int) -> tuple[int, ...]:
        """Return the axes of `whole` that make up a group."""
        first = sum(map(len, self.groups[:group]))
        return tuple(range(first, first + len(self.groups[group])))


def operand(view: View, *groups: str) -> OperandView:
    """Return a view as an operand with a group for each of some words.

    A group has the axes of its letters in order, `*` being those of the batch.

    >>> view = View("A", 0, {"n": ((2, 12),), "c": ((3, 4),)}, batch=((4, 1),))
    >>> operand(view, "n", "*c", "h")
    OperandView(name='A', groups=(((2, 12),), ((4, 1), (3, 4)), ()), offset=0)
    """
    letters = {**view.axes, BATCH: view.batch}
    grouped: list[tuple[Axis, ...]] = []
    for group in groups:
        axes: list[Axis] = []
        for letter in group:
            axes += letters.get(letter, ())
        grouped.append(tuple(axes))
    return OperandView(view.name, tuple(grouped), view.offset)


def writable(array: Array) -> Array:
    """Return the same memory as an array that may be written, for libraries that take no other.

    Nothing writes there.
    """
    if array.flags.writeable or not array.size:
        return array
    memory: Any = (ctypes.c_char * array.nbytes).from_address(array.__array_interface__["data"][0])
    return np.ndarray(array.shape, array.dtype, memory)  # of a buffer, which is contiguous


def _merged(group: Sequence[Axis]) -> Axis | None:
    """Return axes that lie in memory like a single one, as that one."""
    axes = [axis for axis in group if axis[0] != 1]
    if not axes:
        return 1, 0
    extent, stride = axes[-1]
    for outer, step in reversed(axes[:-1]):
        if step != extent * stride:
            return None
        extent *= outer
    return extent, stride
