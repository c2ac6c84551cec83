"""`einalg tune`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from codegen.tuning.search.strategies import STRATEGIES
from einalg.cli.commands.tune import write
from tests.helpers.command_line import printed, refused

ARGUMENTS = ("O[i,j] += A[i,k]*B[k,j]", "--A", "8,40", "--B", "40,24")


def test_kernels_are_tuned_exported_and_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    path = str(tmp_path / "tuned.json")
    options = ("--seconds", "1e6", "--trials", "1", "--export", path)
    text = printed("tune", *ARGUMENTS, *options)
    assert "(1.00x), 1 trial\n" in text and re.search(r"\n  \w+: \w+=\d+ ", text)
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "elsewhere"))
    assert "1 tuned kernel read from" in printed("tune", "--import", path)


def test_the_kernels_of_a_model_are_tuned(product_file: str, tmp_path: Path) -> None:
    options = ("--seconds", "60", "--trials", "1", "--shape", "x=8,32")
    assert re.search(r"8, \w+:32.*\n.*, 1 trial\n", printed("tune", product_file, *options))
    np.save(tmp_path / "x.npy", np.ones((3, 32), "f4"))
    given = ("--seconds", "60", "--trials", "1", "--input", f"x={tmp_path / 'x.npy'}")
    assert ":3, " in printed("tune", product_file, *given)


def test_options_of_the_other_kind_are_refused(product_file: str) -> None:
    assert "give --shape x=" in refused("tune", product_file)
    assert "no input z" in refused("tune", product_file, "--z", "8,32")
    assert "a model has no --weight" in refused("tune", product_file, "--weight", "w")
    assert "an expression has no --input" in refused("tune", *ARGUMENTS, "--input", "A=a.npy")
    assert "missing.onnx: no such file" in refused("tune", "missing.onnx")


def test_an_export_that_fails_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tuned.json"
    path.write_text("before")

    def is_full(*names: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", is_full)
    with pytest.raises(OSError, match="No space"):
        write(path)
    assert path.read_text() == "before"


def test_every_strategy_is_an_option() -> None:
    refusal = refused("tune", *ARGUMENTS, "--strategy", "other")
    assert all(f"'{name}'" in refusal for name in STRATEGIES)


def test_bad_use(tmp_path: Path) -> None:
    assert "give one expression" in refused("tune")
    assert "--trials" in refused("tune", *ARGUMENTS, "--trials", "0")
    path = tmp_path / "bad.json"
    path.write_text("[]")
    assert "holds no tuned kernels" in refused("tune", "--import", str(path))
