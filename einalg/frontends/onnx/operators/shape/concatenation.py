"""ONNX concatenations and splits."""

from __future__ import annotations

from typing import Any

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.ops.definition.axes import axis_number

MAX_PIECES = 1024


@onnx_operator("Concat")
def concat(node: Operator) -> Any:
    """Concatenate, without the pieces that have no elements."""
    parts = [node.tensor(k) for k in range(len(node.inputs))]
    axis = axis_number(node.integer("axis", 1), "axis", parts[0].rank)
    full = [part for part in parts if part.shape[axis] or part.rank != parts[0].rank]
    if not full:
        return parts[0]
    if len(full) == 1:
        return full[0]
    return ops.concat(full, axis)


@onnx_operator("Split", ignoring="num_outputs")
def split(node: Operator) -> Any:
    """Split along an axis.

    Sizes are an input or an attribute, or follow from the number of outputs: the last one may be
    smaller.
    """
    x, count = node.tensor(0), len(node.outputs)
    axis = axis_number(node.integer("axis", 0), "axis", x.rank)
    sizes = node.sizes("split")
    if node.has(1):
        sizes = node.integers(1, "split")
    if not 1 <= count <= MAX_PIECES:
        raise NotExpressible(f"{count} pieces")
    if sizes is None:
        piece = -(-x.shape[axis] // count)
        sizes = (piece,) * (count - 1) + (x.shape[axis] - piece * (count - 1),)
    if len(sizes) != count:
        raise NotExpressible(f"{len(sizes)} sizes for {count} outputs")
    if count == 1:
        return x
    return ops.split(x, tuple(sizes), axis)
