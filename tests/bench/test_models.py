"""The command that compares whole networks: its rows and its file, at small sizes, and what it
makes of failures.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bench.models import SMALL, __main__, measuring  # noqa: E402
from bench.models.sequences import longformer  # noqa: E402


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.models", *options])
    __main__.main()


def test_two_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of which one is measured here: a process of its own loads all libraries anew."""
    in_own_process = __main__.watched

    def watched(command: Any, *options: Any) -> Any:
        if "mmoe" not in command:
            return in_own_process(command, *options)
        __main__.work(__main__.parser().parse_args(command[3:]))
        return 0, [], ""

    monkeypatch.setattr(__main__, "watched", watched)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "models.json"
    quick = [
        "--small",
        "--seconds",
        "0.5",
        "--without",
        "torch.compile",
        "--batch",
        "2",
        "--threads",
        "1",
    ]
    run(monkeypatch, "--only", "mmoe", "longformer_d4", *quick, "--json", str(path))
    told = json.loads(path.read_text())
    assert (
        told["machine"]["processor"]
        and torch.__version__.startswith(told["machine"]["torch"])
        and told["left out"] == ["torch.compile"]
    )
    rows = told["models"]
    assert [(row["model"], row["batch"], row["threads"]) for row in rows] == [
        ("mmoe", 2, 1),
        ("longformer_d4", 2, 1),
    ]
    printed = capsys.readouterr().out
    for row in rows:
        assert not row["failed"] and row["model"] in printed
        assert {"einalg", "torch", "torch, frozen"} <= set(
            row["ms"]
        ) and "torch.compile" not in row["ms"]
        assert all(spent > 0 for spent in row["ms"].values())
        assert (
            max(row["more"]["errors"].values()) < 1e-4
            and row["error"] == row["more"]["errors"]["einalg"]
        )
        assert (
            row["best"] in row["ms"]
            and row["ratio"] == row["ms"][row["best"]] / row["ms"]["einalg"]
        )
        assert row["peak MB"] > 10 and row["searched"] + row["cached"] <= row["layers"]
        assert row["more"]["left out"]["torch, channels last"] == "no images"


def test_what_fails_is_told_and_libraries_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("no such luck\nat all")

    monkeypatch.setattr(measuring, "optimized", broken)
    found = measuring.measured(
        "mmoe", 1, 1, 0.0, ("torch.compile", "openvino", "onnxruntime"), small=True
    )
    assert found["failed"] == "ValueError: no such luck" and found["ratio"] == ""
    assert "torch" in found["ms"] and "einalg" not in found["ms"]
    found["more"]["warnings"] = []
    assert "no such luck" in __main__.shown([found])


def test_a_second_optimization_is_timed_in_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(measuring.MODELS, "mmoe", SMALL["mmoe"])
    told = measuring.reoptimized("mmoe", 1, 1.0)
    assert (
        told["read s"] > 0
        and told["timed s"] > 0
        and told["read s"] + told["timed s"] < told["again s"]
    )


def test_a_network_that_is_not_optimized_again_has_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measuring.MODELS, "mmoe", SMALL["mmoe"])
    monkeypatch.setattr(measuring, "SECONDS", 0.0)
    monkeypatch.setattr(measuring, "of_module", lambda *_: {})
    monkeypatch.setattr(
        measuring, "optimized", lambda module, inputs, _: (lambda: module(*inputs), {"failed": ""})
    )
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found = measuring.measured("mmoe", 1, 1, 0.0, ("onnxruntime",))
    assert (
        found["more"]["left out"]["again"] == "RuntimeError: ended with 1: nothing is told"
        and found["again s"] == ""
    )
    monkeypatch.setattr(
        measuring, "again", lambda *_: {"again s": 2.0, "read s": 1.5, "timed s": 0.25}
    )
    found = measuring.measured("mmoe", 1, 1, 0.0, ("onnxruntime",))
    assert (found["again s"], found["read s"], found["timed s"]) == (
        2.0,
        1.5,
        0.25,
    ) and "again" not in found["more"]["left out"]


def test_a_process_that_ends_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found = __main__.in_own_process(("mmoe", 1, 1), 0.0, (), True)
    assert found["failed"] == "ended with 1: nothing is told" and "mmoe" in __main__.shown([found])


def test_a_library_that_does_not_come_back_is_left_out(tmp_path: Path) -> None:
    trial = tmp_path / "row.trying"
    script = f"import pathlib, time; print('begun', flush=True); pathlib.Path({str(trial)!r}).write_text('openvino'); time.sleep(60)"
    status, lines, hung = __main__.watched(
        [sys.executable, "-c", script], dict(os.environ), trial, patience=0.5
    )
    assert (hung, lines) == ("openvino", ["begun"]) and status != 0
    trial.write_text("")  # nothing is being tried, however long the process takes to start
    done = "print('done')"
    assert __main__.watched(
        [sys.executable, "-c", done], dict(os.environ), trial, patience=0.0
    ) == (0, ["done"], "")


def test_the_row_is_measured_again_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Any] = []

    def watched(command: Any, *_: Any) -> Any:
        commands.append(command)
        return (-9, [], "openvino") if len(commands) == 1 else (1, ["no memory"], "")

    monkeypatch.setattr(__main__, "watched", watched)
    found = __main__.in_own_process(("gcn", 1, 1), 0.0, (), False)
    assert (
        commands[1][-2:] == ["--skip", "openvino"] and found["failed"] == "ended with 1: no memory"
    )
    assert found["more"]["left out"] == {"openvino": "no result after 240 seconds"}


def test_libraries_compute_a_longformer_layer_by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, Any] = dict(dilation=2, rows=24, heads=2, depth=5, width=3)
    given: list[str] = []
    monkeypatch.setitem(measuring.MODELS, "longformer_d4", partial(longformer, **sizes))
    monkeypatch.setitem(measuring.TILED, "longformer_d4", partial(longformer, tiled=True, **sizes))
    monkeypatch.setattr(measuring, "SECONDS", 0.0)
    monkeypatch.setattr(
        measuring, "of_module", lambda module, *_: given.append(type(module).__name__) or {}
    )
    monkeypatch.setattr(
        measuring,
        "optimized",
        lambda module, inputs, _: (lambda: module(*inputs), {"failed": type(module).__name__}),
    )
    found = measuring.measured("longformer_d4", 2, 1, 0.0, ("onnxruntime",))
    assert given == ["TiledAttention"] and found["failed"] == "BandedAttention"
    assert found["error"] < 1e-5 and found["best"] == ""


def test_other_values_do_not_count() -> None:
    times, errors = (
        {"einalg": 1.0, "torch": 2.0, "other": 0.1},
        {"einalg": 0.0, "torch": 0.0, "other": float("nan")},
    )
    found = measuring.row(("m", 1, 1), times, errors, {"failed": ""}, {})
    assert found["best"] == "torch" and found["ratio"] == 2.0
    wrong = measuring.row(("m", 1, 1), times, {**errors, "einalg": 0.5}, {"failed": ""}, {})
    assert wrong["failed"] == "other values: error 5.0e-01" and wrong["ratio"] == ""


@pytest.mark.parametrize("name", ["dcgan", "lstm"])
def test_exact_result_is_that_of_the_whole_batch(name: str) -> None:
    module, inputs = SMALL[name](3)
    (found,) = measuring.exact(module, inputs)
    assert found.dtype == np.float64
    assert measuring.relative(module(*inputs).numpy(), found) < 1e-5
    assert measuring.relative(found + 0.1 * np.abs(found).max(), found) == pytest.approx(0.1)


def test_rows_measured_before_in_the_same_way_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(case: tuple[str, int, int], *_: Any) -> dict[str, Any]:
        made = __main__.row(case, {}, {}, {"failed": ""}, {})
        return {**made, "more": {**made["more"], "warnings": []}}

    path = tmp_path / "models.json"
    monkeypatch.setattr(__main__, "in_own_process", found)
    for names in (["mmoe", "lstm"], ["gcn", "mmoe"]):
        run(monkeypatch, "--only", *names, "--batch", "1", "--threads", "1", "--json", str(path))
    rows = json.loads(path.read_text())["models"]
    assert [row["model"] for row in rows] == ["mmoe", "lstm", "gcn"]
    assert [row["target"] for row in rows] == [6.0, 1.3, 1.3] and rows[0][
        "missed"
    ] == "there is no ratio"
    run(
        monkeypatch,
        "--only",
        "gcn",
        "--batch",
        "1",
        "--threads",
        "1",
        "--seconds",
        "7",
        "--json",
        str(path),
    )
    assert [(row["model"], row["allowed s"]) for row in json.loads(path.read_text())["models"]] == [
        ("mmoe", 300.0),
        ("lstm", 300.0),
        ("gcn", 7.0),
    ]
    before = path.read_text()
    with pytest.raises(SystemExit, match="was measured with other values of: small"):
        run(
            monkeypatch,
            "--only",
            "gcn",
            "--small",
            "--batch",
            "1",
            "--threads",
            "1",
            "--json",
            str(path),
        )
    assert path.read_text() == before
