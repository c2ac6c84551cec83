"""Kernels of operators as the nodes of ONNX that compute them (design §11).

Each function returns None where a node does not fit, for the body of a statement computes
everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codegen.ir.nodes import Buf
from codegen.ir.window import SpatialAxes, reduction, setting, window
from codegen.targets.onnx.gathers import in_memory_order, operand
from codegen.targets.onnx.graph_builder import OnnxGraphBuilder
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope

FLOATS = ("f32", "f64")
SINGLE = ("f32",)  # of operators that onnxruntime has for no other type
SCALE_TOLERANCE = 1e-12  # of the factor of a mean, which is 1 but for rounding


def matmul(
    writer: OnnxGraphBuilder, kernel: Kernel, scope: Scope, arrays: Sequence[Buf]
) -> Buf | None:
    """Return a product as `MatMul`."""
    left = operand(writer, arrays[0], kernel.views[0], *"bmk")
    right = operand(writer, arrays[1], kernel.views[1], *"bkn")
    shape = [*left.shape[:2], right.shape[2]]
    result = writer.add("MatMul", [left, right], shape, scope.dtype)
    return in_memory_order(writer, result, kernel.views[-1], *"bmn")


def convolution(
    writer: OnnxGraphBuilder, kernel: Kernel, scope: Scope, arrays: Sequence[Buf]
) -> Buf | None:
    """Return a convolution as `Conv`."""
    axes, pads = window(kernel), _pads(kernel)
    data = operand(writer, arrays[0], kernel.views[0], "n", "*c", *axes.space)
    weights = operand(writer, arrays[1], kernel.views[1], "*f", "c", *axes.taps)
    shape = [data.shape[0], weights.shape[0], *_points(data, axes, pads)]
    attributes = _attributes(axes, pads)
    attributes["dilations"] = axes.dilation
    attributes["group"] = kernel.sizes.get("groups", 1)
    result = writer.add("Conv", [data, weights], shape, scope.dtype, **attributes)
    return in_memory_order(writer, result, kernel.views[-1], "n", "*f", *axes.space)


def transposed_convolution(
    writer: OnnxGraphBuilder, kernel: Kernel, scope: Scope, arrays: Sequence[Buf]
) -> Buf | None:
    """Return a transposed convolution as `ConvTranspose`.

    None where its padding does not leave what is wanted.
    """
    axes, target = window(kernel), kernel.views[-1]
    data = operand(writer, arrays[0], kernel.views[0], "n", "*c", *axes.space)
    weights = operand(writer, arrays[1], kernel.views[1], "*c", "f", *axes.taps)
    points: list[int] = []
    for letter in axes.space:
        points += [extent for extent, _ in target.axes.get(letter, ())]
    if len(points) != len(axes.space):
        return None
    pads, output_padding = [], []
    befores = setting(kernel, "padding", axes.space, 0, "before")
    for axis, (wanted, before) in enumerate(zip(points, befores)):
        stride, dilation = axes.stride[axis], axes.dilation[axis]
        extent = (data.shape[2 + axis] - 1) * stride + (axes.sizes[axis] - 1) * dilation + 1
        after = extent - before - wanted
        if -after >= max(stride, dilation):
            return None
        pads.append((before, max(0, after)))
        output_padding.append(max(0, -after))
    attributes = _attributes(axes, pads)
    attributes["dilations"] = axes.dilation
    attributes["group"] = groups = kernel.sizes.get("groups", 1)
    attributes["output_padding"] = output_padding
    shape = [data.shape[0], weights.shape[1] * groups, *points]
    result = writer.add("ConvTranspose", [data, weights], shape, scope.dtype, **attributes)
    return in_memory_order(writer, result, target, "n", "*f", *axes.space)


def pool(
    writer: OnnxGraphBuilder, kernel: Kernel, scope: Scope, arrays: Sequence[Buf]
) -> Buf | None:
    """Return a pooling as `MaxPool`, or as `AveragePool` that counts what is outside."""
    axes, pads, reduced = window(kernel), _pads(kernel), reduction(scope)
    if reduced is None or not _is_pooled(axes, *reduced):
        return None
    op, scale = reduced
    for (before, after), taps in zip(pads, axes.sizes):
        if max(before, after) >= taps:  # a window without an element
            return None
    data = operand(writer, arrays[0], kernel.views[0], "n", "c", *axes.space)
    shape = [*data.shape[:2], *_points(data, axes, pads)]
    attributes = _attributes(axes, pads)
    if op == "Max":
        attributes["dilations"] = axes.dilation
        result = writer.add("MaxPool", [data], shape, scope.dtype, **attributes)
    else:
        attributes["count_include_pad"] = 1
        result = writer.add("AveragePool", [data], shape, scope.dtype, **attributes)
        result = _scaled(writer, result, scale * axes.count)
    return in_memory_order(writer, result, kernel.views[-1], "n", "f", *axes.space)


def _is_pooled(axes: SpatialAxes, op: str, scale: float) -> bool:
    """Return whether ONNX has a pooling that reduces so, and multiplies by `scale`."""
    if op == "Max":
        return scale == 1
    return op == "Sum" and max(axes.dilation) == 1


def _scaled(writer: OnnxGraphBuilder, array: Buf, scale: float) -> Buf:
    if abs(scale - 1) <= SCALE_TOLERANCE:
        return array
    factor = writer.constant(scale, array.dtype)
    return writer.add("Mul", [array, factor], array.shape, array.dtype)


def _pads(kernel: Kernel) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis of the data."""
    return [kernel.views[0].pads.get(letter, (0, 0)) for letter in window(kernel).space]


def _points(data: Buf, axes: SpatialAxes, pads: Sequence[tuple[int, int]]) -> list[int]:
    """Return the points at which windows lie, along each spatial axis."""
    points = []
    for axis, (before, after) in enumerate(pads):
        extent = data.shape[2 + axis] + before + after
        window_extent = (axes.sizes[axis] - 1) * axes.dilation[axis] + 1
        points.append((extent - window_extent) // axes.stride[axis] + 1)
    return points


def _attributes(axes: SpatialAxes, pads: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return the attributes that all operators with windows have."""
    around = [*(before for before, _ in pads), *(after for _, after in pads)]
    return {"kernel_shape": axes.sizes, "strides": axes.stride, "pads": around}


@dataclass(frozen=True)
class Binding:
    """An operator of ONNX, and the element types for which runtimes have it."""

    bind: Callable[[OnnxGraphBuilder, Kernel, Scope, Sequence[Buf]], Buf | None]
    dtypes: tuple[str, ...]


OPERATORS = {"matmul": Binding(matmul, FLOATS)}
for _rank in (1, 2, 3):
    OPERATORS[f"conv{_rank}d"] = Binding(convolution, SINGLE)
    OPERATORS[f"conv_transpose{_rank}d"] = Binding(transposed_convolution, SINGLE)
    OPERATORS[f"max_pool{_rank}d"] = Binding(pool, FLOATS)
    OPERATORS[f"avg_pool{_rank}d"] = Binding(pool, SINGLE)
