"""Windows of convolutions and poolings over the spatial axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.size import Extent, is_number, largest, least, settled
from einalg.language.notation.builders import indices
from einalg.language.ops.definition.operands import Pair, pair_per_axis, per_axis

n, c, f, d, h, w, q, r, s = indices("n c f d h w q r s")
SPATIAL = ("W", "HW", "DHW")
POINT: Mapping[str, Index] = {"N": n, "C": f, "D": d, "H": h, "W": w}
TAP: Mapping[str, Index] = {"D": q, "H": r, "W": s}


@dataclass(frozen=True)
class WindowAxis:
    """Windows along one axis of `size` elements: point `p` reads `p·stride + tap·dilation - before`
    for each tap.

    `out` is the number of points; all amounts are elements.
    """

    size: Extent
    kernel: int
    stride: int
    dilation: int
    before: Extent
    after: Extent
    out: Extent

    @property
    def extent(self) -> int:
        """Elements from the first tap to the last, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def last_read(self) -> Extent:
        return (self.out - 1) * self.stride + self.extent - 1 - self.before

    @property
    def padding(self) -> Pair:
        """The elements that must surround the axis so that every window can be read."""
        return self.before, settled(max(self.after, self.last_read + 1 - self.size))

    def element(self, point: Index, tap: Index) -> Affine:
        """Return the element that a tap of the window at `point` reads."""
        return point * self.stride + tap * self.dilation - self.before

    def counts(self, low: Extent, high: Extent) -> set[int]:
        """Return how many taps of a window lie in `[low, high)`: the numbers that occur, or with
        symbolic sizes may occur.
        """
        if not (is_number(self.out) and is_number(high)):
            return self._possible_counts(low, high)
        # The windows [begin, end) lie inside.
        begin = min(max(-(-(low + self.before) // self.stride), 0), self.out)
        end = max(min((high - self.extent + self.before) // self.stride + 1, self.out), begin)
        points = np.concatenate([np.arange(begin), np.arange(end, self.out)])
        firsts = points * self.stride - self.before
        elements = firsts[:, None] + np.arange(self.kernel) * self.dilation
        inside = (elements >= low) & (elements < high)
        counts = set(np.unique(inside.sum(1)).tolist())
        if begin < end:
            counts.add(self.kernel)
        return counts

    def _possible_counts(self, low: Extent, high: Extent) -> set[int]:
        is_inside = least(-self.before - low) >= 0 and largest(self.last_read - high) < 0
        if is_inside:
            return {self.kernel}
        reach = max(largest(low + self.before), largest(self.last_read + 1 - high))
        fewest = 1 if self.dilation == 1 and reach < self.extent else 0
        return set(range(fewest, self.kernel + 1))


Windows = dict[str, WindowAxis]


def windows(
    axes: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool = False,
) -> Windows:
    """Return the windows along each axis.

    `padding` is an integer, or for each axis an integer or `(before, after)`, or `"valid"` (none),
    or `"same"`: so much that there are `ceil(size / stride)` points, the odd element after.
    `ceil_mode` keeps a last window that is not full, if it begins before the padding after the
    axis. Raises `ShapeError` where no window fits.
    """
    strides = per_axis(stride, "stride", axes, 1)
    dilations = per_axis(dilation, "dilation", axes, 1)
    extents = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilations)]
    paddings = _padding(padding, axes, sizes, extents, strides)
    by_axis: Windows = {}
    for position, axis in enumerate(axes):
        size, taps = sizes[position], kernel[position]
        step, between = strides[position], dilations[position]
        extent, (before, after) = extents[position], paddings[position]
        out = _points(size + before + after - extent, step, size + before, ceil_mode)
        check_taps(axis, taps)
        if largest(out) < 1:
            raise ShapeError(
                f"a window of {extent} elements (kernel {taps}, dilation {between}) does not fit "
                f"axis {axis}, which has {size} and padding ({before}, {after})\n"
                "  use a smaller kernel or dilation, or more padding"
            )
        by_axis[axis] = WindowAxis(size, taps, step, between, before, after, settled(out))
    return by_axis


def check_taps(axis: str, taps: int) -> None:
    """Refuse a kernel without taps."""
    if taps < 1:
        raise ShapeError(f"the kernel has size {taps} on axis {axis}\n  give it at least one tap")


def _points(room: int, stride: int, beginning_of_padding: int, ceil_mode: bool) -> int:
    if not ceil_mode:
        return room // stride + 1
    last = -(-room // stride)
    if last * stride >= beginning_of_padding:
        return last
    return last + 1


def same_padding(size: int, extent: int, stride: int) -> Pair:
    """Return the padding with which there are `ceil(size / stride)` points, the odd element after.

    >>> same_padding(8, 3, 2), same_padding(9, 3, 2)
    ((0, 1), (1, 1))
    """
    last = (-(-size // stride) - 1) * stride
    total = last + extent - size
    if is_number(extent) and extent < stride:  # what a window lacks, which may be less than nothing
        after = size - 1 - last  # fewer elements than a stride
        total = sum(1 - (after + stride - missing) // stride for missing in range(1, extent))
    else:
        total = max(total, 0)
    return total // 2, total - total // 2


def _padding(
    padding: Any, axes: str, sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> tuple[Pair, ...]:
    if padding == "valid":
        return ((0, 0),) * len(axes)
    if padding == "same":
        return tuple(map(same_padding, sizes, extents, strides))
    if isinstance(padding, str):
        raise ShapeError(
            f"padding must be 'same', 'valid' or numbers, not {padding!r}\n  e.g. padding='same'"
        )
    return pair_per_axis(padding, "padding", axes)
