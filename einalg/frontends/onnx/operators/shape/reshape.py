"""ONNX changes of shape that keep the elements in order."""

from __future__ import annotations

from math import prod
from typing import Any

from einalg.frontends.onnx.nodes.registry import Operator, onnx_operator
from einalg.language import ops
from einalg.language.ops.definition.axes import axis_number


@onnx_operator("Reshape", ignoring="consumed_inputs")
def reshape(node: Operator) -> Any:
    """Reshape; a size of 0 is that of the input, unless `allowzero`.

    The sizes are an attribute before operator set 5.
    """
    x = node.tensor(0)
    if node.version < 5:
        sizes = node.sizes("shape")
    else:
        sizes = node.integers(1, "shape")
    if node.integer("allowzero", 0):
        return _reshaped(x, sizes)
    shape = list(sizes or ())
    for axis, size in enumerate(shape):
        if size == 0 and axis < x.rank:
            shape[axis] = x.shape[axis]
    return _reshaped(x, shape)


def _reshaped(x: Any, shape: Any) -> Any:
    reshaped = ops.reshape(x, tuple(shape))
    if reshaped.shape == x.shape:
        return x
    return reshaped


@onnx_operator("Flatten")
def flatten(node: Operator) -> Any:
    x, axis = node.tensor(0), node.integer("axis", 1)
    if axis != x.rank:
        axis = axis_number(axis, "axis", x.rank)
    return _reshaped(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@onnx_operator("Squeeze", "Unsqueeze")
def unit_axes(node: Operator) -> Any:
    """Remove or add axes of size 1, which are an attribute before operator set 13."""
    axes = node.sizes("axes")
    if node.has(1):
        axes = node.integers(1, "axes")
    if node.type == "Squeeze":
        return ops.squeeze(node.tensor(0), axes)
    return ops.unsqueeze(node.tensor(0), tuple(axes or ()))


@onnx_operator("DepthToSpace")
def depth_to_space(node: Operator) -> Any:
    return ops.depth_to_space(node.tensor(0), node.integer("blocksize"), node.word("mode", "DCR"))


@onnx_operator("SpaceToDepth")
def space_to_depth(node: Operator) -> Any:
    return ops.space_to_depth(node.tensor(0), node.integer("blocksize"), node.word("mode", "DCR"))
