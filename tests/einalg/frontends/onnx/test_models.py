"""ONNX models as graphs: against onnxruntime's and onnx's own values."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.errors import EinalgError, NotationError, RecordError, ShapeError
from einalg.frontends import import_cache
from einalg.frontends.graph import ProgramNode
from einalg.frontends.onnx import importer, load

onnx = pytest.importorskip("onnx", reason="these are models of the package onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

from tests.helpers.onnx_models import branches, convolutional, model, node  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def same_as_onnx(
    made: Any,
    *arrays: Any,
    known: dict[str, Any] | None = None,
    shapes: dict[str, Any] | None = None,
) -> Any:
    """The graph of a model, whose values are those of onnx's evaluator."""
    graph = load(made, shapes, known)
    names = [i.name for i in made.graph.input if i.name not in (known or {})]
    expected = ReferenceEvaluator(made).run(None, {**dict(zip(names, arrays)), **(known or {})})
    for found, wanted in zip(graph(*arrays), expected, strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    return graph


def floats(*shape: int) -> Any:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def test_a_convolutional_model() -> None:
    graph = same_as_onnx(convolutional(), floats(1, 3, 8, 8))
    assert not graph.opaque and {"w", "m", "d"} <= set(graph.weights)
    assert len(graph.merged().nodes) == 1


def test_sizes_with_names() -> None:
    made = convolutional("size")
    with pytest.raises(ShapeError, match=r"\(N, 3, size, size\), of which N, size is not known"):
        load(made)
    for shapes in ({"x": (2, 3, 5, 5)}, {"x": floats(2, 3, 5, 5)}, {"N": 2, "size": 5}):
        assert load(made, shapes).inputs[0].shape == (2, 3, 5, 5)
    with pytest.raises(ShapeError, match="size 3 on axis 1, and 4 is given"):
        load(made, {"x": (2, 4, 5, 5)})
    with pytest.raises(ShapeError, match="has 4 axes"):
        load(made, {"x": (2, 4)})
    with pytest.raises(NotationError, match="no input z; its inputs are x"):
        load(made, {"z": (2, 4)})


def test_shape_arithmetic_is_computed() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n first", "n1"),
        node("Concat", "n1 minus", "to", axis=0),
        node("Reshape", "x to", "y"),
    ]
    stored = {"zero": np.array(0), "first": np.array([0]), "minus": np.array([-1])}
    graph = same_as_onnx(model(nodes, {"x": (3, 4, 5)}, {"y": None}, stored), floats(3, 4, 5))
    assert [n.operator for n in graph.nodes] == ["Reshape"]


@pytest.mark.parametrize("coefficient", [-0.75, -0.5, 0.0, 0.5, 1.25])
def test_cubics_of_any_coefficient(coefficient: float) -> None:
    nodes = [node("Resize", "x _ scales", "y", mode="cubic", cubic_coeff_a=coefficient)]
    graph = same_as_onnx(
        model(
            nodes,
            {"x": (1, 2, 5, 7)},
            {"y": None},
            {"scales": np.array([1, 1, 2, 1.5], np.float32)},
        ),
        floats(1, 2, 5, 7),
    )
    assert not graph.opaque


@pytest.mark.parametrize(
    "kind, pads",
    [("NOTSET", [2, 1, 1, 0]), ("SAME_LOWER", [2, 1, 1, 0]), ("SAME_UPPER", [1, 0, 2, 1])],
)
def test_the_larger_half_of_a_padding_that_follows_from_a_shape(kind: str, pads: list[int]) -> None:
    """Which onnx's evaluator does not compute for `NOTSET`."""
    x, stored = floats(1, 2, 4, 4), {"w": floats(2, 3, 4, 3)}
    found, expected = (
        load(
            model(
                [node("ConvTranspose", "x w", "y", strides=[2, 2], **given)],
                {"x": (1, 2, 4, 4)},
                {"y": None},
                stored,
            )
        )(x)[0]
        for given in ({"output_shape": [7, 8], "auto_pad": kind}, {"pads": pads})
    )
    np.testing.assert_array_equal(found, expected)


def test_a_model_that_takes_long_is_read_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While its operators, its stored tensors and what is known of its inputs are the same."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(import_cache, "MIN_CACHED_STATEMENTS", 0)
    read = []
    run = importer.OnnxImporter.run
    monkeypatch.setattr(
        importer.OnnxImporter, "run", lambda self, *given: read.append(1) or run(self, *given)
    )

    def made(factor: float = 1.0, operator: str = "Add") -> Any:
        nodes = [
            node("MatMul", "x w", "m"),
            node("Relu", "m", "r"),
            node(operator, "r size", "s"),
            node("Reshape", "s to", "y"),
        ]
        stored = {"w": factor * floats(4, 6), "size": np.float32(3), "to": np.array([2, -1])}
        return model(nodes, {"x": ("N", 4), "k": (2,)}, {"y": None, "k": None}, stored)

    x, k = floats(6, 4), floats(2)
    first = same_as_onnx(made(), x, k, shapes={"N": 6})
    for given, shapes, known in (
        (made(), 6, None),
        (made(2.0), 6, None),
        (made(operator="Mul"), 6, None),
        (made(), 4, None),
        (made(), 6, {"k": k}),
    ):
        read.clear()
        arrays = x[:shapes], *(() if known else (k,))
        again = same_as_onnx(given, *arrays, shapes={"N": shapes}, known=known)
        again_read = bool(read)
        assert again_read == (
            given.SerializeToString() != made().SerializeToString()
            or shapes != 6
            or known is not None
        )
        assert again.names == ((first.names[0][: len(arrays)]), first.names[1])


def test_unknown_operators_stay_calls() -> None:
    nodes = [node("Exp", "x", "e"), node("TopK", "e k", "v i"), node("Neg", "v", "y")]
    graph = same_as_onnx(
        model(
            nodes,
            {"x": (3, 7)},
            {"y": None, "i": (onnx.TensorProto.INT64, None)},
            {"k": np.array([2])},
        ),
        floats(3, 7),
    )
    assert [n.operator for n in graph.opaque] == ["TopK"] and "no definition" in graph.opaque[0].why
    assert isinstance(graph.nodes[-1], ProgramNode)
    call = pickle.loads(pickle.dumps(graph.opaque[0].call))
    assert np.array_equal(call(floats(3, 7))[1], graph.opaque[0].call(floats(3, 7))[1])


def test_sizes_that_are_known_at_run_time_only() -> None:
    nodes = [node("NonZero", "x", "n"), node("Transpose", "n", "t"), node("Shape", "t", "y")]
    graph = load(model(nodes, {"x": (4, 5)}, {"y": (onnx.TensorProto.INT64, None)}))
    assert [n.operator for n in graph.opaque] == ["NonZero", "Transpose", "Shape"]
    assert "known at run time only" in graph.opaque[1].why
    assert graph(np.eye(4, 5))[0].tolist() == [4, 2]


@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_that_is_known_chooses_its_branch(condition: bool) -> None:
    assert [
        n.operator for n in same_as_onnx(branches({"c": np.array(condition)}), floats(3)).nodes
    ] == ["Exp" if condition else "Neg"]
    graph = same_as_onnx(branches({}), floats(3), known={"c": np.array(condition)})
    assert not graph.opaque and len(graph.inputs) == 1


def test_another_condition_stays_a_call_that_reads_what_its_branches_read() -> None:
    graph = same_as_onnx(branches({}), floats(3), np.array(True))
    assert graph.opaque[0].inputs == ("c", "x")


@pytest.mark.parametrize(
    ("operator", "numbers", "expected"),
    [("ReduceLogSum", [3, 5, 7, 1, 2], 2), ("ReduceLogSumExp", [3, 3], 3), ("ReduceL2", [3, 5], 5)],
)
def test_functions_of_integers_give_integers(
    operator: str, numbers: list[int], expected: int
) -> None:
    """Also where what ONNX defines the operator by, read as it stands, would give floats."""
    kind = onnx.TensorProto.INT32
    nodes = [node(operator, "x", "y", keepdims=0)]
    x = np.array(numbers, np.int32)
    (result,) = load(model(nodes, {"x": (kind, x.shape)}, {"y": (kind, ())}), {"x": x})(x)
    assert result.dtype == np.int32 and result == expected


def test_functions_of_the_model_are_written_out() -> None:
    body = [
        node("Exp", "a", "e"),
        node("Mul", "e b", "m"),
        onnx.helper.make_node("LeakyRelu", ["m"], ["o"]),
    ]
    body[2].attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    opsets = [onnx.helper.make_opsetid("", 18)]
    function = onnx.helper.make_function("own", "F", ["a", "b"], ["o"], body, opsets, ["slope"])
    made = model(
        [node("F", "x x", "y", domain="own", slope=0.5)],
        {"x": (4,)},
        {"y": None},
        functions=[function],
    )
    made.opset_import.append(onnx.helper.make_opsetid("own", 1))
    graph, x = load(made), floats(4)
    assert [n.operator for n in graph.nodes] == ["Exp", "Mul", "LeakyRelu"]
    product = np.exp(x) * x
    np.testing.assert_allclose(
        graph(x)[0], np.where(product > 0, product, 0.5 * product), rtol=1e-5
    )
    function.node.append(node("F", "o o", "again", domain="own"))
    made.functions[0].CopyFrom(function)
    with pytest.raises(RecordError, match="must not call itself"):
        load(made)


def test_branches_may_call_functions_of_the_model() -> None:
    """Also where they read nothing from outside."""
    opsets = [onnx.helper.make_opsetid("", 18)]
    function = onnx.helper.make_function(
        "own", "Two", [], ["o"], [node("Constant", "", "o", value_float=2.0)], opsets
    )
    made = onnx.helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, ())
    branch = onnx.helper.make_graph([node("Two", "", "t", domain="own")], "branch", [], [made])
    choice = node("If", "c", "y", then_branch=branch, else_branch=branch)
    whole = model([choice], {"c": (onnx.TensorProto.BOOL, ())}, {"y": ()}, functions=[function])
    whole.opset_import.append(onnx.helper.make_opsetid("own", 1))
    assert load(whole)(np.array(True)) == (2.0,)


def test_operators_of_other_domains_stay_calls() -> None:
    made = model([node("Strange", "x", "y", domain="elsewhere")], {"x": (3,)}, {"y": (3,)})
    graph = load(made)
    assert graph.opaque[0].why == "Strange has no definition in the language"
    with pytest.raises(EinalgError, match="Strange could not be computed"):
        graph(floats(3))


def test_an_attribute_that_is_not_understood_is_not_overlooked() -> None:
    graph = load(model([node("Softmax", "x", "y", temperature=2.0)], {"x": (3, 4)}, {"y": None}))
    assert [n.why for n in graph.opaque] == [
        "attribute temperature has no meaning in the definition"
    ]


@pytest.mark.parametrize(
    ("layout", "direction"), [(0, "forward"), (0, "reverse"), (0, "bidirectional")]
)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind: str, layout: int, direction: str) -> None:
    gates, ways, size = (
        {"LSTM": 4, "GRU": 3, "RNN": 1}[kind],
        2 if direction == "bidirectional" else 1,
        3,
    )
    stored = {
        "w": floats(ways, gates * size, 2),
        "r": floats(ways, gates * size, size),
        "b": floats(ways, 2 * gates * size),
    }
    made = model(
        [node(kind, "x w r b", "y h", hidden_size=size, direction=direction, layout=layout)],
        {"x": (5, 2, 2)},
        {"y": None, "h": None},
        stored,
    )
    x = floats(5, 2, 2)
    graph = load(made)
    assert not graph.opaque
    runtime = pytest.importorskip(
        "onnxruntime", reason="onnx's own evaluator knows one direction only"
    )
    expected = runtime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(None, {"x": x})
    for found, wanted in zip(graph(x), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_long_recurrent_layers_stay_calls() -> None:
    stored = {"w": floats(1, 3, 2), "r": floats(1, 3, 3)}
    graph = load(
        model([node("RNN", "x w r", "y", hidden_size=3)], {"x": (100, 2, 2)}, {"y": None}, stored)
    )
    assert graph.opaque[0].why == "100 steps, more than the 32 that are unrolled"


@pytest.mark.parametrize(
    ("indices", "opaque"),
    [
        ([1, 3, 5], False),
        ([4], False),
        ([5, 3, 1], False),
        ([0, 0, 1, 5], False),
        (list(range(30)) * 3, True),
    ],
)
def test_known_indices(indices: list[int], opaque: bool) -> None:
    made = model(
        [node("Gather", "x i", "y", axis=1)], {"x": (2, 30)}, {"y": None}, {"i": np.array(indices)}
    )
    assert bool(same_as_onnx(made, floats(2, 30)).opaque) == (
        opaque and len(set(np.diff(indices))) > 16
    )


def test_numbers_stay_numbers() -> None:
    graph = load(
        model(
            [node("Pow", "x two", "p"), node("Mul", "p half", "y")],
            {"x": (3,)},
            {"y": None},
            {"two": floats() * 0 + 2, "half": np.float32([0.5])},
        )
    )
    assert [str(n.program) for n in graph.nodes if isinstance(n, ProgramNode)] == [
        "p[i:3] = x[i]**2",
        "y[i:3] = 0.5*p[i]",
    ]
    assert not graph.weights


def with_weights(path: Path) -> onnx.ModelProto:
    """A light model with weights of a network in the place of its constants, which are all 0.02,
    and what its softmax is given as a result too.

    With these all classes are as probable, whatever a network does, or as probable as roundings of
    numbers of 1e10 say.
    """
    rng, made = np.random.default_rng(0), onnx.load(path)
    stored = {tensor.name: tensor for tensor in made.graph.initializer}
    for constant in [
        n for n in made.graph.node if n.op_type == "ConstantOfShape" and n.input[0] in stored
    ]:
        shape = onnx.numpy_helper.to_array(stored[constant.input[0]])
        values = (
            rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
            if len(shape) > 1
            else rng.uniform(0.5, 1, shape)
        )
        made.graph.initializer.append(
            onnx.numpy_helper.from_array(values.astype(np.float32), constant.output[0])
        )
        made.graph.node.remove(constant)
    last = made.graph.node[-1]
    if last.op_type == "Softmax":
        made.graph.output.append(
            onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None)
        )
    return made


@pytest.mark.nightly
@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_light_models(path: Path) -> None:
    assert not load(path).opaque
    made = with_weights(path)
    graph = load(made)
    assert not graph.opaque
    x = np.random.default_rng(1).uniform(size=graph.inputs[0].shape).astype(np.float32)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {session.get_inputs()[0].name: x})
    assert (
        np.std(expected[-1]) > 0.1 * np.abs(expected[-1]).max()
    )  # the classes are told apart, and not one alone
    for found, wanted in zip(graph(x), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_arrays_of_another_type_are_taken_as_declared() -> None:
    """The model may go on being run by onnxruntime, which refuses them."""
    x = np.random.default_rng(0).normal(size=(1, 3, 8, 8))
    made = ea.optimize(convolutional(), {"x": x}, seconds=0)
    assert np.allclose(made(x), made(x.astype(np.float32)))
    with pytest.raises(ShapeError, match="1 inputs are expected"):
        made(x, x)
    with pytest.raises(ShapeError, match="input x has shape"):
        made(x[:, :2])


@pytest.mark.parametrize("operator, gates", [("LSTM", 4), ("GRU", 3)])
def test_a_recurrent_layer_of_an_empty_batch(operator: str, gates: int) -> None:
    """With which onnxruntime ends the process: it runs neither the node nor the whole model."""
    stored = {"w": floats(1, 3 * gates, 2), "r": floats(1, 3 * gates, 3)}
    made = model(
        [node(operator, "x w r", "y", hidden_size=3)], {"x": (4, 0, 2)}, {"y": None}, stored
    )
    empty = floats(4, 0, 2)
    assert [n.operator for n in same_as_onnx(made, empty).opaque] == [operator]
    assert ea.optimize(made, [empty], seconds=0)(empty).shape == (4, 1, 0, 3)
