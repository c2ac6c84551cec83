"""Torch's values of a node, as it computes them in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.fx import Graph  # noqa: E402

from einalg.frontends.torch.framework_values import values_in_f64  # noqa: E402

ROW = np.array([1e30, -2, np.inf, 3e30], np.float32)
ATEN = torch.ops.aten


def in_f64(target: Any, x: Any) -> dict[str, Any]:
    """Return what an operator has in f64 of an array and a weight of twos, as the value y."""
    graph = Graph()
    first, weight = graph.placeholder("a"), graph.placeholder("w")
    node = graph.call_function(target, (first, weight))
    compute = values_in_f64(
        graph, lambda node: torch.full((4,), 2.0), {first: "x", weight: "w", node: "y"}
    )
    return dict(compute(node.name, {"x": x, "y": np.zeros(4, np.float32)}))


def test_a_node_is_computed_in_f64_in_the_types_of_its_values() -> None:
    length = in_f64(ATEN.hypot.default, ROW)["y"]
    assert length.dtype == np.float32
    np.testing.assert_array_equal(length, np.hypot(ROW.astype(float), 2.0).astype(np.float32))
    assert np.isinf(in_f64(ATEN.pow.Tensor_Tensor, ROW)["y"][[0, 2, 3]]).all()


def test_what_torch_refuses_in_f64_has_no_results() -> None:
    assert not in_f64(ATEN.bitwise_and.Tensor, ROW)
