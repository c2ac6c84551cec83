"""Running sums and products."""

from __future__ import annotations

from typing import Any

from einalg import ops
from einalg.frontends.onnx.registry import Operator, onnx_operator
from einalg.notation import L, Prod
from einalg.ops.axes import axis_number, kept, reduced, replaced
from einalg.ops.parameters import operand, spans


@onnx_operator("CumSum", "CumProd")
def running(node: Operator) -> Any:
    x, axis = node.tensor(0), int(node.scalar(1, "axis"))
    exclusive, reverse = bool(node.integer("exclusive", 0)), bool(node.integer("reverse", 0))
    return ops.cumsum(x, axis, exclusive, reverse) if node.type == "CumSum" else _products(x, axis, exclusive, reverse)


def _products(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    found = operand(x, "x", least=1)
    position = axis_number(axis, "axis", found.rank)
    at, (r,) = kept(found.rank), reduced(1)
    here, gap = at[position], 1 if exclusive else 0
    seen = r >= here + gap if reverse else here >= r + gap
    return L[spans(at, found.shape)](Prod[r : found.shape[position]](found[replaced(at, {position: r})], where=seen))
