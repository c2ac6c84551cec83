"""Programs whose schedules are chosen by hand: steps, steps back, and what runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.program import by_hand
from codegen.program.by_hand import ProgramSchedule
from codegen.tuning.by_hand.moves import ScheduleMove
from codegen.tuning.measuring.task import LASTING, Outcome
from codegen.tuning.records.log import TuningLog
from codegen.tuning.search.measured_unit import MeasuredUnit
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import CodegenError, RuleError
from einalg.language.ir.program import as_program
from einalg.runtime.clock import Clock
from tests.helpers.batches import examples
from tests.helpers.kernels import check, evaluated, quick_compiler
from tests.helpers.random_programs import SLOW, programs_with_arrays

PAIR = "T[i,j] += A[i,k]*B[k,j]\nO[i,j] = Max(T[i,j], 0)"
SHAPES = {"A": (24, 24), "B": (24, 24)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "measuring_compiler", quick_compiler)


def schedule_of(expression: Any) -> ProgramSchedule:
    flat = lifted(as_program(expression))
    return ProgramSchedule(flat, kernels_of(flat), is_tuned=False)


def apply_some(schedule: ProgramSchedule, rng: Random, steps: int) -> None:
    for _ in range(steps):
        choices = schedule.choices()
        if choices:
            schedule.apply(rng.choice(choices).move)


@settings(max_examples=examples(3, 30), suppress_health_check=SLOW)
@given(programs_with_arrays(), st.integers(0, 1 << 30), st.integers(1, 5))
def test_any_steps_compute_the_program_and_are_taken_back(case: Any, seed: int, steps: int) -> None:
    program, arrays = case
    schedule = schedule_of(program)
    sources = [schedule.source()]
    for _ in range(steps):
        apply_some(schedule, Random(seed), 1)
        sources.append(schedule.source())
    results = schedule.executable()(**arrays)
    if not isinstance(results, dict):
        results = {program.outputs[0]: results}
    check(program, evaluated(program, arrays), results)
    there = [schedule.source()]
    while schedule.steps:
        schedule.undo()
        there.append(schedule.source())
    assert there == sources[::-1]
    while schedule.undone:
        schedule.redo()
    assert schedule.source() == sources[-1]


def test_an_operator_and_its_reader_are_one_kernel() -> None:
    schedule = schedule_of(ea.parse(PAIR, **SHAPES))
    (name,) = schedule.units
    assert name == "O" and schedule.unit(None).unit.readers
    assert schedule.unit("T") is schedule.unit("O")
    step = schedule.apply(ScheduleMove("O", None, (("rows", 2),)))
    assert step.after.point.rows == 2 and "O: rows=2" in str(step)
    arrays = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    np.testing.assert_array_equal(schedule.executable()(**arrays), np.full((24, 24), 24.0))


def test_equal_kernels_share_a_schedule() -> None:
    text = "T[i,j] += Abs(A[i,k]-B[k,j])\nO[i,j] += Abs(T[i,k]-B[k,j])"
    schedule = schedule_of(ea.parse(text, **SHAPES))
    (unit,) = schedule.units.values()
    assert unit.outputs == ("T", "O") and schedule.unit("O") is unit
    assert schedule.cycles == 2 * unit.candidate.cycles
    schedule.apply(ScheduleMove("O", "loops"))
    assert schedule.unit("T").candidate.space.name == "loops"
    arrays = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    np.testing.assert_array_equal(schedule.executable()(**arrays), np.full((24, 24), 24.0))


def test_the_kernel_is_named_where_there_are_several() -> None:
    schedule = schedule_of(ea.parse("T[i] += A[i,k]\nO[i,j] = T[i]*B[i,j]", **SHAPES))
    assert list(schedule.units) == ["T", "O"]
    with pytest.raises(RuleError, match="there are 2 kernels\n  say which: kernel='T' or 'O'"):
        schedule.unit(None)
    with pytest.raises(RuleError, match="there is no kernel 'U'"):
        schedule.unit("U")
    assert {choice.move.kernel for choice in schedule.choices("T")} == {"T"}
    assert {choice.name for choice in schedule.choices(name="unroll")} == {"unroll"}
    with pytest.raises(RuleError, match="no step is possible that is, or sets, 'order'"):
        schedule.choices("T", "order")


def test_cuda_text_of_one_kernel() -> None:
    text = "T[i,j] += A[i,k]*B[k,j]\nS[i,j] = Max(T[i,j], 0)\nO[i] += S[i,k]"
    schedule = schedule_of(ea.parse(text, **SHAPES))
    assert list(schedule.units) == ["S", "O"]
    whole = schedule.cuda_source()
    parts = [schedule.cuda_source(name) for name in ("S", "O")]
    assert [part.count("__global__") for part in (whole, *parts)] == [3, 2, 1]
    assert schedule.cuda_source("T") == parts[0]
    with pytest.raises(RuleError, match="there is no kernel 'P'"):
        schedule.cuda_source("P")


def test_what_depends_on_weights_alone_has_no_schedule() -> None:
    weights = ea.tensor("B", (24, 24), role="weight")
    text = "T[i,j] = 2*B[i,j]\nO[i,j] += A[i,k]*T[k,j]"
    schedule = schedule_of(ea.parse(text, A=(24, 24), B=weights))
    assert "T" not in schedule.units
    arrays = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    np.testing.assert_array_equal(schedule.executable()(**arrays), np.full((24, 24), 48.0))


def test_records_of_points() -> None:
    schedule = schedule_of(ea.parse("O[i,j] += A[i,k]*B[k,j]", **SHAPES))
    schedule.apply(ScheduleMove("O", None, (("rows", 2),)))
    assert schedule.other_points_at_first() == {}
    other = schedule_of(ea.parse("O[i,j] += A[i,k]*B[k,j]", **SHAPES))
    other.begin_from(schedule.points())
    assert other.source() == schedule.source() and other.points() == schedule.points()
    assert other.other_points_at_first() == schedule.points()
    with pytest.raises(ValueError, match="these numbers"):
        points = schedule.points()
        points["O"]["point"]["rows"] = 99
        other.begin_from(points)


def test_a_kernel_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        by_hand.MeasuredUnit,
        "outcomes",
        lambda self, compiled: dict.fromkeys(compiled, Outcome(reason="wrong values")),
    )
    schedule = schedule_of(ea.parse("O[i] = 2*A[i,0]", A=(24, 24)))
    with pytest.raises(CodegenError, match="kernel O was not measured: wrong values"):
        schedule.times()


KEPT_TEXT = "T[i,j] = 2*A[i,j]\nO[i,j] += T[i,k]*B[k,j]"


def refuses(monkeypatch: pytest.MonkeyPatch, batch: int) -> list[int]:
    """Have candidates take less in each batch, but the last one of a batch be wrong."""
    batches: list[int] = []

    def outcomes(self: MeasuredUnit, compiled: Mapping[int, Any]) -> dict[int, Outcome]:
        batches.append(len(compiled))
        made = {number: Outcome(1.0 / len(batches)) for number in compiled}
        if len(batches) == batch:
            made[max(made)] = Outcome(reason="wrong values", strikes=LASTING)
        return made

    monkeypatch.setattr(MeasuredUnit, "outcomes", outcomes)
    monkeypatch.setattr(MeasuredUnit, "compiled", lambda self, codes: codes)
    return batches


@pytest.mark.parametrize("batch", [2, 3])  # the schedule beside the start, and both at last
def test_a_refused_schedule_is_not_kept(
    batch: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    schedule = schedule_of(ea.parse("O[i,j] += A[i,k]*B[k,j]", **SHAPES))
    schedule.apply(ScheduleMove("O", None, (("rows", 2),)))
    refuses(monkeypatch, batch)
    with pytest.raises(CodegenError, match="kernel O was not measured: wrong values"):
        schedule.keep(Clock.of(60.0))
    refuses(monkeypatch, 0)
    assert "was compared" in schedule.keep(Clock.of(60.0)).units[0].reason, "it is measured anew"


def test_keeping_reads_the_log_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    schedule = schedule_of(ea.parse(KEPT_TEXT, **SHAPES))
    assert len(schedule.units) == 2
    batches, reads = refuses(monkeypatch, 0), []
    records = TuningLog.records
    monkeypatch.setattr(TuningLog, "records", lambda self: reads.append(self) or records(self))
    kept = schedule.keep(Clock.of(60.0))
    assert len(kept.units) == 2 and len(batches) == 2 and len(reads) == 1
    assert {unit.reason for unit in kept.units} == {by_hand.KEPT}


def test_a_schedule_without_time_was_not_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    schedule = schedule_of(ea.parse("O[i,j] += A[i,k]*B[k,j]", **SHAPES))
    schedule.apply(ScheduleMove("O", None, (("rows", 2),)))
    batches = refuses(monkeypatch, 0)
    clock = Clock.of(60.0, now=lambda: 100.0 * len(batches))
    assert [unit.reason for unit in schedule.keep(clock).units] == ["the time was over"]
