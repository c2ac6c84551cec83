"""`ea.optimize(…, tune=…)`: what was found is compiled with schedules that were searched for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.hardware.cpu import machine
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.problem import BuildProblem
from codegen.targets.c.compiler import find_compiler
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.records.winners import Winner
from codegen.tuning.spaces.points import point_row
from codegen.tuning.spaces.unit_spaces import starts
from derive.programs import OptimizedNetwork
from derive.programs.optimization import optimize
from einalg.api.backend import LocalBackend
from einalg.api.models import network
from einalg.runtime.clock import Clock
from einalg.runtime.measurement import Turn, measurement

PROGRAM = ea.parse("O[i,j] += Abs(A[i,k] - B[k,j])", A=(24, 40), B=(40, 48))
ARRAYS = {"A": np.ones((24, 40), np.float32), "B": np.zeros((40, 48), np.float32)}
WORDS = "1 kernel with a schedule that was found"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))


def store_other_loops(backend: LocalBackend, programs: Any, clock: Clock) -> str:
    """Store loops that nothing is written out in as the fastest, as a search might."""
    compiler = find_compiler()
    assert compiler is not None
    ((program, kernels, count),) = programs
    assert count == 1
    problem = BuildProblem.of(program, kernels, compiler, DEFAULT, 60.0)
    unit = problem.unit(problem.kernels[0])
    loops = next(start for start in starts(unit, machine()) if start.space.name == "loops")
    point = {**point_row(loops.point), "unroll": 1, "row": 8, "tile": 8}
    here = Provenance.here(compiler)
    Winner(here, unit.digest, "O", "loops", point, 1e-3, 2e-3).store()
    return WORDS


def faster_at_last(backend: LocalBackend, runs: Any, arrays: Any) -> list[Any]:
    return [measurement([Turn(1.0 / number)] * 3) for number in range(1, len(runs) + 1)]


def slower_at_last(backend: LocalBackend, runs: Any, arrays: Any) -> list[Any]:
    return [measurement([Turn(float(number))] * 3) for number in range(1, len(runs) + 1)]


def identity(optimized: ea.Optimized) -> str | None:
    """Return a digest of the kernels that run."""
    (part,) = optimized.parts.values()
    assert part.identity is not None
    return part.identity


@pytest.mark.parametrize("measure, is_taken", [(faster_at_last, True), (slower_at_last, False)])
def test_kernels_that_are_faster_take_the_places_of_others(
    measure: Any, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = identity(ea.optimize(PROGRAM, ARRAYS, seconds=0))
    monkeypatch.setattr(LocalBackend, "tune", store_other_loops)
    monkeypatch.setattr(LocalBackend, "measure", measure)
    tuned = ea.optimize(PROGRAM, ARRAYS, seconds=1e6, tune=1e6)
    assert (identity(tuned) != plain) == is_taken and WORDS in str(tuned.report)
    np.testing.assert_array_equal(tuned(**ARRAYS), np.full((24, 48), 40.0))


def test_kernels_with_other_values_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = identity(ea.optimize(PROGRAM, ARRAYS, seconds=0))
    monkeypatch.setattr(LocalBackend, "tune", store_other_loops)
    monkeypatch.setattr(LocalBackend, "measure", faster_at_last)
    monkeypatch.setattr(optimize.ReferenceCall, "error", lambda example, run: 0.5)
    tuned = ea.optimize(PROGRAM, ARRAYS, seconds=1e6, tune=1e6)
    assert identity(tuned) == plain and "deviates by 5.0e-01" in caplog.text


def test_no_time_for_schedules_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a search that keeps its starts."""
    asked: list[float] = []

    def tune(backend: LocalBackend, programs: Any, clock: Clock) -> None:
        asked.append(clock.left)

    monkeypatch.setattr(LocalBackend, "tune", tune)
    ea.optimize(PROGRAM, ARRAYS, seconds=0)
    assert not asked
    optimized = ea.optimize(PROGRAM, ARRAYS, seconds=1e6, tune=1e5)
    assert 0 < asked[0] <= 1e5 and "schedule" not in str(optimized.report)


@pytest.mark.parametrize("spent, is_taken", [(90.0, True), (110.0, False)])
def test_what_is_known_is_compiled_with_tuned_kernels_where_time_is_left(
    spent: float, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a framework could go on running it. Without time, the report says what is left."""
    model, now = network(PROGRAM, ARRAYS), [0.0]

    def optimized(**options: Any) -> OptimizedNetwork:
        clock = Clock.of(100.0, 0.0, lambda: now[0])
        backend: Any = LocalBackend()
        return optimize.optimized(
            model.graph, model.arrays, backend, 100.0, clock=clock, may_give_up=True, **options
        )

    def tune(backend: LocalBackend, programs: Any, clock: Clock) -> str:
        now[0] = spent
        return store_other_loops(backend, programs, clock)

    plain = optimized().identity()
    monkeypatch.setattr(LocalBackend, "tune", tune)
    monkeypatch.setattr(LocalBackend, "measure", faster_at_last)
    tuned = optimized(tune=60.0)
    assert (tuned.identity() != plain) == is_taken
    assert tuned.notes == ((WORDS,) if is_taken else (WORDS + optimize.UNUSED_SCHEDULES,))


@pytest.mark.nightly
def test_a_network_is_optimized_with_its_schedules() -> None:
    optimized = ea.optimize(PROGRAM, ARRAYS, seconds=60, tune=40)
    np.testing.assert_array_equal(optimized(**ARRAYS), np.full((24, 48), 40.0))
    assert "schedule" in str(optimized.report) or ea.tune(optimized, seconds=0).left_out == 1
