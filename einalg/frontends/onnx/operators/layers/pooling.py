"""Poolings: means, maxima and norms of windows, and of whole channels."""

from __future__ import annotations

from math import prod
from typing import Any

import sympy

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.frontends.onnx.operators.layers.convolution import (
    extents_of,
    paddings,
    per_axis,
    spatial_rank,
)
from einalg.language import ops
from einalg.language.ops.math.elementwise import elementwise

AVERAGES = (ops.avg_pool1d, ops.avg_pool2d, ops.avg_pool3d)
MAXIMA = (ops.max_pool1d, ops.max_pool2d, ops.max_pool3d)


def _windows(node: Operator) -> tuple[Any, int, dict[str, Any]]:
    """The data, its axes of space, and how the windows lie."""
    x = node.tensor(0)
    rank = spatial_rank(x)
    kernel, strides, dilations = (
        per_axis(node, name, rank, 1) for name in ("kernel_shape", "strides", "dilations")
    )
    pads = paddings(node, x.shape[2:], extents_of(kernel, dilations), strides)
    ceil_mode = bool(node.integer("ceil_mode", 0)) and node.word("auto_pad", "NOTSET") == "NOTSET"
    return (
        x,
        rank,
        {
            "kernel": kernel,
            "stride": strides,
            "dilation": dilations,
            "padding": pads,
            "ceil_mode": ceil_mode,
        },
    )


@onnx_operator("MaxPool", ignoring="storage_order pads")
def max_pool(node: Operator) -> Any:
    if node.wants(1):
        raise NotExpressible("the language has no positions of largest elements")
    x, rank, view = _windows(node)
    return MAXIMA[rank - 1](x, **view)


@onnx_operator("AveragePool", ignoring="pads")
def average_pool(node: Operator) -> Any:
    x, rank, view = _windows(node)
    return AVERAGES[rank - 1](
        x, **view, count_include_pad=bool(node.integer("count_include_pad", 0))
    )


@onnx_operator("LpPool", ignoring="pads")
def lp_pool(node: Operator) -> Any:
    """The root of the sum of powers; zeros lie around, also under a last window that is not full."""
    x, rank, view = _windows(node)
    p = node.integer("p", 2)
    _positive(p)
    around = [
        _room(*row, ceil_mode=view["ceil_mode"])
        for row in zip(x.shape[2:], *(view[k] for k in ("kernel", "dilation", "stride", "padding")))
    ]
    powers = elementwise(x, lambda v: sympy.Abs(v) ** p)
    padded = ops.pad(powers, [(0, 0), (0, 0), *around])
    mean = AVERAGES[rank - 1](padded, view["kernel"], view["stride"], 0, view["dilation"])
    return elementwise(mean, lambda v: (v * prod(view["kernel"])) ** sympy.Rational(1, p))


def _room(
    size: int, taps: int, dilation: int, stride: int, pair: tuple[int, int], ceil_mode: bool
) -> tuple[int, int]:
    """Zeros before and after an axis, so many that all windows are full."""
    extent = (taps - 1) * dilation + 1
    room = size + sum(pair) - extent
    more = -room % stride if ceil_mode else 0
    if more and room + more >= size + pair[0]:
        more = 0  # the last window would begin in the padding
    return pair[0], pair[1] + more


def _positive(p: int) -> None:
    if not 1 <= p <= 64:
        raise NotExpressible(f"a norm of order {p}")


@onnx_operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def whole(node: Operator) -> Any:
    x = node.tensor(0)
    if x.rank < 3:
        raise NotExpressible("no axes of space")
    axes = tuple(range(2, x.rank))
    if node.type == "GlobalLpPool":
        p = node.integer("p", 2)
        _positive(p)
        total = ops.sum(elementwise(x, lambda v: sympy.Abs(v) ** p), axes, keepdims=True)
        return elementwise(total, lambda v: v ** sympy.Rational(1, p))
    return (ops.mean if node.type == "GlobalAveragePool" else ops.max)(x, axes, keepdims=True)
