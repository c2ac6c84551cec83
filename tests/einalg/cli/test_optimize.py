"""`einalg optimize`: its inputs, its files and its report."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import click
import numpy as np
import pytest

import einalg as ea
from einalg.cli import model_inputs
from einalg.cli.commands import optimize as optimizing
from tests.helpers.command_line import einalg, printed, refused


class Size:
    """A dimension of an ONNX shape, as protobuf has it."""

    def __init__(self, value: int | str):
        self.dim_value, self.dim_param = (value, "") if isinstance(value, int) else (0, value)

    def HasField(self, name: str) -> bool:
        return bool(getattr(self, name))


class Declared:
    """The type of an ONNX input."""

    def __init__(self, *sizes: int | str):
        self.shape = type("Shape", (), {"dim": [Size(s) for s in sizes]})

    def HasField(self, name: str) -> bool:
        return True


def test_inputs_of_models_that_are_given_or_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", np.arange(3))
    assert model_inputs._read(str(tmp_path / "x.npy")).tolist() == [0, 1, 2]
    assert model_inputs._stated("x", Declared(1, 3)) == (1, 3)
    with pytest.raises(click.UsageError, match=r"shape of x open \(N,3\): give --shape x="):
        model_inputs._stated("x", Declared("N", 3))
    for dtype in ("f32", "i64", "bool"):
        drawn = model_inputs._drawn("x", None, ((2, 3), dtype), rng)
        assert drawn.shape == (2, 3) and drawn.dtype.name.startswith(
            {"f32": "float32", "i64": "int64", "bool": "bool"}[dtype]
        )
    (tmp_path / "bad.npy").write_bytes(b"no array")
    with pytest.raises(click.UsageError, match="no array of NumPy"):
        model_inputs._read(str(tmp_path / "bad.npy"))


def test_record_and_report_of_an_optimization() -> None:
    program = ea.parse(
        "O[i,j] += A[i,k]*W[k,j]", A=(32, 32), W=ea.tensor("W", (32, 32), role="weight")
    )
    made = ea.optimize(program, {"A": np.ones((32, 32)), "W": np.ones((32, 32))}, seconds=1)
    record = json.loads(json.dumps(optimizing.record(made), allow_nan=False))
    assert (
        record["programs"][0]["verdict"] == "proved"
        and record["programs"][0]["layers"]
        and record["programs"][0]["slices"] == 1
    )


def test_optimize_an_onnx_file(
    product_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx = pytest.importorskip("onnx")
    path = product_file
    assert "give --shape x=" in refused("optimize", path)
    assert "no input z" in refused("optimize", path, "--shape", "z=1")
    np.save(tmp_path / "x.npy", np.ones((32, 32), "f4"))
    record = json.loads(
        printed("optimize", path, "--input", f"x={tmp_path / 'x.npy'}", "--json", "--seconds", "1")
    )
    assert record["programs"][0]["verdict"] == "proved" and record["opaque"] == []
    folder = tmp_path / "optimized"
    assert "program 1" in printed(
        "optimize", path, "--shape", "x=32,32", "--seconds", "1", "-o", str(folder)
    )
    assert ea.Optimized.load(folder)(np.ones((32, 32))).shape == (32, 32)
    project = tmp_path / "project"
    shape = ["--shape", "x=32,32"]
    printed("optimize", path, *shape, "--seconds", "1", "--export-c", str(project))
    assert "void project(const float *x, float *y," in (project / "project.h").read_text()
    printed(
        "optimize",
        path,
        "--shape",
        "x=32,32",
        "--seconds",
        "1",
        "-o",
        str(tmp_path / "written.onnx"),
    )
    assert "MatMul" in [node.op_type for node in onnx.load(tmp_path / "written.onnx").graph.node]
    wrong = {
        "name": "wrong",
        "before": "O[i] = A[i]",
        "after": "O[i] = 2*A[i]",
        "shapes": {"A": ["N"]},
    }
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"rules": [wrong]}))
    report = printed("optimize", path, *shape, "--seconds", "1", "--substitutions", str(rules))
    assert "substitution wrong is left out" in report
    monkeypatch.setattr(ea, "optimize", None)  # which takes minutes, and is not begun
    assert "give a file in a folder that is there" in refused(
        "optimize", path, "-o", str(tmp_path / "missing" / "m.onnx")
    )
    assert "is there already" in refused("optimize", path, "--shape", "x=32,32", "-o", str(folder))
    made = SimpleNamespace(
        report=SimpleNamespace(text="the report"),
        save=Mock(side_effect=ea.RecordError("cannot be saved")),
    )
    monkeypatch.setattr(ea, "optimize", lambda *_, **__: made)
    result = einalg("optimize", path, "--shape", "x=32,32", "-o", str(tmp_path / "other"))
    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "the report\n",
        "error: cannot be saved\n  give another path, or save it again with this version\n",
    )


def test_an_interrupted_optimization_says_so() -> None:
    """The optimizer keeps what it found; the exit code tells."""
    before = signal.getsignal(signal.SIGINT)
    with optimizing._noticed() as came, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert came == [signal.SIGINT] and signal.getsignal(signal.SIGINT) is before
