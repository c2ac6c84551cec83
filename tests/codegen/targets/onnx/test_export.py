"""Optimized models written as ONNX files, which onnxruntime runs with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.batched_executable import BatchedExecutable
from derive.programs.passes import batch_splitting
from einalg.api.backend import LocalBackend
from einalg.errors import RecordError
from tests.helpers.measurements import sooner
from tests.helpers.onnx_models import convolutional, model, node

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)


def outputs_of(path: Path, *arrays: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([entry.name for entry in session.get_inputs()], arrays)))


def test_an_onnx_model(tmp_path: Path) -> None:
    x = RNG.normal(size=(1, 3, 8, 8)).astype(np.float32)
    ea.optimize(convolutional(), {"x": x}, seconds=5).to_onnx(tmp_path / "model.onnx")
    (onnx_path := tmp_path / "original.onnx").write_bytes(convolutional().SerializeToString())
    (found,), (expected,) = outputs_of(tmp_path / "model.onnx", x), outputs_of(onnx_path, x)
    assert np.allclose(found, expected, atol=1e-5)


def test_what_depends_on_weights_alone_is_computed(tmp_path: Path) -> None:
    p = ea.parse(
        "S[k] = exp(K[k])\nO[i] += A[i,k]*S[k]", A=(3, 4), K=ea.tensor("K", (4,), role="weight")
    )
    a, k = RNG.normal(size=(3, 4)).astype(np.float32), RNG.normal(size=4).astype(np.float32)
    ea.optimize(p, {"A": a, "K": k}, seconds=0).to_onnx(tmp_path / "model.onnx")
    assert "Exp" not in [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert np.allclose(outputs_of(tmp_path / "model.onnx", a)[0], a @ np.exp(k), rtol=1e-5)


def test_a_saved_model_is_written_too(tmp_path: Path) -> None:
    o = ea.optimize(ea.parse("O[i] = Max(A[i], 0)", A=(4,)), [np.ones(4)], seconds=0)
    o.save(tmp_path / "folder")
    ea.Optimized.load(tmp_path / "folder").to_onnx(tmp_path / "model.onnx")
    assert outputs_of(tmp_path / "model.onnx", np.array([-1, 2, -3, 4], np.float32))[
        0
    ].tolist() == [0, 2, 0, 4]


def interface(path: Path) -> tuple[list[str], list[str]]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [entry.name for entry in session.get_inputs()], [
        entry.name for entry in session.get_outputs()
    ]


def test_inputs_and_outputs_are_called_as_in_the_model(tmp_path: Path) -> None:
    """Whatever their names are; one value may have several."""
    nodes = [
        node("Add", "input.1 x:0", "out/0"),
        node("Identity", "out/0", "99"),
        node("Identity", "x:0", "same"),
        node("Identity", "w", "weight"),
    ]
    named = model(
        nodes,
        {"input.1": (4,), "x:0": (4,)},
        dict.fromkeys(["out/0", "99", "same", "weight"], (4,)),
        {"w": np.ones(4, np.float32)},
    )
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    o = ea.optimize(named, {"x:0": y, "input.1": x}, seconds=0)
    o.save(tmp_path / "folder")
    o.to_onnx(tmp_path / "model.onnx")
    ea.Optimized.load(tmp_path / "folder").to_onnx(tmp_path / "loaded.onnx")
    for path in (tmp_path / "model.onnx", tmp_path / "loaded.onnx"):
        assert interface(path) == (["input.1", "x:0"], ["out/0", "99", "same", "weight"])
        for found, expected in zip(outputs_of(path, x, y), (x + y, x + y, y, y), strict=True):
            assert np.array_equal(found, expected)


def test_a_result_that_a_module_gives_twice(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Twice(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = torch.relu(x)
            return y, y, x

    ea.optimize(Twice().eval(), (torch.ones(3),), seconds=0).to_onnx(tmp_path / "model.onnx")
    assert [
        found.tolist() for found in outputs_of(tmp_path / "model.onnx", -np.ones(3, np.float32))
    ] == [[0, 0, 0], [0, 0, 0], [-1, -1, -1]]


def test_calls_of_a_framework_cannot_be_written(tmp_path: Path) -> None:
    unique = model([node("Unique", "x", "y")], {"x": (4,)}, {"y": None})
    with pytest.raises(RecordError, match=r"calls of the framework are left in it \(Unique\)"):
        ea.optimize(unique, {"x": np.ones(4, np.float32)}, seconds=0).to_onnx(
            tmp_path / "model.onnx"
        )
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    o = ea.optimize(ea.parse("O[i] = Max(A[i], 0)", A=(4,)), [np.ones(4)], seconds=0)
    with pytest.raises(RecordError, match="must be a file in a folder that is there"):
        o.to_onnx(tmp_path / "missing" / "model.onnx")


def test_a_torch_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = [
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.GELU(),
        torch.nn.MaxPool2d(2),
    ]
    layers += [
        torch.nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 12 * 10, 7),
        torch.nn.Softmax(1),
    ]
    module, x = torch.nn.Sequential(*layers).eval(), torch.randn(2, 3, 24, 20)
    ea.optimize(module, (x,), seconds=5).to_onnx(tmp_path / "model.onnx")
    with torch.no_grad():
        assert np.allclose(
            outputs_of(tmp_path / "model.onnx", x.numpy())[0], module(x).numpy(), atol=1e-5
        )


def test_slices_are_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is computed ahead, read as it is, or the same for all slices; and results that the
    next program reads.
    """
    monkeypatch.setattr(batch_splitting, "MIN_SLICE_OPERATIONS", 0)
    monkeypatch.setattr(batch_splitting, "MIN_OPERATIONS_PER_WEIGHT", 0)
    monkeypatch.setattr(LocalBackend, "measure", sooner(BatchedExecutable))
    text = "S[k] = exp(K[k])\nP[n,i] += A[n,i,k]*S[k]\nO[n:5,i:4] = Max(P[n,i], 0) + B[i]\nQ[n:5,i:4] = P[n,3-i]"
    p = ea.parse(text, A=(5, 4, 70), B=(4,), K=ea.tensor("K", (70,), role="weight"))
    given = {
        name: RNG.normal(size=tensor.shape).astype(np.float32) for name, tensor in p.inputs.items()
    }
    o = ea.optimize(p, given, seconds=100)
    assert [part.slices is not None for part in o.parts.values()] == [True]
    o.to_onnx(tmp_path / "model.onnx")
    assert [entry.op_type for entry in onnx.load(tmp_path / "model.onnx").graph.node].count(
        "Scan"
    ) == 1
    expected = ea.evaluate(p, **given)
    names = interface(tmp_path / "model.onnx")[0]
    for found, name in zip(
        outputs_of(tmp_path / "model.onnx", *(given[n] for n in names)), p.outputs, strict=True
    ):
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-4)
