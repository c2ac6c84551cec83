"""Exchange of space for channels or batch, enlargement, and windows as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine
from einalg.language.index.size import Extent, largest
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, indices
from einalg.language.ops.definition.axes import axis_numbers, result_indices
from einalg.language.ops.definition.operands import (
    Pair,
    is_multiple,
    operand,
    pair_per_axis,
    per_axis,
    product,
    spans,
    whole,
)
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.shape.reshape import digits

n, c, h, w = indices("n c h w")


def _divides(divisor: int, size: Extent, what: str, parameter: str) -> None:
    if not is_multiple(size, divisor):
        raise ShapeError(
            f"{parameter} asks for {what} to be a multiple of {divisor}, not {size}\n"
            f"  pad or slice x, or give another {parameter}"
        )


def _is_block_first(mode: str) -> bool:
    """Return whether the block comes before the channels."""
    if mode not in ("DCR", "CRD"):
        raise ShapeError(
            f"mode is {mode!r}\n  use 'DCR' (block, then channel) or 'CRD' (channel, then block)"
        )
    return mode == "DCR"


@operator
def depth_to_space(x: Any, block: int, mode: str = "DCR") -> Scope:
    """Lay channels out as `block × block` positions: `(N, C·block², H, W)` gives `(N, C, H·block,
    W·block)`.

    A channel of `x` is (row, column, channel) in `mode="DCR"`, (channel, row, column) in `"CRD"`,
    as in ONNX. Raises `ShapeError` for another mode, not four axes, or channels that `block²` does
    not divide.

    >>> import einalg as ea
    >>> depth_to_space(ea.tensor("x", (1, 8, 3, 3)), 2)
    L[n:1, c:2, h:6, w:6](x[n, c + 4*(h%2) + 2*(w%2), h//2, w//2])
    """
    view, size = operand(x, "x", rank=4, dtype="any"), whole(block, "block", 1)
    batch, depth, height, width = view.shape
    block_first = _is_block_first(mode)
    _divides(size * size, depth, "the number of channels", "block")
    channels = depth // size**2
    place = h % size * size + w % size
    channel = place * channels + c if block_first else c * size**2 + place
    return L[n:batch, c:channels, h : height * size, w : width * size](
        view[n, channel, h // size, w // size]
    )


@operator
def space_to_depth(x: Any, block: int, mode: str = "DCR") -> Scope:
    """Lay blocks of `block × block` positions out as channels: `(N, C, H, W)` gives `(N, C·block²,
    H/block, W/block)`.

    A channel of the result is (row, column, channel) in `mode="DCR"`, as in ONNX, (channel, row,
    column) in `"CRD"`. Raises `ShapeError` for another mode, not four axes, or a height or width
    that `block` does not divide.

    >>> import einalg as ea
    >>> space_to_depth(ea.tensor("x", (1, 2, 6, 6)), 2, "CRD")
    L[n:1, c:8, h:3, w:3](x[n, c//4, 2*h + (c//2)%2, 2*w + c%2])
    """
    view, size = operand(x, "x", rank=4, dtype="any"), whole(block, "block", 1)
    batch, channels, height, width = view.shape
    block_first = _is_block_first(mode)
    for what, extent in (("the height", height), ("the width", width)):
        _divides(size, extent, what, "block")
    depth = channels * size**2
    row, column, channel = digits(c, (size, size, channels))
    if not block_first:
        channel, row, column = digits(c, (channels, size, size))
    return L[n:batch, c:depth, h : height // size, w : width // size](
        view[n, channel, h * size + row, w * size + column]
    )


@operator
def pixel_shuffle(x: Any, factor: int) -> Scope:
    """Lay channels out as positions: `(…, C·factor², H, W)` gives `(…, C, H·factor, W·factor)`, a
    channel being (channel, row, column), as in torch.

    Raises `ShapeError` for fewer than three axes, or channels that `factor²` does not divide.

    >>> import einalg as ea
    >>> pixel_shuffle(ea.tensor("x", (8, 3, 3)), 2)
    L[i:2, j:6, k:6](x[4*i + 2*(j%2) + k%2, j//2, k//2])
    """
    view, size = operand(x, "x", least=3, dtype="any"), whole(factor, "factor", 1)
    *batch, depth, height, width = view.shape
    _divides(size * size, depth, "the number of channels", "factor")
    *front, channel, row, column = result_indices(view.rank)
    shape = (*batch, depth // size**2, height * size, width * size)
    source = channel * size**2 + row % size * size + column % size
    return L[spans(result_indices(view.rank), shape)](
        view[(*front, source, row // size, column // size)]
    )


@operator
def pixel_unshuffle(x: Any, factor: int) -> Scope:
    """Lay positions out as channels: `(…, C, H·factor, W·factor)` gives `(…, C·factor², H, W)`, a
    channel being (channel, row, column), as in torch.

    Raises `ShapeError` for fewer than three axes, or a height or width that `factor` does not
    divide.

    >>> import einalg as ea
    >>> pixel_unshuffle(ea.tensor("x", (2, 6, 6)), 2)
    L[i:8, j:3, k:3](x[i//4, 2*j + (i//2)%2, 2*k + i%2])
    """
    view, size = operand(x, "x", least=3, dtype="any"), whole(factor, "factor", 1)
    *batch, channels, height, width = view.shape
    for what, extent in (("the height", height), ("the width", width)):
        _divides(size, extent, what, "factor")
    *front, channel, row, column = result_indices(view.rank)
    shape = (*batch, channels * size**2, height // size, width // size)
    source, down, across = digits(channel, (channels, size, size))
    return L[spans(result_indices(view.rank), shape)](
        view[(*front, source, row * size + down, column * size + across)]
    )


def _blocked_axes(rank: int, block: Any, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes that are cut into blocks, and the size of a block along each."""
    if axes is None:
        count = len(block) if isinstance(block, (tuple, list)) else 2
        axes = tuple(range(1, count + 1))
    numbers = axis_numbers(axes, "axes", rank)
    if 0 in numbers:
        raise ShapeError("axes names axis 0, which is the batch\n  name axes of space only")
    return numbers, per_axis(block, "block", _axis_names(numbers), 1)


def _axis_names(axes: Iterable[int]) -> list[str]:
    return [f"axis {axis}" for axis in axes]


def _mixed_radix(digits: Sequence[Affine], sizes: Sequence[int]) -> Affine:
    """Return the number whose digits, the highest first, have these sizes."""
    total = affine(0)
    for digit, size in zip(digits, sizes):
        total = total * size + digit
    return total


@operator
def space_to_batch(x: Any, block: Any, paddings: Any = 0, axes: Any = None) -> Scope:
    """Make every position inside a block a batch of its own: axis 0 grows by the block, the
    `axes` of space shrink by it.

    `x` is `(N, …)`. `block` is a number, or one for each of `axes` (by default those after the
    batch: two for a number); `paddings` adds zeros first, a number or `(before, after)` an axis.
    The new batch is (block…, N), as in TensorFlow's `space_to_batch`. Raises `ShapeError` for an
    axis that `x` does not have, the batch axis, or sizes that `block` does not divide.

    >>> import einalg as ea
    >>> space_to_batch(ea.tensor("x", (1, 4, 6, 3)), (2, 3))
    L[i:6, j:2, k:2, l:3](x[0, 2*j + i//3, 3*k + i%3, l])
    """
    view = operand(x, "x", least=2, dtype="any")
    over, sizes = _blocked_axes(view.rank, block, axes)
    pads = pair_per_axis(paddings, "paddings", _axis_names(over))
    lengths = [view.shape[axis] + sum(pair) for axis, pair in zip(over, pads)]
    for axis, size, length in zip(over, sizes, lengths):
        _divides(size, length, f"the padded size of axis {axis}", "block")
    at = result_indices(view.rank)
    batches = view.shape[0]
    *places, batch = digits(at[0], (*sizes, batches))
    shape, subscripts = list(view.shape), list[Any](at)
    around = [(0, 0)] * view.rank
    shape[0], subscripts[0] = batches * prod(sizes), batch
    for position, axis in enumerate(over):
        size, pair = sizes[position], pads[position]
        shape[axis] = lengths[position] // size
        subscripts[axis] = at[axis] * size + places[position] - pair[0]
        around[axis] = pair
    return L[spans(at, shape)](view.padded(around)[tuple(subscripts)])


@operator
def batch_to_space(x: Any, block: Any, crops: Any = 0, axes: Any = None) -> Scope:
    """Invert `space_to_batch`: batches become positions inside blocks, and `crops` elements
    are left out at the ends.

    `x` is `(N·block…, …)`; `block`, `crops` and `axes` are given as in `space_to_batch`. Raises
    `ShapeError` for an axis that `x` does not have, the batch axis, a batch that `block` does not
    divide, or crops that leave less than nothing.

    >>> import einalg as ea
    >>> batch_to_space(ea.tensor("x", (6, 2, 2, 3)), (2, 3))
    L[i:1, j:4, k:6, l:3](x[i + 3*(j%2) + k%3, j//2, k//3, l])
    """
    view = operand(x, "x", least=2, dtype="any")
    over, sizes = _blocked_axes(view.rank, block, axes)
    cuts = pair_per_axis(crops, "crops", _axis_names(over))
    _divides(prod(sizes), view.shape[0], "the batch", "block")
    batches = view.shape[0] // prod(sizes)
    at = result_indices(view.rank)
    shape, subscripts = list(view.shape), list[Any](at)
    places = []
    for axis, size, pair in zip(over, sizes, cuts):
        shape[axis] = view.shape[axis] * size - sum(pair)
        if shape[axis] < 0:
            raise ShapeError(
                f"crops takes {pair} from axis {axis}, which has {view.shape[axis] * size} "
                "elements\n  take less away"
            )
        uncropped = at[axis] + pair[0]
        subscripts[axis] = uncropped // size
        places.append(uncropped % size)
    shape[0], subscripts[0] = batches, _mixed_radix(places, sizes) * batches + at[0]
    return L[spans(at, shape)](view[tuple(subscripts)])


@operator
def unfold(x: Any, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Scope:
    """Return the windows of a convolution as columns (im2col): `(N, C, …)` gives `(N, C·kernel…,
    number of windows)`, as in torch.

    `kernel`, `stride` and `dilation` are a number or one for each axis of space; `padding` adds
    zeros, a number or `(before, after)` an axis. Raises `ShapeError` for numbers out of range, or a
    kernel that is larger than the padded `x`.

    >>> import einalg as ea
    >>> unfold(ea.tensor("x", (1, 3, 5)), 2)
    L[n:1, c:6, w:4](x[n, c//2, w + c%2])
    """
    view = operand(x, "x", least=3, dtype="any")
    space = view.shape[2:]
    names = _axis_names(range(2, view.rank))
    kernels = per_axis(kernel, "kernel", names, 1)
    strides = per_axis(stride, "stride", names, 1)
    dilations = per_axis(dilation, "dilation", names, 1)
    pads = pair_per_axis(padding, "padding", names)
    counts = []
    for position, size in enumerate(space):
        extent = dilations[position] * (kernels[position] - 1) + 1
        counts.append((size + sum(pads[position]) - extent) // strides[position] + 1)
        if largest(counts[position]) < 1:
            raise ShapeError(
                f"kernel has size {kernels[position]} along {names[position]}, more than x, of "
                f"shape {view.shape}, has with its padding\n"
                "  give a smaller kernel"
            )
    taps, windows = digits(c, kernels, bounded=False), digits(w, counts)
    reads = []
    for position, (before, _) in enumerate(pads):
        first = windows[position] * strides[position] - before
        reads.append(first + taps[position] * dilations[position])
    around: tuple[Pair, ...] = ((0, 0), (0, 0), *pads)
    return L[n : view.shape[0], c : view.shape[1] * prod(kernels), w : product(counts)](
        view.padded(around)[(n, c // prod(kernels), *reads)]
    )
