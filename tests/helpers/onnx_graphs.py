"""ONNX graphs with control flow."""

from __future__ import annotations

from typing import Any

import onnx

from tests.helpers.onnx_models import model, node


def branches(condition: dict[str, Any]) -> Any:
    def branch(name: str, operator: str) -> Any:
        made = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        return onnx.helper.make_graph([node(operator, "x", name)], name, [], [made])

    choice = node("If", "c", "y", then_branch=branch("a", "Exp"), else_branch=branch("b", "Neg"))
    return model(
        [choice],
        {"x": (3,), **({} if condition else {"c": (onnx.TensorProto.BOOL, ())})},
        {"y": None},
        condition,
    )
