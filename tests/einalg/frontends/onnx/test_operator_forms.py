"""Forms of single operators that the node cases of onnx lack: older ones, and those at the limits of
the language; against onnxruntime, or against onnx's evaluator where that does not have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from einalg.errors import EinalgError
from einalg.frontends.onnx import load

onnx = pytest.importorskip("onnx", reason="these are models of the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="it is what they are compared with")

from onnx.reference import ReferenceEvaluator  # noqa: E402

from tests.helpers.onnx_models import OPSET, model, node  # noqa: E402

# A loss of NumPy's own, in onnx's evaluator.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def floats(*shape: int) -> Any:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


X = floats(2, 4, 6)
IMAGE = floats(1, 4, 5, 7)
SCALES = np.array([1, 1, 2, 1.5], np.float32)
PADS = [0, -1, 2, 0, 2, -1]
FILTER = {"w": floats(3, 4, 1, 1)}


@dataclass(frozen=True)
class Form:
    """A model of one node, values of its inputs, and why it stays a call, where it does."""

    model: Any
    inputs: dict[str, Any]
    why: str

    def results(self) -> list[Any]:
        graph: Any = load(self.model)
        assert [call.why for call in graph.opaque] == [self.why] * bool(self.why)
        return graph(*self.inputs.values())

    def check(self, expected: list[Any]) -> None:
        for result, wanted in zip(self.results(), expected, strict=True):
            assert result.shape == wanted.shape and result.dtype == wanted.dtype
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def form(
    operator: str,
    inputs: Any,
    stored: dict[str, Any] | None = None,
    why: str = "",
    opset: int = OPSET,
    order: str = "",
    outputs: str = "y",
    kind: Any = np.float32,
    **attributes: Any,
) -> Form:
    """Return a node of inputs (of x alone) and stored arrays, in the given order or in theirs."""
    if not isinstance(inputs, dict):
        inputs = {"x": inputs}
    stored = {name: np.asarray(array) for name, array in (stored or {}).items()}
    kinds = {name: (_element(array.dtype), array.shape) for name, array in inputs.items()}
    results = {name: (_element(np.dtype(kind)), None) for name in outputs.split()}
    words = order or " ".join([*inputs, *stored])
    nodes = [node(operator, words, outputs, **attributes)]
    return Form(model(nodes, kinds, results, stored, opset), inputs, why)


def _element(dtype: Any) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(dtype)


def resized(scales: Any = SCALES, why: str = "", **attributes: Any) -> Form:
    stored = {"scales": np.float32(scales)}
    return form("Resize", IMAGE, stored, why, order="x _ scales", **attributes)


def layer(operator: str, steps: int = 5, why: str = "", order: str = "", **attributes: Any) -> Form:
    """Return a recurrent layer of 3 numbers for each of two sequences."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    stored = {
        "w": floats(1, 3 * gates, 2),
        "r": floats(1, 3 * gates, 3),
        "b": floats(1, 6 * gates),
        "lengths": np.array([5, 4], np.int32),
        "all": np.array([5, 5], np.int32),
        "h": floats(1, 2, 3),
        "hb": floats(2, 1, 3),
        "c": floats(1, 2, 3),
        "p": floats(1, 9),
    }
    order = order or "x w r b"
    read = {name: array for name, array in stored.items() if name in order.split()}
    attributes.setdefault("hidden_size", 3)
    return form(operator, floats(steps, 2, 2), read, why, order=order, **attributes)


def constant(element: Any) -> Form:
    """Return an array of one element that is too large to be computed ahead."""
    value = onnx.numpy_helper.from_array(np.asarray([element]))
    return form("ConstantOfShape", {}, {"s": [130, 140]}, kind=element.dtype, value=value)


RUN = {  # by onnxruntime
    # Convolutions and poolings.
    "conv, no padding": form("Conv", IMAGE, FILTER, auto_pad="VALID"),
    "conv, far strides": form(
        "Conv",
        IMAGE,
        FILTER,
        "attribute strides is (2, 131072), larger than any window",
        strides=[2, 2**17],
    ),
    "conv, farther strides": form(
        "Conv",
        IMAGE,
        FILTER,
        f"attribute strides has the value [2, {2**32}]",
        strides=[2, 2**32],
    ),
    "conv, 4 axes": form(
        "Conv", X[None, None, None], {"w": floats(3, 1, 1, 1, 1, 1)}, "4 axes of space"
    ),
    "average of part of a window": form(
        "AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 3], ceil_mode=1, count_include_pad=1
    ),
    "norm of part of a window": form(
        "LpPool", IMAGE, kernel_shape=[2, 2], strides=[2, 3], ceil_mode=1
    ),
    **{
        f"{operator}, a last window behind the data": form(
            operator,
            IMAGE,
            opset=18,
            kernel_shape=[3, 4],
            strides=[3, 2],
            pads=[1, 3, 1, 2],
            ceil_mode=1,
        )
        for operator in ("AveragePool", "LpPool", "MaxPool")
    },
    "norm of order 0": form(
        "LpPool", IMAGE, why="a norm of order 0", kernel_shape=[2, 2], p=0, strides=[3, 3]
    ),
    "norm of all": form("GlobalLpPool", IMAGE, p=3),
    "average of all": form("GlobalAveragePool", IMAGE),
    # Normalizations.
    "softmax of all axes from one on": form("Softmax", X, opset=11),
    "softmax of the last axis": form("LogSoftmax", X, opset=11, axis=2),
    "group normalization": form(
        "GroupNormalization", IMAGE, {"s": floats(2), "b": floats(2)}, num_groups=2
    ),
    "layer normalization, a scale of fewer axes": form(
        "LayerNormalization", X, {"s": floats(6)}, axis=1
    ),
    "layer normalization, a bias of fewer axes": form(
        "LayerNormalization", X, {"s": floats(4, 1), "b": floats(6)}, axis=1
    ),
    # Sizes.
    "resize to the same size": resized(np.ones(4)),
    "resize, positions of TensorFlow": resized(
        opset=13, coordinate_transformation_mode="tf_half_pixel_for_nn"
    ),
    "resize 10": form("Resize", IMAGE, {"scales": SCALES}, opset=10),
    "upsample 7": form("Upsample", IMAGE, opset=7, scales=[1.0, 1.0, 2.0, 3.0]),
    # Recurrent layers.
    "lstm, clipped": layer("LSTM", clip=0.5),
    "gru, clipped": layer("GRU", clip=0.5),
    "rnn, a state before": layer("RNN", order="x w r b all h"),
    "lstm, one gate for two": layer("LSTM", input_forget=1),
    "lstm, states and peepholes": layer("LSTM", order="x w r b all h c p"),
    "gru, reset after": layer("GRU", linear_before_reset=1),
    "rnn, another function": layer("RNN", activations=["Relu"]),
    "rnn, an unknown function": layer(
        "RNN", why="the activation affine", activations=["Affine"], activation_alpha=[0.5]
    ),
    "sequences of different lengths": layer(
        "RNN", why="sequences of different lengths", order="x w r b lengths"
    ),
    # Functions.
    "clip 6": form("Clip", X, opset=6, min=-0.5, max=0.25),
    "clip 6, below": form("Clip", X, opset=6, min=-0.5),
    "celu of 0": form("Celu", X, why="alpha is 0, by which nothing can be divided", alpha=0.0),
    "infinite numbers of no sign": form(
        "IsInf",
        X,
        why="a test that nothing passes",
        kind=np.bool_,
        detect_positive=0,
        detect_negative=0,
    ),
    "gemm of two": form("Gemm", {"a": floats(3, 4), "b": floats(4, 5)}, alpha=2.0),
    "gemm of two as they are": form("Gemm", {"a": floats(3, 4), "b": floats(4, 5)}),
    "squares of no axes": form(
        "ReduceSumSquare", X, {"axes": np.zeros(0, np.int64)}, noop_with_empty_axes=1
    ),
    "sum over no axes": form(
        "ReduceSum", X, {"axes": np.zeros(0, np.int64)}, noop_with_empty_axes=1
    ),
    # Shapes.
    "concat of nothing": form("Concat", {"a": floats(2, 0), "b": floats(2, 0)}, axis=1),
    "split in one": form("Split", X, num_outputs=1),
    "slice 9": form("Slice", X, opset=9, starts=[1, -3], ends=[2, 2**62], axes=[0, 2]),
    "slice beyond the first": form(
        "Slice", X, {"starts": [-1], "ends": [-100], "axes": [2], "steps": [-2]}
    ),
    "pad 10": form("Pad", X, opset=10, pads=[0, 1, 2, 0, 0, 1], value=1.5),
    "pad and cut": form("Pad", X, {"pads": PADS}),
    "pad and cut, with the last elements": form("Pad", X, {"pads": PADS}, mode="edge"),
    "pad with no number": form(
        "Pad", X, {"pads": PADS, "v": np.float32("nan")}, "a padding of no number"
    ),
    "flatten before the end": form("Flatten", X, axis=3),
    "reshape 1": form("Reshape", X, opset=1, shape=[0, -1]),
    "many integers": constant(np.int32(3)),
    "many of no number": constant(np.float32("nan")),
    "much truth": constant(np.bool_(True)),
    "many in a row": form("Range", {}, {"a": 1, "b": 20000, "c": 1}, kind=np.int64),
    "range": form("Range", {}, {"a": 1, "b": 8, "c": 3}, kind=np.int64),
}
EVALUATED = {  # by onnx
    "sum of bytes": form(
        "Add",
        {"a": np.array([100, -3], np.int8), "b": np.array([100, 5], np.int8)},
        why="integers of 8 and 16 bits wrap round where they are too large",
        kind=np.int8,
    ),
    "largest byte": form(
        "ReduceMax", np.array([[100, -3]], np.int8), {"axes": [1]}, kind=np.int8, keepdims=0
    ),
    "power": form("Pow", {"a": np.abs(X), "b": X}),
    "whole power": form("Pow", {"a": X, "b": np.arange(6)}),
    "conv, unknown padding": form(
        "Conv", IMAGE, FILTER, "attribute auto_pad is 'SOME'", auto_pad="SOME"
    ),
    "rms normalization, a scale of fewer axes": form(
        "RMSNormalization", X, {"s": floats(6)}, opset=23, axis=1
    ),
    "rnn, states by batch": layer("RNN", steps=2, order="x w r b _ hb", layout=1),
    "norm of order 3": form("LpNormalization", X, why="a norm of order 3", p=3),
    "choice of truth": form(
        "Where", {"c": X[0] > 0, "a": X[1] > 0.5, "b": X[1] < 0}, kind=np.bool_
    ),
    "one hot of floats": form(
        "OneHot", floats(3), {"d": 4, "v": np.array([0, 1], np.float32)}, "depth 4 of f32 indices"
    ),
    "one hot of naturals": form(
        "OneHot", np.array([1, 2, 9], np.uint8), {"d": 4, "v": np.array([0, 1], np.float32)}
    ),
    "eye of truth": form(
        "EyeLike",
        floats(2, 3),
        why="not a matrix of numbers of known shape",
        dtype=9,
        kind=np.bool_,
    ),
    "floor of integers": form("Floor", np.arange(-3, 5), kind=np.int64),
    "maximum of a matrix": form("GlobalMaxPool", X[0], why="no axes of space"),
    "resize to nothing": resized([1, 1, 2, 0], "a size of 0"),
    "slice, too few ends": form(
        "Slice",
        X,
        {"starts": [1, 1], "ends": [1]},
        "starts, ends, axes and steps are not equally many",
    ),
    "rnn, too few functions": layer("LSTM", why="the activation is missing", activations=["Tanh"]),
}
DAMAGED = {
    "conv, too few strides": form(
        "Conv",
        IMAGE,
        FILTER,
        "attribute strides has 1 entries, and there are 2 axes of space",
        strides=[2],
    ),
    "transposed conv, too much room": form(
        "ConvTranspose",
        IMAGE,
        {"w": floats(4, 3, 3, 3)},
        "conv_transpose2d: output_padding is 2 on axis H; it must be less than stride 2 or "
        "dilation 1",
        strides=[2, 2],
        output_padding=[2, 0],
    ),
    "resize, unknown rounding": resized(
        why="attribute nearest_mode is 'round'", nearest_mode="round"
    ),
    "resize, too few scales": resized([1, 1, 2], "3 scales for 4 axes"),
    "resize, unknown policy": form(
        "Resize",
        IMAGE,
        {"sizes": [1, 4, 2, 3]},
        "attribute keep_aspect_ratio_policy is 'least'",
        order="x _ _ sizes",
        keep_aspect_ratio_policy="least",
    ),
    "split, too few sizes": form(
        "Split", X, {"s": [1, 1]}, "2 sizes for 3 outputs", outputs="y z t"
    ),
    "slice 9, no ends": form("Slice", X, why="attribute ends is None", opset=9, starts=[1]),
    "slice 9, one end": form("Slice", X, why="attribute ends is 2", opset=9, starts=[1], ends=2),
    "range of steps of 0": form(
        "Range", {}, {"a": np.float32(1), "b": np.float32(5), "c": np.float32(0)}, "a step of 0"
    ),
    "response of no channels": form("LRN", X, why="0 channels", size=0),
    "elu, no number": form("Elu", X, why="attribute alpha is b'a', which it cannot be", alpha="a"),
    "reshape, no integers": form(
        "Reshape", X, {"s": np.array([6, 8], np.float32)}, "shape is not a list of integers"
    ),
    "rnn, unknown direction": layer("RNN", why="weights that do not fit", direction="up"),
    "rotation of no heads": form(
        "RotaryEmbedding",
        X,
        {"cosines": floats(2, 4, 3), "sines": floats(2, 4, 3)},
        "0 heads for 6 features",
        opset=23,
    ),
}


@pytest.mark.parametrize("name", RUN)
def test_forms_that_onnxruntime_has(name: str) -> None:
    content = RUN[name].model.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    RUN[name].check(session.run(None, RUN[name].inputs))


@pytest.mark.parametrize(
    "axis, shape, aligned",
    [(None, (4, 6), (4, 6)), (0, (2, 4), (2, 4, 1)), (1, (4,), (4, 1)), (-2, (4, 6), (4, 6))],
)
def test_operands_of_fewer_axes_in_older_operator_sets(
    axis: int | None, shape: tuple[int, ...], aligned: tuple[int, ...]
) -> None:
    """Their axes are the last ones, or those from `axis` on."""
    attributes: dict[str, Any] = {"broadcast": 1}
    if axis is not None:
        attributes["axis"] = axis
    less = floats(*shape)
    older = form("Sub", {"a": X, "b": less}, opset=6, **attributes)
    older.check([X - less.reshape(aligned)])


@pytest.mark.parametrize("name", EVALUATED)
def test_forms_that_onnx_has(name: str) -> None:
    evaluator: Any = ReferenceEvaluator(EVALUATED[name].model)
    EVALUATED[name].check(evaluator.run(None, EVALUATED[name].inputs))


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_nodes_stay_calls_that_cannot_be_computed(name: str) -> None:
    with pytest.raises(EinalgError, match=r"could not be computed: [^$]*\n  give other inputs"):
        DAMAGED[name].results()
