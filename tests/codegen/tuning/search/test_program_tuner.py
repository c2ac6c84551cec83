"""A search of several units at once, on times that are made up: who has which trials."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import pytest

import einalg as ea
from codegen.targets.c.compiler import find_compiler
from codegen.tuning.measuring.compilation import CandidateCompiler
from codegen.tuning.measuring.task import Outcome
from codegen.tuning.records.log import TuningLog
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.search import strategies
from codegen.tuning.search.measured_unit import MeasuredUnit
from codegen.tuning.search.program_tuner import (
    FAST_ENOUGH,
    INTERRUPTED,
    TRIALS_OVER,
    TuningPlan,
    tune_units,
)
from codegen.tuning.search.strategies import STRATEGIES
from codegen.tuning.search.targets import ProcessorTarget
from codegen.tuning.search.task_scheduler import Scheduler, by_gradient, in_turns
from codegen.tuning.search.tuner import BATCH, UnitTuning, UntunedUnit
from codegen.tuning.spaces.loops import LoopsSpace
from codegen.tuning.spaces.unit import CodeUnit, RepeatedUnit
from einalg.api.schedules.tuning import Tuning
from einalg.language.ir.kernel import EOP, Kernel
from einalg.runtime.clock import Clock

SIZES = (5, 20, 80, 320)
COUNTS = (9, 1, 2, 1)  # of a run
FIRST_MS = (4.0, 1.0, 0.5, 0.5)
TRIALS = 25


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(strategies, "POPULATION", 8)
    monkeypatch.setattr(strategies, "GENERATIONS", 1)
    monkeypatch.setattr(LoopsSpace, "cycles", lambda space, point: 1.0)


def units() -> list[RepeatedUnit]:
    repeated: list[RepeatedUnit] = []
    for size, times in zip(SIZES, COUNTS):
        scope = ea.parse("O[i] = exp(A[i])", A=(size,))
        kernel = Kernel(EOP, {}, ("A",), "O", scope=scope)
        repeated.append(RepeatedUnit(CodeUnit(kernel, scope, digest=str(size)), times))
    return repeated


class Sinking:
    """Times that sink with each candidate of a unit that is measured, to half of the first."""

    def __init__(self, stops_after: float = inf) -> None:
        self.made, self.measured, self.stops_after = dict.fromkeys(SIZES, 0), 0, stops_after

    def outcomes(self, own: MeasuredUnit, codes: Mapping[int, Any]) -> dict[int, Outcome]:
        (size,) = own.unit.scope.shape
        outcomes: dict[int, Outcome] = {}
        for number in codes:
            outcomes[number] = Outcome(self.seconds(size))
            if number >= 0:
                self.made[size] += 1
                self.measured += 1
            if self.measured > self.stops_after:
                self.stops_after = inf
                raise KeyboardInterrupt
        return outcomes

    def seconds(self, size: int) -> float:
        return FIRST_MS[SIZES.index(size)] * 1e-3 * (0.5 + 0.5 * 0.97 ** self.made[size])


def search(
    monkeypatch: pytest.MonkeyPatch,
    times: Sinking,
    scheduler: Scheduler = by_gradient,
    latency: float = 0.0,
    trials: int = TRIALS,
) -> list[UnitTuning | UntunedUnit]:
    compiler = find_compiler()
    assert compiler is not None
    monkeypatch.setattr(MeasuredUnit, "compiled", lambda own, functions: functions)
    monkeypatch.setattr(MeasuredUnit, "is_first", lambda own, candidate: True)
    monkeypatch.setattr(MeasuredUnit, "outcomes", lambda own, codes: times.outcomes(own, codes))
    log = TuningLog.here(Provenance.here(compiler))
    compiling = CandidateCompiler(compiler, Path(), 60.0)
    strategy = STRATEGIES["random"]()
    plan = TuningPlan(ProcessorTarget(compiling), log, strategy, trials, 0, latency, scheduler)
    return tune_units(units(), plan, Clock.of(1e9, now=map(float, count()).__next__))


def whole(results: list[UnitTuning | UntunedUnit]) -> Tuning:
    tuned = [result for result in results if isinstance(result, UnitTuning)]
    assert len(tuned) == len(results)
    return Tuning(tuned, [], Path())


def test_the_gradient_reaches_the_end_of_turns_in_fewer_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = whole(search(monkeypatch, Sinking(), in_turns))
    gradient = whole(search(monkeypatch, Sinking(), by_gradient))
    assert len(turns.curve) == len(gradient.curve) == TRIALS * len(SIZES)
    end = turns.curve[-1][2]
    reached = next(trial for trial, _, seconds in gradient.curve if seconds <= end)
    assert reached <= 0.6 * TRIALS * len(SIZES)
    heavy, *others = gradient.units
    assert heavy.share.rounds > 2 * max(unit.share.rounds for unit in others)
    assert {unit.reason for unit in gradient.units} == {TRIALS_OVER}
    assert [unit.share.count for unit in gradient.units] == list(COUNTS)


def test_a_search_ends_at_its_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Sinking()
    tuning = whole(search(monkeypatch, times, latency=32e-3))
    assert tuning.reason == FAST_ENOUGH and tuning.curve[-1][2] <= 32e-3
    assert len(tuning.curve) < TRIALS * len(SIZES)


def test_an_interrupt_keeps_what_all_units_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a batch: what was measured before is compared with the starts, and stored."""
    results = search(monkeypatch, Sinking(stops_after=len(SIZES) + BATCH + 3))
    tuning = whole(results)
    assert [unit.trials for unit in tuning.units] == [1 + BATCH, 1, 1, 1]
    assert tuning.reason == INTERRUPTED


def test_what_had_no_round_is_untuned(monkeypatch: pytest.MonkeyPatch) -> None:
    results = search(monkeypatch, Sinking(stops_after=1))
    assert isinstance(results[0], UnitTuning) and results[1:] == [UntunedUnit({}, INTERRUPTED)] * 3
