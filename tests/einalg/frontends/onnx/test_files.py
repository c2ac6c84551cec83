"""Broken ONNX files: a clear error, nothing executed, nothing written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.errors import EinalgError, RecordError, ShapeError
from einalg.frontends.onnx import load
from einalg.frontends.onnx.random_inputs import random_inputs

onnx = pytest.importorskip("onnx", reason="these are files of the package onnx")
from tests.helpers.onnx_models import convolutional, model, node  # noqa: E402


def test_path_and_bytes_and_model_are_the_same(tmp_path: Path) -> None:
    made = convolutional()
    content, path = made.SerializeToString(), tmp_path / "model.onnx"
    path.write_bytes(content)
    before = made.SerializeToString()
    programs = [
        [str(n.program) for n in load(source).nodes] for source in (made, content, path, str(path))
    ]
    assert all(p == programs[0] for p in programs) and made.SerializeToString() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("cut", [0, 1, 10, 0.5, 0.99])
def test_truncated(cut: float) -> None:
    content = convolutional().SerializeToString()
    with pytest.raises(RecordError):
        load(content[: int(cut * len(content) if isinstance(cut, float) else cut)])


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="No such file"):
        load(tmp_path / "missing.onnx")
    with pytest.raises(RecordError, match="no ONNX model"):
        load(b"\x08\x07 this is text")


def test_examples_that_are_drawn(tmp_path: Path) -> None:
    made = model(
        [node("Where", "c x y", "z")],
        {"c": (9, (2, 3)), "x": (1, (2, 3)), "y": (1, ())},
        {"z": None},
    )
    drawn = random_inputs(made)
    assert {name: (array.shape, array.dtype.name) for name, array in drawn.items()} == {
        "c": ((2, 3), "bool"), "x": ((2, 3), "float32"), "y": ((), "float32")
    }  # fmt: skip
    assert ea.optimize(made, seconds=0)(*drawn.values()).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"leaves the shape of x open \(N,3,8,8\)\n  give"):
        ea.optimize(model([node("Relu", "x", "y")], {"x": ("N", 3, 8, 8)}, {"y": None}))
    with pytest.raises(RecordError, match="No such file"):
        ea.optimize(tmp_path / "missing.onnx")


def changed(change: Callable[[Any], Any]) -> Any:
    made = convolutional()
    change(made)
    return made


def cyclic(made: Any) -> None:
    made.graph.node[0].input[0] = "r"


def unsorted(made: Any) -> None:
    made.graph.node.append(made.graph.node[0])
    del made.graph.node[0]


def huge(made: Any) -> None:
    made.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 2**40


def huge_weight(made: Any) -> None:
    made.graph.initializer[0].dims[0] = 2**40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m.opset_import[0].__setattr__("version", 999),
            r"operator set 999.*pip install --upgrade onnx",
        ),
        (lambda m: m.opset_import.pop(), "does not say which operator set"),
        (cyclic, "reads r, which is given later"),
        (unsorted, "reads c, which is given later"),
        (lambda m: m.graph.initializer.pop(0), "reads w, which nothing gives"),
        (
            lambda m: m.graph.output[0].__setattr__("name", "z"),
            "z, an output of the graph, is given by no node",
        ),
        (lambda m: m.graph.node[1].output.__setitem__(0, "c"), "c is given twice"),
        (huge, "too large to compute"),
        (huge_weight, "initializer w has the sizes"),
        (lambda m: m.graph.initializer[0].dims.__setitem__(0, 5), "initializer w"),
        (lambda m: m.graph.initializer[0].dims.__setitem__(0, -4), "initializer w has the sizes"),
        (
            lambda m: m.graph.initializer[0].__setattr__("data_type", 77),
            "initializer w cannot be read",
        ),
        (lambda m: m.ClearField("graph"), "no graph"),
    ],
)
def test_broken(change: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(RecordError, match="(?s)" + message):
        load(changed(change).SerializeToString())


def beside(location: str, **more: Any) -> Any:
    made = convolutional()
    tensor = made.graph.initializer[0]
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    return made


def test_data_beside_the_model(tmp_path: Path) -> None:
    made = convolutional()
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    (folder / "data/w.bin").write_bytes(b"12345678" + made.graph.initializer[0].raw_data + b"more")
    path, length = folder / "model.onnx", len(made.graph.initializer[0].raw_data)
    path.write_bytes(beside("data/w.bin", offset=8, length=length).SerializeToString())
    x = np.ones((1, 3, 8, 8), np.float32)
    assert np.array_equal(load(path)(x)[0], load(made)(x)[0])
    (tmp_path / "secret.bin").write_bytes(made.graph.initializer[0].raw_data)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    for place in (
        "../secret.bin",
        str(tmp_path / "secret.bin"),
        "link.bin",
        "data/../../secret.bin",
        "",
    ):
        path.write_bytes(beside(place).SerializeToString())
        with pytest.raises(RecordError, match="outside the folder"):
            load(path)
    for place, more in (
        ("data/none.bin", {}),
        ("data/w.bin", {"offset": 10**9}),
        ("data/w.bin", {"length": "x"}),
        ("data", {}),
    ):
        path.write_bytes(beside(place, **more).SerializeToString())
        with pytest.raises(RecordError, match=r"tensor w"):
            load(path)
    with pytest.raises(RecordError, match="load the model by its path"):
        load(beside("data/w.bin"))


def test_inputs_that_are_no_numbers() -> None:
    made = model(
        [node("StringNormalizer", "x", "y")],
        {"x": (onnx.TensorProto.STRING, (3,))},
        {"y": (onnx.TensorProto.STRING, None)},
    )
    with pytest.raises(EinalgError, match="no tensor of numbers"):
        load(made)


def test_an_input_without_a_shape() -> None:
    with pytest.raises(ShapeError, match=r"the shape of input x is not known"):
        load(model([node("Relu", "x", "y")], {"x": None}, {"y": None}))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(EinalgError, match=r"pip install 'einalg\[onnx\]'"):
        load(b"")


def test_results_that_are_too_large() -> None:
    made = model(
        [node("Expand", "x s", "y")], {"x": (1,)}, {"y": None}, {"s": np.array([2**20, 2**20])}
    )
    with pytest.raises(RecordError, match="too large to compute"):
        load(made)
    made = model(
        [node("Range", "a b c", "y")],
        {},
        {"y": (onnx.TensorProto.INT64, None)},
        {"a": np.array(0), "b": np.array(2**60), "c": np.array(1)},
    )
    with pytest.raises(RecordError, match="too large to compute"):
        load(made)
