"""Running sums and products."""

from __future__ import annotations

from typing import Any

from einalg.frontends.onnx.nodes.registry import Operator, onnx_operator
from einalg.language import ops


@onnx_operator("CumSum", "CumProd")
def running(node: Operator) -> Any:
    x, axis = node.tensor(0), int(node.scalar(1, "axis"))
    exclusive, reverse = bool(node.integer("exclusive", 0)), bool(node.integer("reverse", 0))
    if node.type == "CumSum":
        return ops.cumsum(x, axis, exclusive, reverse)
    return ops.cumprod(x, axis, exclusive, reverse)
