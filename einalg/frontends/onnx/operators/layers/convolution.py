"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops

CONVOLUTIONS = (ops.conv1d, ops.conv2d, ops.conv3d)
TRANSPOSED = (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)
LARGEST_WINDOW = 2**12
Pairs = tuple[tuple[int, int], ...]


def per_axis(node: Operator, name: str, rank: int, default: int) -> tuple[int, ...]:
    """An attribute with an entry for each axis of space."""
    found = node.sizes(name, None)
    found = found or (default,) * rank
    if len(found) != rank:
        raise NotExpressible(
            f"attribute {name} has {len(found)} entries, and there are {rank} axes of space"
        )
    if max(map(abs, found), default=0) > LARGEST_WINDOW:
        raise NotExpressible(f"attribute {name} is {found}, larger than any window")
    return found


def paddings(
    node: Operator, sizes: tuple[int, ...], extents: tuple[int, ...], strides: tuple[int, ...]
) -> Pairs:
    """`(before, after)` for each axis, from `auto_pad` or `pads`; these may be negative in the file, which nothing expresses."""
    kind, rank = node.word("auto_pad", "NOTSET"), len(sizes)
    if kind == "VALID":
        return ((0, 0),) * rank
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-size // stride) - 1) * stride + extent - size, 0)
            for size, extent, stride in zip(sizes, extents, strides)
        ]
        return tuple(
            (t // 2, t - t // 2) if kind == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals
        )
    if kind != "NOTSET":
        raise NotExpressible(f"attribute auto_pad is {kind!r}")
    pads = per_axis(node, "pads", 2 * rank, 0)
    return tuple(zip(pads[:rank], pads[rank:]))


def spatial_rank(x: Any) -> int:
    """How many axes of space an array of (N, C, …) has: 1 to 3."""
    if not 3 <= x.rank <= 5:
        raise NotExpressible(f"{x.rank - 2} axes of space")
    return x.rank - 2


def extents_of(kernel: tuple[int, ...], dilations: tuple[int, ...]) -> tuple[int, ...]:
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
    """Padding may follow from `output_shape`; a padding below 0 is room after the axis."""
    x, weight, bias = node.tensor(0), node.tensor(1), node.optional(2)
    rank = spatial_rank(x)
    strides, dilations, extra = (
        per_axis(node, name, rank, d)
        for name, d in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    full = [
        (n - 1) * s + e
        for n, s, e in zip(x.shape[2:], strides, extents_of(weight.shape[2:], dilations))
    ]
    pads = _transposed_paddings(node, x.shape[2:], full, strides, extra)
    room = tuple(max(more, more - after) for more, (_, after) in zip(extra, pads))
    pads = tuple((before, max(after, 0)) for before, after in pads)
    groups = node.integer("group", 1)
    if any(r >= max(s, d) for r, s, d in zip(room, strides, dilations)):
        return _with_room(x, weight, bias, rank, strides, pads, room, groups, dilations)
    return TRANSPOSED[rank - 1](
        x,
        weight,
        bias,
        stride=strides,
        padding=pads,
        output_padding=room,
        groups=groups,
        dilation=dilations,
    )


def _with_room(
    x: Any,
    weight: Any,
    bias: Any,
    rank: int,
    strides: Any,
    pads: Any,
    room: Any,
    groups: int,
    dilations: Any,
) -> Any:
    """Room that the operator does not take: zeros around its result, before the bias."""
    result = TRANSPOSED[rank - 1](
        x, weight, None, stride=strides, padding=pads, groups=groups, dilation=dilations
    )
    result = ops.pad(result, [(0, 0), (0, 0), *((0, r) for r in room)])
    return result if bias is None else ops.bias_add(result, bias)


def _transposed_paddings(
    node: Operator, sizes: Any, full: list[int], strides: Any, extra: Any
) -> Pairs:
    """Padding takes elements away from the whole result, of sizes `full`; `output_shape` says how many are left."""
    kind, shape = node.word("auto_pad", "NOTSET"), node.sizes("output_shape")
    if not shape and kind in ("NOTSET", "VALID"):
        return paddings(node, sizes, tuple(full), strides)
    shape = tuple(shape)[-len(sizes) :] if shape else tuple(n * s for n, s in zip(sizes, strides))
    totals = [f + e - out for f, e, out in zip(full, extra, shape)]
    halves = [
        (t // 2, t - t // 2) if kind == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals
    ]
    return tuple((max(before, 0), after + min(before, 0)) for before, after in halves)
