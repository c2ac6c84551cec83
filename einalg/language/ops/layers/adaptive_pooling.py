"""Poolings to a given size: windows that cover the axes of space evenly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Max, Sum
from einalg.language.ops.definition.axes import reduction_indices, result_indices
from einalg.language.ops.definition.operands import (
    in_single,
    operand,
    per_axis,
    rounded_to,
    spans,
    whole,
)
from einalg.language.ops.definition.registry import operator

INFINITY = float("inf")


@operator
def adaptive_avg_pool(x: Any, size: Any, axes: int = 2) -> Scope:
    """Return the means of `size` windows along the last `axes` axes: window `i` of `m` covers the
    elements `⌊i·n/m⌋` to `⌈(i+1)·n/m⌉` of `n`.

    `x` has at least `axes` axes; `size` is a number, or for each of them a number or None, which
    keeps the axis. Raises `ShapeError` for sizes below 1 or an empty axis.

    >>> import einalg as ea
    >>> adaptive_avg_pool(ea.tensor("x", (4, 6)), 2, axes=1)
    L[i:4, j:2](Sum[r:3](x[i, 3*j + r])/3)
    """

    def mean(windows: Any, element: Any, where: Any, count: Any) -> Any:
        total = Sum[windows](in_single(element), where=where)
        return rounded_to(total / count, element.tensor.dtype)

    return _pooled(x, size, axes, mean, 0)


@operator
def adaptive_max_pool(x: Any, size: Any, axes: int = 2) -> Scope:
    """Return the largest elements of `size` windows along the last `axes` axes; see
    `adaptive_avg_pool` for the parameters.

    >>> import einalg as ea
    >>> adaptive_max_pool(ea.tensor("x", (4, 6)), 2, axes=1)
    L[i:4, j:2](Max[r:3](x[i, 3*j + r]))
    """

    def largest(windows: Any, element: Any, where: Any, _: Any) -> Any:
        return Max[windows](element, where=where)

    return _pooled(x, size, axes, largest, -INFINITY)


def _pooled(x: Any, size: Any, axes: int, reduction: Callable[..., Any], fill: Any) -> Scope:
    """Reduce windows, whose elements are read with `fill` outside the array."""
    axes = whole(axes, "axes", 1)
    array = operand(x, "x", least=axes)
    first = array.rank - axes
    if 0 in array.shape[first:]:
        raise ShapeError(
            f"x has shape {array.shape}, with no elements to pool\n"
            "  give every axis of space at least one"
        )
    new = _sizes(size, array.shape[first:])
    at, taps = result_indices(array.rank), reduction_indices(axes)
    shape, subscripts = list(array.shape), list[Any](at)
    around = [(0, 0)] * array.rank
    count: Any = 1
    lengths, where = [], []
    for axis, points, tap in zip(range(first, array.rank), new, taps):
        windows = _Windows.of(array.shape[axis], points, at[axis])
        shape[axis], subscripts[axis] = points, windows.start + tap
        around[axis] = 0, windows.overhang
        count = windows.count * count
        lengths.append(windows.length)
        if not windows.is_even:
            where.append(tap < windows.count)
    element = array.padded(around, fill)[tuple(subscripts)]
    return L[spans(at, shape)](reduction(spans(taps, lengths), element, tuple(where), count))


def _sizes(size: Any, old: tuple[int, ...]) -> tuple[int, ...]:
    """Return the new sizes of axes, where None keeps the old one."""
    entries = list(size) if isinstance(size, (tuple, list)) else [size] * len(old)
    if len(entries) == len(old):
        for position, entry in enumerate(entries):
            if entry is None:
                entries[position] = old[position]
    names = [f"axis {axis}" for axis in range(-len(old), 0)]
    return per_axis(tuple(entries), "size", names, 1)


@dataclass(frozen=True)
class _Windows:
    """Windows along an axis: where the one at a point starts, and how many elements it has.

    `length` is that of the longest, and `overhang` how far the last one would reach outside with
    so many elements; `is_even` where all have the same.
    """

    start: Any
    count: Any
    length: int
    overhang: int
    is_even: bool

    @staticmethod
    def of(old: int, new: int, point: Index) -> _Windows:
        """Return `new` windows that cover `old` elements."""
        starts = [p * old // new for p in range(new)]
        ends = [-(-(p + 1) * old // new) for p in range(new)]
        length = max(end - start for start, end in zip(starts, ends))
        overhang = max(0, starts[-1] + length - old)
        start: Any = affine(point) * old // new
        if old % new == 0:
            return _Windows(start, old // new, length, overhang, True)
        count = ((point + 1) * old + new - 1) // new - start
        return _Windows(start, count, length, overhang, False)
