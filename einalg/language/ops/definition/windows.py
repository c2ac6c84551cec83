"""How the windows of convolutions and poolings lie over the spatial axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine, Index
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

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    out: int

    @property
    def extent(self) -> int:
        """Elements from the first tap to the last, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def last_read(self) -> int:
        return (self.out - 1) * self.stride + self.extent - 1 - self.before

    @property
    def padding(self) -> Pair:
        """What must surround the axis, so that every window can be read."""
        return self.before, max(self.after, self.last_read + 1 - self.size)

    def element(self, point: Index, tap: Index) -> Affine:
        """The element that a tap of the window at `point` reads."""
        return point * self.stride + tap * self.dilation - self.before

    def counts(self, low: int, high: int) -> set[int]:
        """How many taps of a window lie in `[low, high)`: the numbers that occur."""
        begin = min(max(-(-(low + self.before) // self.stride), 0), self.out)
        end = max(
            min((high - self.extent + self.before) // self.stride + 1, self.out), begin
        )  # windows [begin, end) lie inside
        points = np.concatenate([np.arange(begin), np.arange(end, self.out)])
        elements = (
            points[:, None] * self.stride + np.arange(self.kernel) * self.dilation - self.before
        )
        return set(np.unique(((elements >= low) & (elements < high)).sum(1)).tolist()) | (
            {self.kernel} if begin < end else set()
        )


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
    """The windows along each axis.

    `padding` is an integer, or for each axis an integer or `(before, after)`, or `"valid"` (none),
    or `"same"`: so much that there are `ceil(size / stride)` points, the odd element after.
    `ceil_mode` keeps a last window that is not full, if it begins before the padding after the
    axis. Raises `ShapeError` where no window fits.
    """
    strides, dilations = (
        per_axis(stride, "stride", axes, 1),
        per_axis(dilation, "dilation", axes, 1),
    )
    extents = [(taps - 1) * step + 1 for taps, step in zip(kernel, dilations)]
    pads = _padding(padding, axes, sizes, extents, strides)
    found: Windows = {}
    for axis, size, taps, step, extent, between, (before, after) in zip(
        axes, sizes, kernel, strides, extents, dilations, pads
    ):
        out = _points(size + before + after - extent, step, size + before, ceil_mode)
        check_taps(axis, taps)
        if out < 1:
            raise ShapeError(
                f"a window of {extent} elements (kernel {taps}, dilation {between}) does not fit axis {axis}, which has {size} and padding "
                f"({before}, {after})\n  use a smaller kernel or dilation, or more padding"
            )
        found[axis] = WindowAxis(size, taps, step, between, before, after, out)
    return found


def check_taps(axis: str, taps: int) -> None:
    """Refuse a kernel without taps."""
    if taps < 1:
        raise ShapeError(f"the kernel has size {taps} on axis {axis}\n  give it at least one tap")


def _points(room: int, stride: int, beginning_of_padding: int, ceil_mode: bool) -> int:
    if not ceil_mode:
        return room // stride + 1
    out = -(-room // stride) + 1
    return out - 1 if (out - 1) * stride >= beginning_of_padding else out


def _padding(
    padding: Any, axes: str, sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> tuple[Pair, ...]:
    if padding == "valid":
        return ((0, 0),) * len(axes)
    if padding == "same":
        needed = [
            max((-(-size // stride) - 1) * stride + extent - size, 0)
            for size, extent, stride in zip(sizes, extents, strides)
        ]
        return tuple((total // 2, total - total // 2) for total in needed)
    if isinstance(padding, str):
        raise ShapeError(
            f"padding must be 'same', 'valid' or numbers, not {padding!r}\n  e.g. padding='same'"
        )
    return pair_per_axis(padding, "padding", axes)
