"""Changes of shape that keep the elements in order."""

from __future__ import annotations

from math import prod
from typing import Any

from einalg.frontends.onnx.nodes.registry import Operator, onnx_operator
from einalg.language import ops
from einalg.language.ops.definition.axes import axis_number


@onnx_operator("Reshape", ignoring="consumed_inputs")
def reshape(node: Operator) -> Any:
    """A size of 0 is that of the input, unless `allowzero`; the sizes are an attribute before operator set 5."""
    x, wanted = (
        node.tensor(0),
        node.sizes("shape") if node.version < 5 else node.integers(1, "shape"),
    )
    if not node.integer("allowzero", 0):
        wanted = tuple(
            x.shape[k] if size == 0 and k < x.rank else size for k, size in enumerate(wanted or ())
        )
    return _reshaped(x, wanted)


def _reshaped(x: Any, shape: Any) -> Any:
    found = ops.reshape(x, tuple(shape))
    return x if found.shape == x.shape else found


@onnx_operator("Flatten")
def flatten(node: Operator) -> Any:
    x, axis = node.tensor(0), node.integer("axis", 1)
    axis = x.rank if axis == x.rank else axis_number(axis, "axis", x.rank)
    return _reshaped(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@onnx_operator("Squeeze", "Unsqueeze")
def unit_axes(node: Operator) -> Any:
    """The axes are an attribute before operator set 13."""
    axes = node.integers(1, "axes") if node.has(1) else node.sizes("axes")
    if node.type == "Squeeze":
        return ops.squeeze(node.tensor(0), None if axes is None else tuple(axes))
    return ops.unsqueeze(node.tensor(0), tuple(axes or ()))


@onnx_operator("DepthToSpace")
def depth_to_space(node: Operator) -> Any:
    return ops.depth_to_space(node.tensor(0), node.integer("blocksize"), node.word("mode", "DCR"))


@onnx_operator("SpaceToDepth")
def space_to_depth(node: Operator) -> Any:
    return ops.space_to_depth(node.tensor(0), node.integer("blocksize"), node.word("mode", "DCR"))
