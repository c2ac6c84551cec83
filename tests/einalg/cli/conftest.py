"""Every test of the command line has a cache folder of its own; some have the file of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def product_file(tmp_path: Path) -> str:
    """The ONNX file of a product of `x` of N rows with weights of 32x32, which gives `y`."""
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    weight = h.make_tensor("w", 1, [32, 32], np.ones(1024, "f4").tolist())
    graph = h.make_graph(
        [h.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", 1, ["N", 32])],
        [h.make_tensor_value_info("y", 1, ["N", 32])],
        [weight],
    )
    path = str(tmp_path / "m.onnx")
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path
