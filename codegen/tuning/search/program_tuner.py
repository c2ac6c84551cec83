"""A search of all units of a program, which share its trials and its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from random import Random

from codegen.tuning.cost_model.samples import Sample, recorded_samples
from codegen.tuning.measuring.task import Outcome
from codegen.tuning.records.log import TuningLog
from codegen.tuning.records.winners import Winner, winner_of
from codegen.tuning.search.history import SearchHistory
from codegen.tuning.search.measured_unit import known_unit, statement_text
from codegen.tuning.search.strategies import Strategy
from codegen.tuning.search.targets import SearchTarget
from codegen.tuning.search.task_scheduler import (
    Scheduler,
    TuningTask,
    by_gradient,
    promised_seconds,
    run_seconds,
)
from codegen.tuning.search.tuner import (
    BATCH,
    NOTHING_NEW,
    UnitShare,
    UnitTuner,
    UnitTuning,
    UntunedUnit,
)
from codegen.tuning.spaces.points import point_row
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import RepeatedUnit
from einalg.runtime.clock import SEARCHING, Clock, check_time
from einalg.text.wording import counted

FINAL_SHARE = 0.85  # of the time, after which no batch begins
MIN_FINAL_SECONDS = 5.0  # that comparing the winners with the starts may take
TRIALS_OVER, TIME_OVER = "all trials were made", "the time was over"
INTERRUPTED = "it was interrupted"
FAST_ENOUGH = "a run is expected to be as fast as was asked for"


@dataclass(frozen=True)
class TuningPlan:
    """How units are searched.

    They have `trials` each on average, and the `scheduler` says which one is next. The search ends
    once a run of all of them is expected to take no more seconds than the `latency`.
    """

    target: SearchTarget
    log: TuningLog
    strategy: Strategy
    trials: int
    seed: int = 0
    latency: float = 0.0
    scheduler: Scheduler = by_gradient


@dataclass
class ProgramTuner:
    """A search that is under way; `tuners` has those units that had a round."""

    units: Sequence[RepeatedUnit]
    plan: TuningPlan
    clock: Clock
    tasks: list[TuningTask]
    tuners: dict[int, UnitTuner] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)  # why units ended before the others
    spent: dict[int, float] = field(default_factory=dict)  # seconds, by the number of the unit
    samples: list[Sample] = field(default_factory=list)  # of these units, and of earlier searches

    @classmethod
    def of(cls, units: Sequence[RepeatedUnit], plan: TuningPlan, clock: Clock) -> ProgramTuner:
        tasks: list[TuningTask] = []
        for own in units:
            kind = own.unit.kernel.op, own.unit.dtype
            tasks.append(TuningTask(own.count, own.unit.points, kind))
        samples: list[Sample] = []
        if plan.strategy.learns:
            samples = recorded_samples(plan.log.own_code())
        return cls(units, plan, clock, tasks, samples=samples)

    @property
    def made(self) -> int:
        """Return the trials that were made."""
        return sum(tuner.made for tuner in self.tuners.values())

    def search(self) -> str:
        """Search unit by unit, and return why there are no more rounds."""
        reason = TIME_OVER
        with self.clock.within(FINAL_SHARE * self.clock.left).bounding():
            reason = self._rounds()
        if self.clock.course.is_stopped:
            return INTERRUPTED
        return reason

    def _rounds(self) -> str:
        while (number := self.plan.scheduler(self.tasks)) is not None:
            left = self.plan.trials * len(self.units) - self.made
            if left <= 0:
                return TRIALS_OVER
            if run_seconds(self.tasks) <= self.plan.latency:
                return FAST_ENOUGH
            check_time()
            began = self.clock.now()
            try:
                self._round(number, min(BATCH, left))
            finally:
                seconds = self.spent.get(number, 0.0) + self.clock.now() - began
                self.spent[number] = seconds
            self._tell_best()
        return NOTHING_NEW

    def _round(self, number: int, count: int) -> None:
        """Measure candidates of a unit, so many at most; the first round is that of its start."""
        if number not in self.tuners:
            self.tuners[number] = self._tuner(self.units[number])
        tuner, task = self.tuners[number], self.tasks[number]
        end = tuner.measure_start() if not task.rounds else tuner.measure_batch(count)
        task.best.append(tuner.best_seconds)
        if end is not None:
            task.is_done, self.reasons[number] = True, end

    def _tell_best(self) -> None:
        """Say what a run takes with the best of those units that were measured."""
        measured = [task for task in self.tasks if task.seconds < inf]
        of = ""
        if len(measured) < len(self.tasks):
            of = f" for {len(measured)} of {counted(len(self.tasks), 'kernel')}"
        if measured:
            best = f"{run_seconds(measured) * 1e3:.3g} ms{of} after {counted(self.made, 'trial')}"
            self.clock.course.tell_best(best)

    def _tuner(self, own: RepeatedUnit) -> UnitTuner:
        """Return the search of a unit that has not measured anything yet."""
        plan, unit = self.plan, own.unit
        firsts = plan.target.starts(unit)
        knowledge = known_unit(unit, self.samples, plan.target.cache_bytes)
        with self.clock.phase(SEARCHING, statement_text(unit)):
            measured = plan.target.measured(own, plan.log, knowledge)
        recorded, refused = measured.recorded(firsts)
        known = winner_of(unit.digest, firsts, plan.log.provenance)
        if known is not None:
            recorded.insert(0, known)
        history = SearchHistory(
            firsts,
            Random(plan.seed),
            recorded[:BATCH],
            seen=refused,
            knowledge=knowledge,
        )
        return UnitTuner(measured, history, plan.strategy, self.clock)

    def results(self, reason: str) -> list[UnitTuning | UntunedUnit]:
        """Return what came of each unit, and have later compilations use the winners.

        Those that gained most are compared with what is used so far first.
        """
        limit = self.clock.finishing().at_least(MIN_FINAL_SECONDS)
        results: dict[int, UnitTuning | UntunedUnit] = {}
        for number in sorted(range(len(self.units)), key=self._gain, reverse=True):
            results[number] = self._result(number, reason, limit)
        return [results[number] for number in range(len(self.units))]

    def outcome(self, number: int, candidate: CodeCandidate) -> Outcome | None:
        """Return what came of a candidate of a unit last; None where it was not measured."""
        if number not in self.tuners:
            return None
        return self.tuners[number].outcome(candidate)

    def _gain(self, number: int) -> float:
        """Return the seconds of a run that the search of a unit has saved."""
        task = self.tasks[number]
        if task.seconds == inf:
            return 0.0
        first = next(seconds for seconds in task.best if seconds < inf)
        return task.count * (first - task.seconds)

    def _result(self, number: int, reason: str, limit: Clock) -> UnitTuning | UntunedUnit:
        tuner = self.tuners.get(number)
        if tuner is None:
            return UntunedUnit({}, reason)
        result = tuner.result(self.reasons.get(number, reason), limit)
        if isinstance(result, UntunedUnit):
            return result
        if result.is_stored:
            self._store(number, result)
        task = self.tasks[number]
        promised = promised_seconds(task, self.tasks)
        share = UnitShare(task.count, task.rounds, self.spent[number], promised)
        return replace(result, share=share)

    def _store(self, number: int, tuning: UnitTuning) -> None:
        Winner(
            self.plan.log.provenance,
            self.units[number].unit.digest,
            tuning.statement,
            tuning.winner.space.name,
            point_row(tuning.winner.point),
            tuning.seconds,
            tuning.start_seconds,
        ).store()


def tune_units(
    units: Sequence[RepeatedUnit], plan: TuningPlan, clock: Clock
) -> list[UnitTuning | UntunedUnit]:
    """Search for the fastest schedules of units, and have later compilations use them.

    Candidates are measured while there are trials and the clock's time lasts; an interrupt keeps
    the best so far. A unit stays untuned where none was measured.
    """
    tuner = ProgramTuner.of(units, plan, clock)
    return tuner.results(tuner.search())
