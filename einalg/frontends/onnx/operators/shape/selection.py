"""Choices among elements: by a condition, by positions, by triangles."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.ir.dtypes import holds
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import axis_number, result_indices
from einalg.language.ops.definition.operands import operand, spans


@onnx_operator("Where")
def where(node: Operator) -> Any:
    """Numbers keep the type of the other choice; truth values are chosen by logic."""
    condition, a, b = node.operands()
    if node.dtypes[0] == "bool":
        first, second = node.tensor(1), node.tensor(2)
        return ops.logical_or(
            ops.logical_and(condition, first),
            ops.logical_and(ops.logical_not(node.tensor(0)), second),
        )
    return ops.where(node.tensor(0), a, b)


@onnx_operator("Trilu")
def triangle(node: Operator) -> Any:
    x, k = node.tensor(0), node.scalar(1, "k", 0)
    if node.integer("upper", 1):
        return ops.triu(x, k)
    return ops.tril(x, k)


@onnx_operator("Gather")
def gather(node: Operator) -> Any:
    """Rows at known positions."""
    return ops.take(node.tensor(0), node.array(1, "indices"), node.integer("axis", 0))


@onnx_operator("OneHot")
def one_hot(node: Operator) -> Any:
    """`values[1]` where the position along the new axis is the index, `values[0]` elsewhere."""
    positions = operand(node.tensor(0), "indices", dtype="number")
    depth, values = int(node.scalar(1, "depth")), operand(node.tensor(2), "values", rank=1)
    axis = axis_number(node.integer("axis", -1), "axis", positions.rank + 1)
    if depth < 1 or depth > 2**20 or positions.dtype[0] not in "iu":
        raise NotExpressible(f"depth {depth} of {positions.dtype} indices")
    at = result_indices(positions.rank + 1)
    index = positions[at[:axis] + at[axis + 1 :]]
    shape = (*positions.shape[:axis], depth, *positions.shape[axis:])
    here: Any = sympy.Eq(index, at[axis])
    if holds(positions.dtype, -1):
        here = here | sympy.Eq(index + depth, at[axis])
    return L[spans(at, shape)](sympy.Piecewise((values[1], here), (values[0], True)))
