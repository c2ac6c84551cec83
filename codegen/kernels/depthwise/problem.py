"""Depthwise convolutions: every channel is a sum over a window of its own (design §10).

`target[batch, places, lane] = Σ[channels, taps] data[batch, places and taps, lane] ·
weights[batch, taps, lane]`, where neighbours along `lane` are neighbours in memory. There are any
number of axes of space, and any number of filters for a channel, which are a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from codegen.ir.nodes import Buf
from codegen.kernels.contraction.problem import SPACE, TAPS, stride_and_dilation
from codegen.kernels.epilogue import read_each_result_once
from codegen.kernels.operand_axes import group_axes, single_axis, strided_group, view_buffers
from codegen.kernels.strided_axes import (
    BorderWindow,
    Epilogue,
    EpilogueStore,
    StridedAxis,
    StridedOperand,
    extent,
)
from einalg.language.index.affine import Index
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import Kernel, View
from einalg.language.ir.scope import Scope

OPERATORS = ("conv1d", "conv2d", "conv3d")


@dataclass(frozen=True)
class SpaceWindow:
    """One axis of space: its window, and the steps of its elements, its taps and its results.

    `stored` are the steps of a position in the result, and in what an epilogue reads; `left` is
    that of an element of the data, `right` that of a tap in the weights.
    """

    window: BorderWindow
    left: int
    right: int
    stored: tuple[int, ...]

    def nonzero_taps(self, position: int) -> range:
        """Return the taps of a position that read data."""
        first, stop = self.window.nonzero_taps(position, position)
        return range(max(0, first), max(0, first, min(self.window.taps, stop)))

    @cached_property
    def products(self) -> int:
        """Return the taps of all positions that read data."""
        return sum(len(self.nonzero_taps(p)) for p in range(self.window.positions))


@dataclass(frozen=True)
class Depthwise(EpilogueStore):
    """A depthwise convolution; `dtype` is the type of products and sums.

    `lane` is the axis whose neighbours lie side by side. `positions` is the axis of space along
    which a register tile lies, `outer` are the others.
    """

    left: StridedOperand
    right: StridedOperand
    target: StridedOperand
    batch: tuple[StridedAxis, ...]
    lane: StridedAxis
    channels: tuple[StridedAxis, ...]
    outer: tuple[SpaceWindow, ...]
    positions: SpaceWindow
    dtype: str
    epilogue: Epilogue | None = None

    @property
    def work(self) -> int:
        """Return the number of products, those with zeros outside of the data among them."""
        total = extent((*self.batch, self.lane, *self.channels))
        for axis in (*self.outer, self.positions):
            total *= axis.window.positions * axis.window.taps
        return total

    @cached_property
    def element_bytes(self) -> int:
        """Return the bytes of a product."""
        return numpy_dtype(self.dtype).itemsize

    @property
    def packs_weights(self) -> bool:
        """Whether weights of neighbouring channels lie apart, or in another type."""
        return self.lane.right != 1 or self.right.buf.dtype != self.dtype

    @property
    def weight_axes(self) -> tuple[StridedAxis, ...]:
        """Return the axes along which weights lie, in the order in which they are packed."""
        axes = [axis for axis in (*self.batch, *self.channels) if axis.right]
        for axis in (*self.outer, self.positions):
            axes.append(StridedAxis(axis.window.tap, axis.window.taps, right=axis.right))
        return (*axes, self.lane)

    def packed(self, buf: Buf) -> Depthwise:
        """Return the problem with weights that are packed in a buffer, tap after tap."""
        steps: dict[Index, int] = {}
        step = 1
        for axis in reversed(self.weight_axes):
            steps[axis.index] = step
            step *= axis.extent
        outer = tuple(replace(axis, right=steps[axis.window.tap]) for axis in self.outer)
        positions = replace(self.positions, right=steps[self.positions.window.tap])
        return replace(
            self,
            right=StridedOperand(buf, 0),
            batch=_with_weight_steps(self.batch, steps),
            channels=_with_weight_steps(self.channels, steps),
            lane=replace(self.lane, right=1),
            outer=outer,
            positions=positions,
        )


def _with_weight_steps(
    axes: Sequence[StridedAxis], steps: Mapping[Index, int]
) -> tuple[StridedAxis, ...]:
    """Return axes with other steps in the weights; those that move nowhere have none."""
    return tuple(replace(axis, right=steps.get(axis.index, 0)) for axis in axes)


def depthwise_of(
    kernel: Kernel,
    scope: Scope,
    dtype: str,
    ahead: Collection[str] = (),
    epilogue: tuple[str, Scope] | None = None,
) -> Depthwise | None:
    """Return a kernel as a depthwise convolution computed in `dtype`.

    None where it is none, or its channels are not neighbours in memory. `ahead` names the tensors
    whose values are compile-time constants. With an `epilogue`, a statement that reads the results,
    it stores this one; None where it cannot.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = A[i]", A=(3,))
    >>> depthwise_of(Kernel("eop", {}, ("A",), "O"), scope, "f32") is None
    True
    """
    bufs = view_buffers(kernel, scope)
    if kernel.op not in OPERATORS or bufs is None or bufs[0].dtype != dtype:
        return None
    data, weights, out = kernel.views
    groups = _operator_batch(data, weights, out)
    lane = _lane(groups)
    windows = _windows(kernel)
    if lane is None or windows is None:
        return None
    others = [axis for axis in groups if axis is not lane]
    filters = strided_group("f", right=weights.axes["f"], target=out.axes["f"])
    problem = Depthwise(
        StridedOperand(bufs[0], data.offset),
        StridedOperand(bufs[1], weights.offset, ahead=bufs[1].name in ahead),
        StridedOperand(bufs[2], out.offset),
        batch=(*group_axes("n", left=data, target=out), *others, *filters),
        lane=lane,
        channels=group_axes("c", left=data, right=weights),
        outer=windows[:-1],
        positions=windows[-1],
        dtype=dtype,
    )
    if epilogue is None:
        return problem
    return _with_epilogue(problem, *epilogue)


def _operator_batch(data: View, weights: View, out: View) -> tuple[StridedAxis, ...]:
    """Return the axes that stand beside the operator's own: those of channels are among them."""
    return strided_group("g", left=data.batch, right=weights.batch, target=out.batch)


def _lane(groups: Sequence[StridedAxis]) -> StridedAxis | None:
    """Return the axis whose neighbours are neighbours in the data and in the result."""
    for axis in groups:
        if axis.left == 1 and axis.target == 1:
            return axis
    return None


def _windows(kernel: Kernel) -> tuple[SpaceWindow, ...] | None:
    """Return the axes of space, outer first; None where one does not lie in strides."""
    data, weights, out = kernel.views
    rank = len(data.axes) - 2
    windows = []
    for letter, tap in zip(SPACE[3 - rank :], TAPS[3 - rank :]):
        line = single_axis(letter, left=data)
        place = single_axis(letter, target=out)
        taps = single_axis(tap, right=weights)
        if line is None or place is None or taps is None:
            return None
        stride, dilation = stride_and_dilation(kernel, letter)
        window = BorderWindow(
            Index(letter),
            Index(tap),
            positions=place.extent,
            taps=taps.extent,
            stride=stride,
            dilation=dilation,
            before=data.pads.get(letter, (0, 0))[0],
            inside=line.extent,
        )
        windows.append(SpaceWindow(window, line.left, taps.right, (place.target,)))
    return tuple(windows)


def _with_epilogue(problem: Depthwise, name: str, scope: Scope) -> Depthwise | None:
    """Return a problem that stores the statement `name = scope`.

    None where this does not read each result once, or in parts of lanes or of an axis of space.
    """
    windows = (*problem.outer, problem.positions)
    places = []
    for axis in windows:
        window = axis.window
        places.append(StridedAxis(window.position, window.positions, target=axis.stored[0]))
    single = (problem.lane, *places)
    axes = (*single, *problem.batch)
    reading = read_each_result_once(axes, problem.target, problem.dtype, name, scope)
    if reading is None:
        return None
    parts = reading.whole_and_cut(single)
    if parts is None:
        return None
    (lane, *stored), batch = parts
    if lane.target != 1:
        return None
    moved = []
    for axis, piece in zip(windows, stored):
        moved.append(replace(axis, stored=(piece.target, *piece.epilogue_steps)))
    return replace(
        problem,
        target=reading.target,
        batch=batch,
        lane=replace(problem.lane, target=lane.target, epilogue_steps=lane.epilogue_steps),
        outer=tuple(moved[:-1]),
        positions=moved[-1],
        epilogue=reading.epilogue,
    )
