"""ONNX convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops

CONVOLUTIONS = (ops.conv1d, ops.conv2d, ops.conv3d)
TRANSPOSED = (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)
MAX_WINDOW_SIZE = 2**12
Pairs = tuple[tuple[int, int], ...]


def per_axis(node: Operator, name: str, rank: int, default: int) -> tuple[int, ...]:
    """Return an attribute with an entry for each spatial axis."""
    sizes = node.sizes(name, None) or (default,) * rank
    if len(sizes) != rank:
        raise NotExpressible(
            f"attribute {name} has {len(sizes)} entries, and there are {rank} axes of space"
        )
    if max(map(abs, sizes), default=0) > MAX_WINDOW_SIZE:
        raise NotExpressible(f"attribute {name} is {sizes}, larger than any window")
    return sizes


def paddings(
    node: Operator, sizes: tuple[int, ...], extents: tuple[int, ...], strides: tuple[int, ...]
) -> Pairs:
    """Return `(before, after)` for each axis, from `auto_pad` or `pads`.

    In the file these may be negative, which nothing expresses.
    """
    kind, rank = node.word("auto_pad", "NOTSET"), len(sizes)
    if kind == "VALID":
        return ((0, 0),) * rank
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        pairs: list[tuple[int, int]] = []
        for size, extent, stride in zip(sizes, extents, strides):
            total = max((-(-size // stride) - 1) * stride + extent - size, 0)
            pairs.append(_halves(total, kind))
        return tuple(pairs)
    if kind != "NOTSET":
        raise NotExpressible(f"attribute auto_pad is {kind!r}")
    pads = per_axis(node, "pads", 2 * rank, 0)
    return tuple(zip(pads[:rank], pads[rank:]))


def _halves(total: int, kind: str) -> tuple[int, int]:
    """Return a padding for both ends; an odd one is after for "SAME_UPPER", else before."""
    if kind == "SAME_UPPER":
        return total // 2, total - total // 2
    return total - total // 2, total // 2


def spatial_rank(x: Any) -> int:
    """Return how many spatial axes an array of (N, C, …) has: 1 to 3."""
    if not 3 <= x.rank <= 5:
        raise NotExpressible(f"{x.rank - 2} axes of space")
    return x.rank - 2


def extents_of(kernel: tuple[int, ...], dilations: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many elements each window reaches over."""
    return tuple((taps - 1) * step + 1 for taps, step in zip(kernel, dilations))


@onnx_operator("Conv", ignoring="kernel_shape pads")
def conv(node: Operator) -> Any:
    x, weight, bias = node.tensor(0), node.tensor(1), node.optional(2)
    rank = spatial_rank(x)
    strides, dilations = per_axis(node, "strides", rank, 1), per_axis(node, "dilations", rank, 1)
    pads = paddings(node, x.shape[2:], extents_of(weight.shape[2:], dilations), strides)
    return CONVOLUTIONS[rank - 1](
        x,
        weight,
        bias,
        stride=strides,
        padding=pads,
        dilation=dilations,
        groups=node.integer("group", 1),
    )


@onnx_operator("ConvTranspose", ignoring="kernel_shape pads")
def conv_transpose(node: Operator) -> Any:
    """Return a transposed convolution.

    Padding may follow from `output_shape`; a padding below 0 is room after the axis.
    """
    x, weight, bias = node.tensor(0), node.tensor(1), node.optional(2)
    rank = spatial_rank(x)
    strides, dilations = per_axis(node, "strides", rank, 1), per_axis(node, "dilations", rank, 1)
    extra = per_axis(node, "output_padding", rank, 0)
    extents = extents_of(weight.shape[2:], dilations)
    full = [(n - 1) * s + e for n, s, e in zip(x.shape[2:], strides, extents)]
    room: list[int] = []
    pads: list[tuple[int, int]] = []
    paddings_of_axes = _transposed_paddings(node, x.shape[2:], full, strides, extra)
    for more, (before, after) in zip(extra, paddings_of_axes):
        room.append(max(more, more - after))
        pads.append((before, max(after, 0)))
    return TRANSPOSED[rank - 1](
        x,
        weight,
        bias,
        stride=strides,
        padding=tuple(pads),
        groups=node.integer("group", 1),
        dilation=dilations,
        output_padding=tuple(room),
    )


def _transposed_paddings(
    node: Operator, sizes: Any, full: list[int], strides: Any, extra: Any
) -> Pairs:
    """Return paddings, which take elements away from the whole result of sizes `full`.

    `output_shape` says how many are left.
    """
    kind, shape = node.word("auto_pad", "NOTSET"), node.sizes("output_shape")
    if not shape and kind in ("NOTSET", "VALID"):
        return paddings(node, sizes, tuple(full), strides)
    if shape:
        shape = tuple(shape)[-len(sizes) :]
    else:
        shape = tuple(size * stride for size, stride in zip(sizes, strides))
    pairs: list[tuple[int, int]] = []
    for whole, more, size in zip(full, extra, shape):
        before, after = _halves(whole + more - size, kind)
        pairs.append((max(before, 0), after + min(before, 0)))
    return tuple(pairs)
