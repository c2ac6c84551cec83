"""Torch's convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from einalg.frontends.torch.nodes.arguments import one_or_each
from einalg.frontends.torch.nodes.registry import NotExpressed, aten
from einalg.language import ops
from einalg.language.ops.definition.windows import SPATIAL


def _layout(x: Any, axes: int) -> str:
    """Return the axes of `x`, for example "NCHW"; the batch may be absent."""
    layout = "C" + SPATIAL[axes - 1]
    if x.rank == axes + 1:
        return layout
    if x.rank == axes + 2:
        return "N" + layout
    raise NotExpressed(f"a convolution of {x.rank} axes")


def _axes(weight: Any) -> int:
    axes = weight.rank - 2
    if not 1 <= axes <= len(SPATIAL):
        raise NotExpressed(f"a convolution over {axes} axes")
    return axes


@aten(
    "conv1d.default",
    "conv2d.default",
    "conv3d.default",
    "conv1d.padding",
    "conv2d.padding",
    "conv3d.padding",
)
def _convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    axes = _axes(weight)
    layout = _layout(x, axes)
    stride, padding, dilation = map(one_or_each, (stride, padding, dilation))
    if groups == x.shape[layout.index("C")] > 1:
        return getattr(ops, f"depthwise_conv{axes}d")(
            x, weight, bias, stride, padding, dilation, layout=layout
        )
    return getattr(ops, f"conv{axes}d")(
        x, weight, bias, stride, padding, dilation, groups, layout=layout
    )


@aten("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def _transposed(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    axes = _axes(weight)
    function = getattr(ops, f"conv_transpose{axes}d")
    stride, padding, output_padding, dilation = map(
        one_or_each, (stride, padding, output_padding, dilation)
    )
    return function(
        x, weight, bias, stride, padding, output_padding, groups, dilation, layout=_layout(x, axes)
    )


@aten("convolution.default")
def _any_convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    if transposed:
        return _transposed(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _convolution(x, weight, bias, stride, padding, dilation, groups)
