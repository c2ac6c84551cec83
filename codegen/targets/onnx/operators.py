"""Kernels of operators as the nodes of ONNX that compute them; None where one does not fit, for a body computes everything (design §11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codegen.ir.nodes import Buf
from codegen.ir.window import SpatialAxes, reduction, setting, window
from codegen.targets.onnx.gathers import operand, placed
from codegen.targets.onnx.graph_builder import OnnxGraphBuilder
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope

FLOATS = ("f32", "f64")


def matmul(
    writer: OnnxGraphBuilder, kernel: Kernel, scope: Scope, arrays: Sequence[Buf]
) -> Buf | None:
    """`MatMul`."""
    left, right = (
        operand(writer, array, view, *letters)
        for array, view, letters in zip(arrays, kernel.views, ("bmk", "bkn"))
    )
    result = writer.add("MatMul", [left, right], [*left.shape[:2], right.shape[2]], scope.dtype)
    return placed(writer, result, kernel.views[-1], *"bmn")


def convolution(
    writer: OnnxGraphBuilder, kernel: Kernel, scope: Scope, arrays: Sequence[Buf]
) -> Buf | None:
    """`Conv`."""
    found, pads = window(kernel), _pads(kernel)
    data = operand(writer, arrays[0], kernel.views[0], "n", "*c", *found.space)
    weights = operand(writer, arrays[1], kernel.views[1], "*f", "c", *found.taps)
    points = [
        _points(n + sum(pad), found, axis)
        for axis, (n, pad) in enumerate(zip(data.shape[2:], pads))
    ]
    options = {
        **_options(found, pads),
        "dilations": found.dilation,
        "group": kernel.sizes.get("groups", 1),
    }
    result = writer.add(
        "Conv", [data, weights], [data.shape[0], weights.shape[0], *points], scope.dtype, **options
    )
    return placed(writer, result, kernel.views[-1], "n", "*f", *found.space)


def transposed(
    writer: OnnxGraphBuilder, kernel: Kernel, scope: Scope, arrays: Sequence[Buf]
) -> Buf | None:
    """`ConvTranspose`, where its padding leaves what is wanted."""
    found, target = window(kernel), kernel.views[-1]
    data = operand(writer, arrays[0], kernel.views[0], "n", "*c", *found.space)
    weights = operand(writer, arrays[1], kernel.views[1], "*c", "f", *found.taps)
    points = [extent for letter in found.space for extent, _ in target.axes.get(letter, ())]
    groups = kernel.sizes.get("groups", 1)
    before = setting(kernel, "padding", found.space, 0, "before")
    whole = [
        (n - 1) * s + (taps - 1) * d + 1
        for n, s, taps, d in zip(data.shape[2:], found.stride, found.sizes, found.dilation)
    ]
    after = [n - start - wanted for n, start, wanted in zip(whole, before, points)]
    if len(points) != len(found.space) or any(
        -n >= max(steps) for n, *steps in zip(after, found.stride, found.dilation)
    ):
        return None
    options = {
        **_options(found, [(start, max(0, n)) for start, n in zip(before, after)]),
        "dilations": found.dilation,
        "group": groups,
    }
    options["output_padding"] = [max(0, -n) for n in after]
    result = writer.add(
        "ConvTranspose",
        [data, weights],
        [data.shape[0], weights.shape[1] * groups, *points],
        scope.dtype,
        **options,
    )
    return placed(writer, result, target, "n", "*f", *found.space)


def pool(
    writer: OnnxGraphBuilder, kernel: Kernel, scope: Scope, arrays: Sequence[Buf]
) -> Buf | None:
    """`MaxPool`, or `AveragePool` that counts what is outside."""
    found, pads, how = window(kernel), _pads(kernel), reduction(scope)
    if (
        how is None
        or how[0] not in ("Sum", "Max")
        or (how[0] == "Sum" and max(found.dilation) > 1)
        or (how[0] == "Max" and how[1] != 1)
    ):
        return None
    if any(max(pad) >= taps for pad, taps in zip(pads, found.sizes)):  # a window without an element
        return None
    data = operand(writer, arrays[0], kernel.views[0], "n", "c", *found.space)
    points = [
        _points(n + sum(pad), found, axis)
        for axis, (n, pad) in enumerate(zip(data.shape[2:], pads))
    ]
    own: dict[str, Any] = (
        {"dilations": found.dilation} if how[0] == "Max" else {"count_include_pad": 1}
    )
    operator = "MaxPool" if how[0] == "Max" else "AveragePool"
    result = writer.add(
        operator, [data], [*data.shape[:2], *points], scope.dtype, **_options(found, pads), **own
    )
    if how[0] == "Sum" and abs(how[1] * found.count - 1) > 1e-12:
        scale = writer.constant(how[1] * found.count, scope.dtype)
        result = writer.add("Mul", [result, scale], result.shape, scope.dtype)
    return placed(writer, result, kernel.views[-1], "n", "f", *found.space)


def _pads(kernel: Kernel) -> list[tuple[int, int]]:
    return [kernel.views[0].pads.get(letter, (0, 0)) for letter in window(kernel).space]


def _points(extent: int, found: SpatialAxes, axis: int) -> int:
    return (extent - (found.sizes[axis] - 1) * found.dilation[axis] - 1) // found.stride[axis] + 1


def _options(found: SpatialAxes, pads: Sequence[tuple[int, int]]) -> dict[str, Any]:
    around = [*(before for before, _ in pads), *(after for _, after in pads)]
    return {"kernel_shape": found.sizes, "strides": found.stride, "pads": around}


OPERATORS: Mapping[str, Any] = {
    "matmul": matmul,
    **{f"conv{rank}d": convolution for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": transposed for rank in (1, 2, 3)},
    **{f"{kind}_pool{rank}d": pool for kind in ("max", "avg") for rank in (1, 2, 3)},
}
