"""ONNX poolings: means, maxima and norms of windows, and of whole channels."""

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
    """Return the data, the number of spatial axes, and the arguments of a pooling."""
    x = node.tensor(0)
    rank = spatial_rank(x)
    kernel = per_axis(node, "kernel_shape", rank, 1)
    strides, dilations = per_axis(node, "strides", rank, 1), per_axis(node, "dilations", rank, 1)
    pads = paddings(node, x.shape[2:], extents_of(kernel, dilations), strides)
    automatic = node.word("auto_pad", "NOTSET")
    if automatic.startswith("SAME") and max(dilations) > 1:
        raise NotExpressible("runtimes pad for windows that are not dilated, unlike ONNX")
    ceil_mode = bool(node.integer("ceil_mode", 0)) and automatic == "NOTSET"
    windows = {
        "kernel": kernel,
        "stride": strides,
        "dilation": dilations,
        "padding": pads,
        "ceil_mode": ceil_mode,
    }
    return x, rank, windows


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
    """Return the root of the sum of powers.

    Zeros lie around, also under a last window that is not full.
    """
    x, rank, view = _windows(node)
    p = node.integer("p", 2)
    _positive(p)
    windows = zip(view["kernel"], view["dilation"], view["stride"], view["padding"])
    around: list[tuple[int, int]] = []
    for size, window in zip(x.shape[2:], windows):
        around.append(_room(size, *window, ceil_mode=view["ceil_mode"]))
    powers = elementwise(x, lambda v: sympy.Abs(v) ** p)
    padded = ops.pad(powers, [(0, 0), (0, 0), *around])
    mean = AVERAGES[rank - 1](padded, view["kernel"], view["stride"], 0, view["dilation"])
    return elementwise(mean, lambda v: (v * prod(view["kernel"])) ** sympy.Rational(1, p))


def _room(
    size: int, taps: int, dilation: int, stride: int, pair: tuple[int, int], ceil_mode: bool
) -> tuple[int, int]:
    """Return how many zeros before and after an axis make all windows full."""
    extent = (taps - 1) * dilation + 1
    room = size + sum(pair) - extent
    more = -room % stride
    if not ceil_mode or room + more >= size + pair[0]:
        return pair  # else the last window would begin in the padding
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
    if node.type == "GlobalAveragePool":
        return ops.mean(x, axes, keepdims=True)
    return ops.max(x, axes, keepdims=True)
