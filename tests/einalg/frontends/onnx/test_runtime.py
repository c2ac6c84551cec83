"""ONNX models as graphs where onnxruntime has other values than the package onnx, or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from einalg.frontends.onnx import load
from einalg.frontends.onnx.nodes import session

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


@pytest.mark.parametrize("operator", ["LpPool", "MaxPool", "AveragePool"])
@pytest.mark.parametrize("kind", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("sizes", [(7, 5), (4, 6)])
def test_dilated_poolings_of_the_same_size(
    operator: str, kind: str, sizes: tuple[int, int]
) -> None:
    """The runtime pads them for windows that are not dilated, and ONNX says otherwise."""
    attributes = {"kernel_shape": [1, 3], "strides": [1, 3], "dilations": [1, 2]}
    made = model(
        [node(operator, "x", "y", auto_pad=kind, **attributes)],
        {"x": (1, 2, *sizes)},
        {"y": None},
        opset=19,
    )
    x = np.random.default_rng(0).standard_normal((1, 2, *sizes)).astype(np.float32)
    np.testing.assert_allclose(load(made)(x)[0], of_runtime(made, {"x": x})[0], rtol=1e-5)


def test_constants_of_an_activation_are_those_of_the_standard() -> None:
    """Single-precision numbers, whatever the elements are."""
    kind = onnx.TensorProto.DOUBLE
    made = model([node("Selu", "x", "y")], {"x": (kind, (3,))}, {"y": (kind, (3,))})
    x = np.array([-1.5, 0.5, 2.0])
    alpha, gamma = np.float64(np.float32(1.6732632)), np.float64(np.float32(1.0507010))
    expected = gamma * np.where(x > 0, x, alpha * (np.exp(x) - 1))
    np.testing.assert_allclose(load(made)(x)[0], expected, rtol=1e-12)


@pytest.mark.parametrize(("threads", "expected"), [("1", 1), ("3", 3), ("4", 0), ("99", 0)])
def test_sessions_have_no_more_threads_than_generated_code(
    monkeypatch: pytest.MonkeyPatch, threads: str, expected: int
) -> None:
    """A runtime with more would be faster than code that has one, and wait on cores of others."""
    numbers: list[int] = []
    inference_session = onnxruntime.InferenceSession

    def observed(content: bytes, options: Any, **named: Any) -> Any:
        numbers.append(options.intra_op_num_threads)
        return inference_session(content, options, **named)

    monkeypatch.setattr(onnxruntime, "InferenceSession", observed)
    monkeypatch.setattr(session, "core_count", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    made = model([node("Det", "x", "y")], {"x": (2, 2)}, {"y": None})
    x = np.array([[1, 2], [3, 5]], np.float32)
    graph = load(made)
    assert graph.opaque
    for y in (graph(x)[0], session.session(made)({"x": x})[0]):
        np.testing.assert_allclose(y, -1, rtol=1e-5)
    assert numbers == [expected, expected]
