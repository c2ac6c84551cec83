"""A contraction: a sum of products of two tensors along strided axes (design §10).

`target[batch, rows, columns] = Σ[depth] left[batch, rows, depth] · right[batch, columns, depth]`,
each of the four groups any number of axes. The axes of an operand may overlap in memory, as a
window and its positions do, so a convolution is one too. Another `ReducedTerm` takes the place of
the product and the sum: `Max[depth] (left + right)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from codegen.ir.nodes import Apply, Buf, Number, Ref, Store, Value, value_parts
from codegen.ir.scalars.elements import ElementLeaves
from codegen.ir.types import element
from codegen.kernels.contraction.ranges import IndexRange
from codegen.kernels.epilogue import result_number
from codegen.kernels.loop_cost.cycles import store_operations
from codegen.kernels.operand_axes import strided_group, view_buffers
from codegen.kernels.strided_axes import (
    Border,
    BorderWindow,
    Epilogue,
    EpilogueStore,
    StridedAxis,
    StridedOperand,
    extent,
)
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import is_float, numpy_dtype
from einalg.language.ir.kernel import Kernel, View
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

SPACE, TAPS = "dhw", "qrs"
CONFLICT_ELEMENTS = 1024  # lines that are a multiple of these apart displace one another
GAP_ELEMENTS = 16  # what is left free so that lines are no such multiple apart
MAX_BATCH_COPY = 1 << 18  # elements up to which all images are copied with their borders together
Strides = Sequence[tuple[int, int]]  # extent and stride of the axes of a group, outer first
STORES = {"Sum": "+=", "Prod": "*=", "Max": "max", "Min": "min"}  # of what is reduced
OPERANDS = ("left", "right", "total")
NAN_OPERATIONS = 2.0  # with which an extreme is NaN where an element is
COMBINATIONS = {"+=": "add", "*=": "mul", "max": "max", "min": "min"}


@dataclass(frozen=True)
class ReducedTerm:
    """What is computed from an element of each operand, and how results are reduced.

    `body` is an expression of two accesses, `left` and `right`, which stand for these elements.
    """

    body: Any
    left: Access
    right: Access
    reduction: str
    identity: Any

    def swapped(self) -> ReducedTerm:
        """Return the same term with the operands in the other order."""
        return replace(self, left=self.right, right=self.left)

    def negated(self) -> ReducedTerm:
        """Return the same term of the negative of the right element."""
        return replace(self, body=self.body.xreplace({self.right: -self.right}))


@dataclass(frozen=True)
class Contraction(EpilogueStore):
    """Operands and axes by group; `dtype` is the type of products and sums.

    `windows` are those of which what only reads zeros may be left out, so that their axes stay as
    they are. `bare` is the same contraction without a written border. `ranges` are those of depth
    that a result does not sum whole, which depend on batches, rows and columns; and `needed` are
    conditions on these outside of which no result is read.
    """

    left: StridedOperand
    right: StridedOperand
    target: StridedOperand
    batch: tuple[StridedAxis, ...]
    rows: tuple[StridedAxis, ...]
    columns: tuple[StridedAxis, ...]
    depth: tuple[StridedAxis, ...]
    dtype: str
    epilogue: Epilogue | None = None
    windows: tuple[BorderWindow, ...] = ()
    bare: Contraction | None = None
    term: ReducedTerm | None = None
    ranges: tuple[IndexRange, ...] = ()
    needed: tuple[Constraint, ...] = ()

    def is_in_place(self, operand: StridedOperand) -> bool:
        """Whether the elements of an operand lie in memory as they are multiplied."""
        return operand.buf.dtype == self.dtype and operand.prologue is None

    def value(self, left: Value, right: Value) -> Value:
        """Return what is reduced, of an element of each operand."""
        if self.term is None:
            return Apply("mul", (left, right), self.dtype)
        elements = {self.term.left: left, self.term.right: right}
        return ElementLeaves(self.term.body, elements).value

    @cached_property
    def negated(self) -> Contraction | None:
        """The same of the negatives of right elements; None where no term subtracts these."""
        if self.term is None or not is_float(self.dtype):
            return None
        parts = list(value_parts(self.reducing_store().value))
        right = Ref(Buf(OPERANDS[1], (), self.dtype, "reg"), ())
        subtracted = parts.count(Apply("neg", (right,), self.dtype))
        if not subtracted or subtracted < parts.count(right):
            return None
        return replace(self, term=self.term.negated())

    @property
    def reduction(self) -> str:
        """Return the operation of a store that reduces: `+=`, `*=`, `max` or `min`."""
        if self.term is None:
            return "+="
        return STORES[self.term.reduction]

    def combined(self, one: Value, other: Value) -> Value:
        """Return two partial results as one."""
        return Apply(COMBINATIONS[self.reduction], (one, other), self.dtype)

    @property
    def identity(self) -> Number:
        """Return the result over no points."""
        if self.term is None:
            return Number(0, self.dtype)
        return element(self.term.identity, self.dtype)

    @cached_property
    def operations(self) -> float:
        """Return the operations for an element of each operand; a product and its sum are one."""
        if self.term is None:
            return 1.0
        store = self.reducing_store()
        operations = store_operations(store)
        if store.op in ("max", "min") and is_float(self.dtype):
            operations += NAN_OPERATIONS
        return operations

    def reducing_store(self) -> Store:
        """Return the store of an element of each operand, all by themselves."""
        left, right, total = (Ref(Buf(name, (), self.dtype, "reg"), ()) for name in OPERANDS)
        return Store(total, self.reduction, self.value(left, right))

    @cached_property
    def held_registers(self) -> int:
        """Return the registers beside those of a tile: of an element, of what is stored, and of
        the constants and intermediate values of a term.
        """
        if self.term is None:
            return 2
        store = self.reducing_store()
        is_bound = store.op in ("max", "min")  # which is computed beside what it is of
        parts = list(value_parts(store.value))
        constants = {part for part in parts if isinstance(part, Number)}
        masks = {part.op for part in parts if isinstance(part, Apply) and part.op == "abs"}
        return 3 + len(constants) + len(masks) + is_bound

    @property
    def is_bare(self) -> bool:
        """Whether a border is not written, so that all that would read it must be left out."""
        return not all(window.written for window in self.windows)

    def swapped(self) -> Contraction:
        """Return the same sums with the operands in the other order."""
        return replace(
            self,
            left=self.right,
            right=self.left,
            batch=_swapped(self.batch),
            rows=_swapped(self.columns),
            columns=_swapped(self.rows),
            depth=_swapped(self.depth),
            term=self.term and self.term.swapped(),
        )

    @cached_property
    def range_indices(self) -> set[Index]:
        """Return the indices that have ranges, and those on which these depend."""
        return {index for own in self.ranges for index in (own.index, *own.others)}

    @cached_property
    def needed_columns(self) -> IndexRange | None:
        """Return the range of the innermost axis of columns that is read; None where all of it is,
        as far as is known.
        """
        if not self.columns:
            return None
        index = self.columns[-1].index
        return IndexRange.of([each for each in self.needed if index in each.indices], {index})

    @cached_property
    def bound_indices(self) -> set[Index]:
        """Return the indices that conditions are about, so that their axes stay as they are."""
        return self.range_indices.union(*(condition.indices for condition in self.needed))

    @property
    def has_ranges_of_columns(self) -> bool:
        """Whether results that lie side by side in a vector sum other ranges."""
        columns = {axis.index for axis in self.columns}
        return not columns.isdisjoint(self.range_indices)

    @property
    def work(self) -> int:
        """Return the number of products, of whole ranges."""
        return extent((*self.batch, *self.rows, *self.columns, *self.depth))

    # Sizes that every tiling of the contraction has in common.

    @cached_property
    def element_bytes(self) -> int:
        """Return the bytes of a product."""
        return numpy_dtype(self.dtype).itemsize

    @cached_property
    def outer_depth_extent(self) -> int:
        """Return the extent of the summed axis that is cut into steps."""
        return extent(self.depth[:1])

    @cached_property
    def inner_depth_extent(self) -> int:
        """Return the products of a result in one place of that axis."""
        return extent(self.depth[1:])

    @cached_property
    def batch_rows(self) -> int:
        """Return the rows of all batches."""
        return extent((*self.batch, *self.rows))

    @cached_property
    def columns_extent(self) -> int:
        return extent(self.columns)

    @cached_property
    def left_elements(self) -> int:
        """Return the elements of the left operand's buffer."""
        return prod(self.left.buf.shape)


def _swapped(axes: Sequence[StridedAxis]) -> tuple[StridedAxis, ...]:
    return tuple(axis.swapped() for axis in axes)


def contraction_of(
    kernel: Kernel, scope: Scope, dtype: str, ahead: Collection[str] = ()
) -> Contraction | None:
    """Return a kernel as a contraction computed in `dtype`; None where it is none, or has no views.

    `ahead` names the tensors whose values are compile-time constants.
    """
    make = OPERATORS.get(kernel.op)
    bufs = view_buffers(kernel, scope)
    if make is None or bufs is None:
        return None
    contraction = make(kernel, bufs, dtype)
    if not contraction.work:
        return None
    return with_constants(with_needed_results(contraction, scope), ahead)


def with_needed_results(contraction: Contraction, scope: Scope) -> Contraction:
    """Return a contraction that need not compute the points at which a statement has no value.

    Conditions are left out that have an index which is no axis.
    """
    if not scope.where:
        return contraction
    number = result_number(scope)
    axes: dict[tuple[int, int], Index] = {}
    for axis in (*contraction.batch, *contraction.rows, *contraction.columns):
        axes[axis.extent, axis.target] = axis.index
    places: dict[Index, Affine] = {}
    for it in scope.iterators:
        place = axes.get((it.extent, number.coefficient(it.index)))
        if place is not None:
            places[it.index] = affine(place) + it.low
    known = [condition for condition in scope.where if condition.indices <= places.keys()]
    needed = tuple(condition.substitute(places) for condition in known)
    return replace(contraction, needed=needed)


def with_constants(contraction: Contraction, ahead: Collection[str]) -> Contraction:
    """Mark the operands that are compile-time constants; their copies with borders are none."""
    bare = contraction.bare
    return replace(
        contraction,
        left=_with_constant(contraction.left, ahead),
        right=_with_constant(contraction.right, ahead),
        bare=bare and with_constants(bare, ahead),
    )


def _with_constant(operand: StridedOperand, ahead: Collection[str]) -> StridedOperand:
    is_ahead = operand.buf.name in ahead and not operand.borders and not operand.others
    return replace(operand, ahead=is_ahead)


# Products of matrices.


def _product(kernel: Kernel, bufs: Sequence[Buf], dtype: str) -> Contraction:
    left, right, target = kernel.views
    return Contraction(
        *_operands(kernel, bufs),
        batch=strided_group(
            "b", left=left.axes["b"], right=right.axes["b"], target=target.axes["b"]
        ),
        rows=strided_group("m", left=left.axes["m"], target=target.axes["m"]),
        columns=strided_group("n", right=right.axes["n"], target=target.axes["n"]),
        depth=strided_group("k", left=left.axes["k"], right=right.axes["k"]),
        dtype=dtype,
    )


def _operands(
    kernel: Kernel, bufs: Sequence[Buf]
) -> tuple[StridedOperand, StridedOperand, StridedOperand]:
    """Return the left and right operand of a kernel, and its target."""
    left, right, target = kernel.views
    return (
        StridedOperand(bufs[0], left.offset),
        StridedOperand(bufs[1], right.offset),
        StridedOperand(bufs[2], target.offset),
    )


# Convolutions.


@dataclass(frozen=True)
class _ConvolutionData:
    """The data that a convolution reads, and their axes by letter; with `borders`, a copy."""

    operand: StridedOperand
    axes: Mapping[str, Strides]


def _convolution(kernel: Kernel, bufs: Sequence[Buf], dtype: str) -> Contraction:
    data = kernel.views[0]
    space = SPACE[5 - len(data.axes) :]
    operand = StridedOperand(bufs[0], data.offset)
    written = _convolution_of(kernel, bufs, dtype, _with_borders(operand, data, space))
    padded = [letter for letter in space if any(data.pads.get(letter, ()))]
    if not padded or len(written.windows) < len(padded):
        return written
    before = sum(data.pads[letter][0] * data.axes[letter][0][1] for letter in padded)
    unpadded = replace(operand, offset=data.offset - before)
    bare = _convolution_of(kernel, bufs, dtype, _ConvolutionData(unpadded, data.axes))
    return replace(written, bare=bare)


def _convolution_of(
    kernel: Kernel, bufs: Sequence[Buf], dtype: str, source: _ConvolutionData
) -> Contraction:
    """Return a convolution of some data as a contraction."""
    data, weights, target = kernel.views
    steps = source.axes
    batch = strided_group("g", left=data.batch, right=weights.batch, target=target.batch)
    images = strided_group("n", left=steps["n"], target=target.axes["n"])
    channels = strided_group("c", left=steps["c"], right=weights.axes["c"])
    filters = strided_group("f", right=weights.axes["f"], target=target.axes["f"])
    positions: list[StridedAxis] = []
    taps: list[StridedAxis] = []
    windows: list[BorderWindow] = []
    rank = len(data.axes) - 2
    for letter, tap in zip(SPACE[3 - rank :], TAPS[3 - rank :]):
        places, offsets = _window_axes(kernel, source, letter, tap)
        positions += places
        taps += offsets
        if any(data.pads.get(letter, ())) and len(places) == len(offsets) == 1:
            windows.append(_border_window(kernel, source, letter, places[0], offsets[0]))
    if _copies_each_image(source):
        batch, images = (*batch, *images), ()
    _, right, result = _operands(kernel, bufs)
    return Contraction(
        source.operand,
        right,
        result,
        batch,
        rows=(*images, *positions),
        columns=filters,
        depth=(*channels, *taps),
        dtype=dtype,
        windows=tuple(windows),
    )


def _window_axes(
    kernel: Kernel, source: _ConvolutionData, letter: str, tap: str
) -> tuple[tuple[StridedAxis, ...], tuple[StridedAxis, ...]]:
    """Return the axes of the positions and of the taps along one axis of space."""
    _, weights, target = kernel.views
    ((_, step),) = source.axes[letter]
    stride, dilation = stride_and_dilation(kernel, letter)
    position_steps = [(n, step * stride) for n, _ in target.axes[letter]]
    tap_steps = [(n, step * dilation) for n, _ in weights.axes[tap]]
    return (
        strided_group(letter, left=position_steps, target=target.axes[letter]),
        strided_group(tap, left=tap_steps, right=weights.axes[tap]),
    )


def stride_and_dilation(kernel: Kernel, letter: str) -> tuple[int, int]:
    """Return the stride and the dilation of a convolution along one axis of space."""
    return kernel.sizes.get(f"stride_{letter}", 1), kernel.sizes.get(f"dilation_{letter}", 1)


def _border_window(
    kernel: Kernel,
    source: _ConvolutionData,
    letter: str,
    position: StridedAxis,
    tap: StridedAxis,
) -> BorderWindow:
    data = kernel.views[0]
    stride, dilation = stride_and_dilation(kernel, letter)
    return BorderWindow(
        position.index,
        tap.index,
        positions=position.extent,
        taps=tap.extent,
        stride=stride,
        dilation=dilation,
        before=data.pads[letter][0],
        inside=data.axes[letter][0][0],
        written=bool(source.operand.borders),
    )


def _copies_each_image(source: _ConvolutionData) -> bool:
    """Whether the copy with borders holds one image, so that images are walked as a batch."""
    borders = source.operand.borders
    return bool(borders) and len(borders) < sum(map(len, source.axes.values()))


def _with_borders(data: StridedOperand, view: View, space: str) -> _ConvolutionData:
    """Return the data as a copy with its zeros, if there are any."""
    if not any(map(any, view.pads.values())):
        return _ConvolutionData(data, view.axes)
    copied = ("c", *space)
    if _padded_elements(view) <= MAX_BATCH_COPY:
        copied = ("c", *space, "n")
    borders: list[Border] = []
    steps: dict[tuple[str, int], int] = {}
    step = 1
    for letter, number in _inner_axes_first(view, copied):
        border = _border(view, letter, number, step)
        borders.insert(0, border)
        steps[letter, number] = step
        step *= border.whole
    axes = dict(view.axes)
    for letter in copied:
        group = enumerate(view.axes[letter])
        axes[letter] = tuple((n, steps[letter, number]) for number, (n, _) in group)
    return _ConvolutionData(replace(data, borders=tuple(borders)), axes)


def _padded_elements(view: View) -> int:
    """Return the elements of an operand with its zeros."""
    elements = 1
    for letter, group in view.axes.items():
        zeros = sum(view.pads.get(letter, (0, 0)))
        elements *= prod(n + zeros for n, _ in group)
    return elements


def _inner_axes_first(view: View, letters: Sequence[str]) -> list[tuple[str, int]]:
    """Return the axes of some groups by letter and number, the innermost in memory first."""
    places = []
    for letter in letters:
        places += [(letter, number) for number in range(len(view.axes[letter]))]

    def step(place: tuple[str, int]) -> int:
        letter, number = place
        return -abs(view.axes[letter][number][1])

    return sorted(places, key=step)[::-1]


def _border(view: View, letter: str, number: int, step: int) -> Border:
    """Return an axis of a copy in which its elements are `step` apart."""
    extent, stride = view.axes[letter][number]
    border = Border(extent, stride, *view.pads.get(letter, (0, 0)))
    if border.whole * step % CONFLICT_ELEMENTS == 0:
        return replace(border, gap=-(-GAP_ELEMENTS // step))
    return border


OPERATORS = {
    "matmul": _product,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
}
