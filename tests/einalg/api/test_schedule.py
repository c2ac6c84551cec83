"""`ea.Schedule`: steps by hand in scripts and notebooks, what they show, and what is kept of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.by_hand import UnitTime
from codegen.program.compile import compile_program
from einalg.api.schedules.by_hand import ScheduleTime

TEXT = "O[i,j] += Abs(A[i,k] - B[k,j])"
SHAPES: dict[str, Any] = {"A": (12, 40), "B": (40, 32)}
SUMS = np.full((12, 32), 80.0)  # what it computes of `arrays`


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(folder))


def schedule(**options: Any) -> Any:
    return ea.Schedule(TEXT, **SHAPES, **options)


def arrays() -> dict[str, np.ndarray]:
    values = {"A": 3.0, "B": 1.0}
    return {name: np.full(shape, values[name], np.float32) for name, shape in SHAPES.items()}


def test_steps_are_applied_and_taken_back() -> None:
    s = schedule(tuned=False)
    start, source = s.points, s.source()
    s.tile(rows=2)
    s.apply(s.moves(name="depth")[0])
    s.apply(s.moves(name="block")[0].number)
    assert len(s.history) == 3 and s.points != start
    assert str(s.history).startswith("1. O: rows=2") and "cycles ->" in str(s.history)
    s.undo(3)
    assert s.points == start and s.source() == source and str(s.history) == "no step yet"
    assert len(s.redo().redo().history) == 2 and "2 steps, 1 taken back" in str(s)
    s.kind("loops")
    assert s.points["O"]["space"] == "loops"
    with pytest.raises(ea.RuleError, match=r"no step was taken back\n  take one back first"):
        s.redo()


def test_named_steps_set_their_own_numbers() -> None:
    s = schedule(tuned=False)
    s.stage(pack_left=True)
    s.split(depth=8, block=2)
    s.kind("loops")
    s.unroll(unroll=16)
    assert s.history[-1].after.point.unroll == 16
    for call in (s.vectorize, s.fuse, s.reorder, s.tile, s.stage, s.split):
        with pytest.raises(ea.RuleError, match=r"does not set unroll.*\n  write s.set\(unroll=4\)"):
            call(unroll=4)
    with pytest.raises(ea.RuleError, match="no number is given"):
        s.tile()


def test_source_loops_and_estimate() -> None:
    s = schedule()
    assert "kernel_0" in s.source(kernel="O") and "__global__" in s.source("cuda")
    assert "\nfor i in 0.." in s.loops() and "O[" in s.loops("O")
    fast = s.estimate()
    s.tile(rows=1)
    assert s.estimate() > fast > 0 and s.kernels == ("O",)


def test_what_runs_is_what_was_chosen() -> None:
    s = schedule()
    s.tile(rows=2)
    np.testing.assert_array_equal(s.compile()(**arrays()), SUMS)


def test_times_are_those_of_a_run() -> None:
    times = ScheduleTime((UnitTime("T", 3, 1e-3, 2e-3), UnitTime("O", 1, 2e-3, 4e-3)))
    assert str(times) == "10 ms at first, 5 ms now (2.00x)" and times.gain == 2


@pytest.mark.nightly  # notebook 10 keeps one in each run
def test_a_schedule_is_kept() -> None:
    s = schedule(tuned=False)
    s.tile(rows=1)
    tuning = s.keep()
    assert len(tuning.units) == 1 and not tuning.refused
    assert "the schedule was compared" in tuning.reason
    kept = ea.Schedule(TEXT, **SHAPES)
    winner = tuning.units[0].winner
    assert kept.points["O"]["space"] == winner.space.name
    np.testing.assert_array_equal(compile_program(ea.parse(TEXT, **SHAPES))(**arrays()), SUMS)


def test_a_saved_schedule_goes_on(tmp_path: Path) -> None:
    s = schedule()
    s.tile(rows=2)
    s.save(tmp_path / "schedule.json")
    again = ea.Schedule.load(tmp_path / "schedule.json")
    assert again.points == s.points and again.source() == s.source()
    assert str(again.history) == str(s.history) and again.undo().points == s.undo().points
    assert ea.Schedule.load(tmp_path / "schedule.json").to_json() == again.redo().to_json()


@pytest.mark.parametrize(
    "old, new", [('"rows": 2', '"rows": 999'), ('"steps"', '"stops"'), ('"values"', '"value"')]
)
def test_a_broken_record_is_refused(tmp_path: Path, old: str, new: str) -> None:
    s = schedule(tuned=False)
    s.tile(rows=2)
    path = tmp_path / "schedule.json"
    path.write_text(s.to_json().replace(old, new))
    with pytest.raises(ea.RecordError, match=r"cannot be applied: .+\n  load it"):
        ea.Schedule.load(path)


def test_a_script_does_it_again(tmp_path: Path) -> None:
    """Where the start is not that of the model, the script begins with all of its numbers."""
    s = schedule(tuned=False)
    rows = s.points["O"]["point"]["rows"]
    s.tile(rows=2)
    assert 's.set(kernel="O", rows=2)' in s.script()
    path = tmp_path / "schedule.json"
    path.write_text(s.to_json().replace(f'"rows": {rows}', '"rows": 1'))
    other = ea.Schedule.load(path)
    assert "rows=1" in other.script()
    other.kind("loops")
    other.set(row=16)
    for one in (s, other):
        names: dict[str, Any] = {}
        exec(one.script(), names)
        assert names["s"].points == one.points


def test_phases_have_numbers_of_their_own() -> None:
    data, weights = ea.tensor("A", (1, 4, 4, 16)), ea.tensor("K", (16, 8, 4, 4))
    s = ea.Schedule(ea.ops.conv_transpose2d(data, weights, stride=2, padding=1, layout="NHWC"))
    s.kind("phases")
    s.set(part=1, order=0, rows=2)
    parts = s.points[s.kernels[0]]["point"]["parts"]
    assert parts[1]["rows"] == 2 and parts[0]["rows"] != 2
    s.set(rows=1)
    assert {part["rows"] for part in s.points[s.kernels[0]]["point"]["parts"]} == {1}
    with pytest.raises(ea.RuleError, match="part 0: "):
        s.set(rows=12, vectors=12)
    with pytest.raises(ea.RuleError, match="there is no part 9"):
        s.set(part=9, rows=1)
    names: dict[str, Any] = {}
    exec(s.script(), names)
    assert names["s"].points == s.points


def test_a_notebook_shows_numbers_loops_and_source() -> None:
    s = schedule()
    s.tile(rows=2)
    html = s._repr_html_()
    for part in ("rows of the tile of sums", "<summary>loops", "kernel_0", "History: 1 step"):
        assert part in html
    assert "<table>" in s.moves()._repr_html_()


def test_a_candidate_of_a_derivation_is_scheduled() -> None:
    best = ea.derive(ea.parse(TEXT, **SHAPES), measure=False, states=3).best
    s = ea.Schedule(best)
    np.testing.assert_array_equal(s.compile()(**arrays()), SUMS)
