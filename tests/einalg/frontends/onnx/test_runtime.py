"""ONNX models as graphs where onnxruntime has other values than the package onnx, or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from einalg.frontends.onnx import load

onnx = pytest.importorskip("onnx", reason="these are models of the package onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="the values are those of onnxruntime")

from tests.helpers.onnx_models import model, node  # noqa: E402


def of_runtime(made: Any, arrays: dict[str, Any]) -> list[Any]:
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=providers)
    return session.run(None, arrays)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("scales", [(1.7, 2.3), (0.6, 0.41), (1, 1.9), (0.25, 3.3), (2.5, 1)])
def test_corners_are_aligned_where_scales_give_no_whole_sizes(
    mode: str, scales: tuple[float, float]
) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    made = model(
        [node("Resize", "x _ scales", "y", **attributes)],
        {"x": (1, 2, 5, 7)},
        {"y": None},
        {"scales": np.array([1, 1, *scales], "f")},
        opset=18,
    )
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 7)).astype(np.float32)
    graph = load(made)
    assert not graph.opaque
    np.testing.assert_allclose(graph(x)[0], of_runtime(made, {"x": x})[0], atol=1e-5)


def loop(results: list[str], read: str) -> Any:
    """`n` steps of `a = a + x`, and the squares of all `a`, of which one is an output."""

    def info(name: str, kind: int, shape: Any) -> Any:
        return onnx.helper.make_tensor_value_info(name, kind, shape)

    kinds = onnx.TensorProto
    body = onnx.helper.make_graph(
        [
            node("Add", "a x", "b"),
            node("Mul", "b b", "square"),
            node("Identity", "again", "go_on"),
        ],
        "body",
        [
            info("step", kinds.INT64, ()),
            info("again", kinds.BOOL, ()),
            info("a", kinds.FLOAT, (3,)),
        ],
        [
            info("go_on", kinds.BOOL, ()),
            info("b", kinds.FLOAT, (3,)),
            info("square", kinds.FLOAT, (3,)),
        ],
    )
    steps = onnx.helper.make_node("Loop", ["n", "", "start"], results, body=body)
    inputs = {"x": (3,), "start": (3,), "n": (kinds.INT64, ())}
    return model([steps, node("Neg", read, "z")], inputs, {"z": None}, opset=18)


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("read", ["y", "squares"])
def test_a_loop_of_which_one_result_is_read(read: str, count: int) -> None:
    """The runtime refuses a result of a loop that has no name."""
    made = loop(["y", "squares"], read)
    arrays = {
        "x": np.array([1, 2, 3], "f"),
        "start": np.array([0, 1, 0], "f"),
        "n": np.array(count),
    }
    found, expected = load(made)(*arrays.values()), of_runtime(made, arrays)
    np.testing.assert_array_equal(found[0], expected[0])
