"""Winners: used by later compilations, portable as text, and never trusted where they do not fit."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import einalg as ea
from codegen.hardware.cpu import machine
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.generated_kernels import best_candidate
from codegen.program.building.problem import BuildProblem
from codegen.runtime.protocol import GENERATED
from codegen.targets.c.compiler import find_compiler
from codegen.tuning.records import winners
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.records.winners import Winner, exported, imported, tuned, winner_from_row
from codegen.tuning.spaces.points import point_row
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import starts
from derive.matching import match
from einalg.errors import RecordError
from einalg.language import ops
from einalg.language.ir.program import as_program

SCOPE = ops.matmul(ea.tensor("A", (29, 40)), ea.tensor("B", (40, 35), role="weight"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    winners._stored.cache_clear()


def unit() -> CodeUnit:
    kernel = match(SCOPE, "O")
    assert kernel is not None
    return CodeUnit(kernel, SCOPE, frozenset({"B"}), digest="a unit")


def winner(**changes: Any) -> Winner:
    """Return a winner that the model would not choose: the loops."""
    compiler = find_compiler()
    assert compiler is not None
    start = next(start for start in starts(unit(), machine()) if start.space.name == "loops")
    point = point_row(replace(start.point, row=16))
    usual = Winner(Provenance.here(compiler), "a unit", str(SCOPE), "loops", point, 1e-3, 2e-3)
    return replace(usual, **changes)


def test_a_winner_is_used() -> None:
    assert tuned("a unit", starts(unit(), machine())) is None
    first = best_candidate(unit())
    assert first is not None and first.space.name == "contraction"
    winner().store()
    best = best_candidate(unit())
    assert best is not None and (best.space.name, best.point.row) == ("loops", 16)
    assert best_candidate(replace(unit(), digest="")) is not None


def test_winners_travel_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    winner().store()
    path = tmp_path / "tuned.json"
    path.write_text(exported())
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "elsewhere"))
    assert tuned("a unit", starts(unit(), machine())) is None and imported(path) == 1
    assert tuned("a unit", starts(unit(), machine())) is not None
    assert exported() == path.read_text()
    assert winner_from_row(json.loads(winner().text())) == winner()


@pytest.mark.parametrize("name", ["machine", "compiler", "code"])
def test_a_winner_of_elsewhere_is_not_used(name: str) -> None:
    other = replace(winner().provenance, **{name: "other"})
    winner(provenance=other).store()
    assert tuned("a unit", starts(unit(), machine())) is None


def test_each_compiler_has_its_winners() -> None:
    """The one that a program is compiled with decides, not the usual one."""
    usual = find_compiler()
    assert usual is not None
    other = usual.with_flags("-DOTHER")
    point = {**winner().point, "row": 32}
    winner(provenance=Provenance.here(other), point=point).store()
    best, without = best_candidate(unit(), other), best_candidate(unit(), usual)
    assert best is not None and (best.space.name, best.point.row) == ("loops", 32)
    assert without is not None and without.space.name == "contraction"
    problem = BuildProblem.of(as_program(SCOPE), [unit().kernel], other, DEFAULT, 60.0)
    digest = problem.unit(unit().kernel).digest
    winner(provenance=Provenance.here(other), point=point, unit=digest).store()
    assert problem.source(unit().kernel).library == GENERATED


def test_winners_of_an_older_schema_stay_at_home(tmp_path: Path) -> None:
    winner().store()
    older = replace(winner().provenance, schema=1, code="older")
    winner(provenance=older).store()
    path = tmp_path / "tuned.json"
    path.write_text(exported())
    assert imported(path) == 1


@pytest.mark.parametrize(
    "point", [{"row": 16}, {**winner().point, "row": "16"}, {**winner().point, "row": 1 << 20}]
)
def test_a_point_that_does_not_fit_is_left_out(
    point: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    winner(point=point).store()
    with caplog.at_level(logging.WARNING):
        assert tuned("a unit", starts(unit(), machine())) is None
    assert "a tuned kernel is left out" in caplog.text


def broken_files() -> list[str]:
    row = json.loads(winner().text())
    rows: list[Any] = [{**row, "seconds": 0}, {**row, "point": 3}, {**row, "unit": 3}, 4, {}]
    rows.append({**row, "provenance": {**row["provenance"], "schema": 1}})
    files = [json.dumps({"kernels": [row, bad]}) for bad in rows]
    return [*files, "", "[]", json.dumps({"kernels": 3})]


def test_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    for content in broken_files():
        path = tmp_path / "broken.json"
        path.write_text(content)
        with pytest.raises(RecordError):
            imported(path)
    with pytest.raises(RecordError, match="holds no tuned kernels"):
        imported(tmp_path / "missing.json")
    assert json.loads(exported())["kernels"] == []
