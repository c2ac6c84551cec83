"""Damaged ONNX files: whatever a byte or a part of a model is changed to, loading gives a graph or
an error of einalg.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.errors import EinalgError
from einalg.frontends.graph import Graph, ProgramNode
from einalg.frontends.onnx import load
from einalg.frontends.onnx.operators import DEFINITIONS
from einalg.frontends.random_inputs import random_arrays

onnx = pytest.importorskip("onnx", reason="these are files of the package onnx")

from tests.helpers.onnx_models import branches, convolutional, model, node  # noqa: E402

FEW, MANY = 40, 2000
RUN, ELEMENTS = (
    300,
    1 << 16,
)  # damaged files of which those that load are run, unless a value has more elements
Random = np.random.Generator
ODD = (0, -1, 1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63))
OPERATORS = [*sorted(DEFINITIONS), "Loop", "If", "Scan", "NonZero", "Missing"]


def shapes() -> Any:
    nodes = [
        node("Shape", "x", "s"),
        node("Slice", "s one three", "t"),
        node("ReduceProd", "t", "p", keepdims=1),
        node("Concat", "p minus", "to", axis=0),
        node("Reshape", "x to", "r"),
        node("Pad", "r pads", "q", mode="reflect"),
        node("Split", "q", "a b", axis=1, num_outputs=2),
        node("Transpose", "a", "at", perm=[1, 0]),
        node("Resize", "y0 _ scales", "z", mode="linear"),
        node("Unsqueeze", "b lead", "y0"),
        node("Softmax", "at", "y", axis=-1),
    ]
    nodes[8], nodes[9] = nodes[9], nodes[8]
    stored = {
        "one": np.array([1]),
        "three": np.array([3]),
        "minus": np.array([-1]),
        "pads": np.array([0, 1, 0, 1]),
        "lead": np.array([0, 1]),
    }
    stored["scales"] = np.array([1, 1, 2, 1.5], np.float32)
    return model(nodes, {"x": (2, 3, 4)}, {"y": None, "z": None}, stored)


def recurrent() -> Any:
    rng = np.random.default_rng(0)
    stored = {
        "w": rng.normal(size=(1, 12, 2)).astype(np.float32),
        "r": rng.normal(size=(1, 12, 3)).astype(np.float32),
    }
    nodes = [
        node("LSTM", "x w r", "h last", hidden_size=3),
        node("Squeeze", "last", "v"),
        node("LayerNormalization", "v g", "n", axis=-1),
    ]
    nodes.append(node("TopK", "n k", "y i"))
    return model(
        nodes,
        {"x": (3, 2, 2)},
        {"y": None, "i": (onnx.TensorProto.INT64, None)},
        {**stored, "g": np.ones(3, np.float32), "k": np.array([2])},
    )


MODELS: dict[str, Callable[[], Any]] = {
    "convolutional": convolutional,
    "shapes": shapes,
    "recurrent": recurrent,
    "branches": lambda: branches({"c": np.array(True)}),
}


def flipped(made: Any, rng: Random) -> bytes:
    """A few bytes changed, left out or doubled."""
    content = bytearray(made.SerializeToString())
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(len(content)))
        kind = rng.integers(3)
        if kind == 0:
            content[place] = int(rng.integers(256))
        elif kind == 1:
            del content[place]
        else:
            content.insert(place, int(rng.integers(256)))
    return bytes(content)


def restructured(made: Any, rng: Random) -> Any:
    """A few parts of the model changed to others that fit the format."""
    for _ in range(rng.integers(1, 4)):
        STRUCTURAL[int(rng.integers(len(STRUCTURAL)))](made.graph, rng)
    return made


def _any(values: Any, rng: Random) -> Any:
    return values[int(rng.integers(len(values)))] if len(values) else None


def _odd(rng: Random) -> int:
    return int(_any(ODD, rng))


def _change_attribute(graph: Any, rng: Random) -> None:
    attribute = _any(_any(graph.node, rng).attribute, rng)
    if attribute is not None and attribute.ints:
        attribute.ints[int(rng.integers(len(attribute.ints)))] = _odd(rng)
    elif attribute is not None:
        attribute.i, attribute.f, attribute.s = _odd(rng), float(_odd(rng)), b"odd"
        attribute.type = int(rng.integers(0, 15)) if rng.random() < 0.3 else attribute.type


def _change_elements(graph: Any, rng: Random) -> None:
    tensor = _any(graph.initializer, rng)
    if tensor is None:
        return
    array = onnx.numpy_helper.to_array(tensor).copy()
    array.reshape(-1)[int(rng.integers(array.size))] = (
        _odd(rng) if array.dtype.kind == "i" else rng.choice([np.nan, np.inf, 1e30, 0])
    )
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _change_size(graph: Any, rng: Random) -> None:
    dims = _any(graph.input, rng).type.tensor_type.shape.dim
    if len(dims):
        _any(dims, rng).dim_value = _odd(rng)


def _change_input(graph: Any, rng: Random) -> None:
    one = _any(graph.node, rng)
    names = ["", *(name for other in graph.node for name in (*other.input, *other.output))]
    if one.input:
        one.input[int(rng.integers(len(one.input)))] = _any(names, rng)


def _change_list(graph: Any, rng: Random) -> None:
    one = _any(graph.node, rng)
    values = _any([one.input, one.output, one.attribute, graph.node, graph.initializer], rng)
    if len(values) > 1 or (values is one.input and values):
        del values[int(rng.integers(len(values)))]


def _change_operator(graph: Any, rng: Random) -> None:
    _any(graph.node, rng).op_type = _any(OPERATORS, rng)


def _double(graph: Any, rng: Random) -> None:
    graph.node.append(_any(graph.node, rng))


STRUCTURAL = [
    _change_attribute,
    _change_elements,
    _change_size,
    _change_input,
    _change_list,
    _change_operator,
    _double,
]


def damaged(number: int, seed: int) -> bytes | Any:
    rng = np.random.default_rng([seed, number])
    made = MODELS[_any(sorted(MODELS), rng)]()
    return flipped(made, rng) if number % 2 else restructured(made, rng)


def tried(
    count: int, seed: int, used: Callable[[Any, Graph], Any] = lambda made, graph: None
) -> tuple[int, int]:
    """How many damaged models load and can be used, and how many are refused; anything else is an
    error of the test.
    """
    graphs = refused = 0
    for number in range(count):
        try:
            made = damaged(number, seed)
            graph = load(made)
            assert isinstance(graph, Graph)
            used(made, graph)
            graphs += 1
        except EinalgError as error:
            assert str(error)
            refused += 1
        except Exception as error:
            raise AssertionError(f"damaged model {number} of seed {seed}: {error!r}") from error
    return graphs, refused


def optimized_and_run(made: Any, graph: Graph) -> None:
    """By onnxruntime too, where that is installed and takes the whole model."""
    values = [
        *graph.inputs,
        *(
            scope
            for node in graph.nodes
            if isinstance(node, ProgramNode)
            for _, scope in node.program.statements
        ),
    ]
    if all(np.prod(value.shape, dtype=object) <= ELEMENTS for value in values):
        arrays = list(random_arrays(graph.inputs).values())
        with np.errstate(all="ignore"):
            ea.optimize(made, arrays, seconds=0)(*arrays)


def test_damaged_files() -> None:
    graphs, refused = tried(FEW, 0)
    assert graphs > FEW // 5 and refused > FEW // 5


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_damaged_files(seed: int) -> None:
    tried(MANY // 4, seed)


@pytest.mark.nightly
@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # of NumPy about the numbers in damaged weights
@pytest.mark.parametrize("seed", range(6, 9))
def test_damaged_files_that_load_are_optimized_and_run(seed: int) -> None:
    graphs, _ = tried(RUN // 3, seed, optimized_and_run)
    assert graphs > RUN // 60
