"""Small ONNX models, made node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="these are models of the package onnx")
OPSET = 18


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    stored: dict[str, Any] | None = None,
    opset: int = OPSET,
    **more: Any,
) -> Any:
    """A model; inputs and outputs are f32 of a shape (None: of any), or `(element type, shape)`."""
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [_info(name, kind) for name, kind in inputs.items()],
        [_info(name, kind) for name, kind in outputs.items()],
        [
            onnx.numpy_helper.from_array(np.asarray(array), name)
            for name, array in (stored or {}).items()
        ],
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8, **more
    )


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node whose inputs and outputs are words; `_` stands for one that is left out."""
    given, found = (["" if w == "_" else w for w in words.split()] for words in (inputs, outputs))
    return onnx.helper.make_node(operator, given, found, **attributes)


def _info(name: str, kind: Any) -> Any:
    element, shape = (
        kind
        if isinstance(kind, tuple) and len(kind) == 2 and isinstance(kind[1], (tuple, type(None)))
        else (onnx.TensorProto.FLOAT, kind)
    )
    return onnx.helper.make_tensor_value_info(name, element, shape)


def convolutional(size: Any = 8) -> Any:
    """A convolution with a batch normalization, a pooling and a product."""
    rng = np.random.default_rng(0)
    stored = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in {"w": (4, 3, 3, 3), "b": (4,), "s": (4,), "m": (4,), "d": (5, 4)}.items()
    }
    stored |= {"v": rng.uniform(0.5, 2, 4).astype(np.float32), "shape": np.array([0, -1])}
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c s b m v", "n"),
        node("Relu", "n", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Reshape", "p shape", "f"),
        node("Gemm", "f d", "y", transB=1),
    ]
    return model(
        nodes,
        {"x": ("N", 3, size, size) if isinstance(size, str) else (1, 3, size, size)},
        {"y": None},
        stored,
    )


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
