"""Operators of ONNX on NaN, infinities and zeros: einalg computes what ONNX Runtime does.

Its maxima over an axis pass over a NaN, depending on the place, and its recurrent layers with a
bias have numbers for one: there einalg computes what ONNX defines, or, where NaNs and infinities
are to be exact, these operators stay ONNX Runtime's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import einalg as ea

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from tests.helpers.onnx_models import model, node  # noqa: E402

NAN, INF = math.nan, math.inf
SPECIAL = np.array([1, NAN, INF, -INF, -2, 0, 0.5, 2.5, -2.5, 1e20, -1e20, 7, -7], np.float32)
OTHER = np.array([NAN, 1, 3, INF, -INF, 2, 0.25, -1.5, INF, 3, 7, -3, 0.1], np.float32)
FLOAT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL


def values(
    made: Any, arrays: dict[str, Any], example: dict[str, Any], nonfinite: str = "spread"
) -> tuple[Any, Any]:
    """What einalg computes, optimized for an example, and what ONNX Runtime does."""
    optimized = ea.optimize(made, example, seconds=0, prefer="einalg", nonfinite=nonfinite)
    results = optimized(*arrays.values())
    session = onnxruntime.InferenceSession(made.SerializeToString())
    expected = session.run(None, arrays)
    if len(expected) == 1 and not isinstance(results, (tuple, list)):
        results = (results,)
    return results, expected


ELEMENTS = """Relu Sign Round Floor Ceil Abs LeakyRelu HardSigmoid Sigmoid Softplus Softsign Elu Celu
    ThresholdedRelu Shrink HardSwish Tanh Erf Exp Sqrt IsNaN IsInf""".split()  # noqa: SIM905
PAIRS = "Max Min PRelu Mod Equal Less".split()  # noqa: SIM905


def test_functions_of_elements() -> None:
    nodes, outputs = [], {}
    for operator in ELEMENTS:
        nodes.append(node(operator, "x", f"y_{operator}"))
        outputs[f"y_{operator}"] = None
        if operator in ("IsNaN", "IsInf"):
            outputs[f"y_{operator}"] = (BOOL, None)
    for operator in PAIRS:
        attributes = {"fmod": 1} if operator == "Mod" else {}
        nodes.append(node(operator, "x z", f"y_{operator}", **attributes))
        outputs[f"y_{operator}"] = None
        if operator in ("Equal", "Less"):
            outputs[f"y_{operator}"] = (BOOL, None)
    nodes += [node("Equal", "x x", "same"), node("Where", "same x zero", "y_where")]
    outputs["y_where"] = None
    inputs = {"x": SPECIAL.shape, "z": OTHER.shape}
    made = model(nodes, inputs, outputs, {"zero": np.float32(0)}, opset=20)
    ordinary = np.linspace(0.5, 1.5, SPECIAL.size, dtype=np.float32)
    results, expected = values(
        made, {"x": SPECIAL, "z": OTHER}, {"x": ordinary, "z": ordinary + 0.25}
    )
    for name, found, right in zip(outputs, results, expected, strict=True):
        assert np.allclose(found, right, rtol=1e-4, atol=1e-6, equal_nan=True), (name, right, found)


def test_reductions() -> None:
    nodes = [
        node("ReduceMax", "x axis", "largest", keepdims=0),
        node("ReduceMin", "x axis", "smallest", keepdims=0),
        node("ArgMax", "x", "place", axis=1, keepdims=0),
        node("ReduceLogSumExp", "x axis", "logarithm", keepdims=0),
    ]
    outputs = {
        "largest": None,
        "smallest": None,
        "place": (onnx.TensorProto.INT64, None),
        "logarithm": None,
    }
    rows = np.array([[1, 2, NAN], [NAN, 1, 2], [1, INF, 3], [-INF, -INF, -INF], [1, 2, 3]])
    rows = rows.astype(np.float32)
    made = model(nodes, {"x": rows.shape}, outputs, {"axis": np.array([1])})
    ordinary = np.arange(15, dtype=np.float32).reshape(rows.shape)
    results, expected = values(made, {"x": rows}, {"x": ordinary}, "exact")
    for name, found, right in zip(outputs, results, expected, strict=True):
        assert np.allclose(found, right, equal_nan=True), name


@pytest.mark.parametrize("nonfinite", ["spread", "exact"])
def test_nans_that_the_runtime_loses(nonfinite: str) -> None:
    """A layer for which ONNX Runtime has numbers where it reads a NaN, and ONNX defines NaN."""
    draw = np.random.default_rng(0)
    shapes = {"w": (1, 8, 3), "r": (1, 8, 2), "b": (1, 16)}
    stored = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    layer = node("LSTM", "x w r b", "y", hidden_size=2)
    made = model([layer, node("Abs", "y", "z")], {"x": (2, 1, 3)}, {"z": None}, stored)
    x = draw.normal(size=(2, 1, 3)).astype(np.float32)
    optimized = ea.optimize(made, {"x": x}, seconds=0, prefer="einalg", nonfinite=nonfinite)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    np.testing.assert_allclose(optimized(x), session.run(None, {"x": x})[0], rtol=1e-4)
    x[0, 0, 1] = NAN
    by_runtime = session.run(None, {"x": x})[0]
    if np.isnan(by_runtime).all():
        pytest.skip("this ONNX Runtime loses no NaN")
    if nonfinite == "exact":
        np.testing.assert_allclose(optimized(x), by_runtime, rtol=1e-4)
        assert [call.operator for call in optimized.opaque] == ["LSTM"]
    else:
        assert np.isnan(optimized(x)).all() and not optimized.opaque
        assert "LSTM: on one NaN, onnxruntime deviates from ONNX" in " ".join(
            str(optimized.report).split()
        )


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_integers(dtype: Any, fmod: int) -> None:
    x, z = (np.array(numbers, dtype) for numbers in ([7, -7, 7, -7, 0], [3, 3, -3, -3, 5]))
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = {"x": (kind, x.shape), "z": (kind, z.shape)}
    made = model([node("Mod", "x z", "y", fmod=fmod)], inputs, {"y": (kind, None)})
    results, expected = values(made, {"x": x, "z": z}, {"x": x, "z": z})
    assert np.array_equal(results[0], expected[0])


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("kind", [FLOAT, BOOL])
def test_a_query_that_sees_nothing_gives_0(kind: int, causal: int) -> None:
    draw = np.random.default_rng(0)
    q, k, v = (draw.normal(size=(1, 2, 3, 4)).astype(np.float32) for _ in range(3))
    seen = np.array([[1, 1, 1], [0, 0, 1], [0, 0, 0]], np.bool_)
    mask = seen
    if kind == FLOAT:
        mask = np.where(seen, 0, -INF).astype(np.float32)
    inputs = dict.fromkeys("qkv", q.shape) | {"m": (kind, mask.shape)}
    made = model(
        [node("Attention", "q k v m", "y", is_causal=causal)], inputs, {"y": None}, opset=23
    )
    arrays = {"q": q, "k": k, "v": v, "m": mask}
    try:
        onnxruntime.InferenceSession(made.SerializeToString())
    except Exception as error:  # an older runtime has no such operator
        pytest.skip(str(error)[:80])
    results, expected = values(made, arrays, arrays | {"m": np.ones_like(mask)})
    assert np.allclose(results[0], expected[0], atol=1e-5, equal_nan=True)
