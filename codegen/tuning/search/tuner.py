"""The search for the fastest schedule of one unit, round by round; at last it meets its start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf

from codegen.tuning.cost_model.quality import ModelQuality
from codegen.tuning.measuring.task import LASTING, Outcome
from codegen.tuning.records.winners import forget_stored, winner_of
from codegen.tuning.search.finalists import Finalists
from codegen.tuning.search.history import ScheduleTrial, SearchHistory
from codegen.tuning.search.measured_unit import Code, MeasuredUnit, Written, statement_text
from codegen.tuning.search.strategies import Strategy
from codegen.tuning.spaces.space import CodeCandidate, Identity, identity
from einalg.runtime.clock import COMPILING, MEASURING, SEARCHING, Clock, check_time

MAX_SLOWDOWN = 1.25  # of the incumbent, above which a batch runs once more
INCUMBENT = -1  # the number of the fastest so far in a batch
BATCH = 8  # candidates, which are compiled and run together
PROPOSED = 4  # times as many, of which some have the code of others
MAX_EMPTY_BATCHES = 4  # of which all had the code of others, after which nothing is new
NOTHING_NEW = "nothing new was left to measure"
NO_VALUES = "the start was refused, and there are no other values to compare with"
UNCONFIRMED = "the last comparison failed, so what later compilations use stays"
UNCOMPARED = "the last comparison did not take place, so what later compilations use stays"
FAILED_BATCH = Outcome(reason="the fastest so far failed beside it")
Curve = Sequence[tuple[int, float, float]]


@dataclass(frozen=True)
class UnitShare:
    """What a unit had of a search: its rounds, and the seconds that these took.

    A run computes the unit `count` times. `promised` are the seconds of a run that another round is
    expected to save: rounds went where that was most.
    """

    count: int = 1
    rounds: int = 0
    seconds: float = 0.0
    promised: float = 0.0


@dataclass(frozen=True)
class UnitTuning:
    """What came of a unit: its start and its winner with their seconds, and how they were found.

    `curve` has, for each trial, its number, the seconds since the clock began, and those of the
    best candidate so far. `refused` says how many were refused for which reason. `reason` says why
    the search ended. Where it `is_stored`, later compilations use the winner. `share` says what it
    had of the search of a whole program, whose clock the curve has. `ranking` says how well the
    learned model ranks; None where the strategy learns nothing, or there was too little to learn.
    """

    statement: str
    start: CodeCandidate
    winner: CodeCandidate
    start_seconds: float
    seconds: float
    trials: int
    curve: Curve
    refused: Mapping[str, int]
    reason: str
    is_stored: bool = True
    share: UnitShare = UnitShare()
    ranking: ModelQuality | None = None

    @property
    def gain(self) -> float:
        """Return how many times as fast as the start the winner is."""
        return self.start_seconds / self.seconds


@dataclass(frozen=True)
class UntunedUnit:
    """A unit of which no time is known: what was `refused`, by the reason, and the `reason` why its
    search ended.
    """

    refused: Mapping[str, int]
    reason: str


@dataclass
class UnitTuner:
    """A search that is under way."""

    measured: MeasuredUnit
    history: SearchHistory
    strategy: Strategy
    clock: Clock
    codes: dict[Identity, Code] = field(default_factory=dict)
    last: Mapping[Identity, Outcome] = field(default_factory=dict)  # of the last comparison

    @property
    def start(self) -> CodeCandidate:
        return self.history.starts[0]

    @property
    def incumbent(self) -> CodeCandidate:
        best = self.history.best
        if best is None:
            return self.start
        return best.candidate

    @property
    def best_seconds(self) -> float:
        """Return the seconds of the best so far; infinity before the first measurement."""
        best = self.history.best
        if best is None or best.seconds is None:
            return inf
        return best.seconds

    def measure_start(self) -> str | None:
        """Measure the start; return why there is no other round, None where there may be."""
        self._measure([self.start], 1)
        if not self.measured.has_expected:
            return NO_VALUES
        return None

    def measure_batch(self, count: int) -> str | None:
        """Measure so many other candidates at most.

        Returns why there is no other round, None where there may be.
        """
        for _ in range(MAX_EMPTY_BATCHES):
            with self.clock.phase(SEARCHING, f"trial {self.made + 1}"):
                candidates = self.strategy.propose(self.history, PROPOSED * count)
            if not candidates:
                break
            if self._measure(candidates, count):
                return None
        return NOTHING_NEW

    @property
    def made(self) -> int:
        """Return the trials that were made."""
        return len(self.history.trials)

    def _measure(self, candidates: Sequence[CodeCandidate], count: int) -> int:
        """Measure so many candidates in turns with the incumbent; return how many trials it took.

        Those without code are trials too.
        """
        check_time()
        before = self.made
        batch = self._with_code(candidates, count)
        if batch:
            self._measure_batch(batch)
        return self.made - before

    def _measure_batch(self, batch: Mapping[CodeCandidate, Written]) -> None:
        codes: dict[int, Code] = {}
        if self.history.best is not None:
            codes[INCUMBENT] = self.codes[identity(self.incumbent)]
        with self.clock.phase(COMPILING, f"{len(batch)} candidates"):
            codes |= self.measured.compiled(dict(enumerate(batch.values())))
        for number, candidate in enumerate(batch):
            self.codes[identity(candidate)] = codes[number]
        with self.clock.phase(MEASURING, f"{len(batch)} candidates"):
            outcomes = self._outcomes(codes)
        for number, candidate in enumerate(batch):
            self._add(candidate, outcomes[number])

    def _with_code(
        self, candidates: Sequence[CodeCandidate], count: int
    ) -> dict[CodeCandidate, Written]:
        """Return the first candidates that have code which no other one has.

        With those that are refused, since they have none, they are so many at most.
        """
        batch: dict[CodeCandidate, Written] = {}
        most = self.made + count
        for candidate in candidates:
            if self.made + len(batch) == most:
                break
            self.history.see(candidate)
            function = self.measured.built(candidate)
            if isinstance(function, Outcome):
                self._add(candidate, function)
            elif self.measured.is_first(candidate):
                batch[candidate] = function
        return batch

    def _outcomes(self, codes: Mapping[int, Code]) -> Mapping[int, Outcome]:
        """Return what came of a batch; the lower times of two, where the machine was busy.

        The incumbent tells that: it takes much longer than before, or is refused. Where it is
        refused twice, the batch says nothing of the others but what follows from their code.
        """
        outcomes, best = self.measured.outcomes(codes), self.history.best
        if best is None or best.seconds is None:
            return outcomes
        if (outcomes[INCUMBENT].score or inf) <= MAX_SLOWDOWN * best.seconds:
            return outcomes
        runs = [outcomes, self.measured.outcomes(codes)]
        right = [run for run in runs if run[INCUMBENT].score is not None]
        if not right:
            self._refuse(best, [run[INCUMBENT] for run in runs])
            of_code = {number: one for number, one in outcomes.items() if one.strikes}
            return dict.fromkeys(codes, FAILED_BATCH) | of_code
        return {number: reduce(_lower, (run[number] for run in right)) for number in codes}

    def _refuse(self, incumbent: ScheduleTrial, outcomes: Sequence[Outcome]) -> None:
        """Refuse the fastest so far where what came of it since follows from its code."""
        if sum(outcome.strikes for outcome in outcomes) < LASTING:
            return
        for outcome in outcomes:
            self.measured.record(incumbent.candidate, outcome)
        worst = max(outcomes, key=lambda outcome: outcome.strikes)
        refused = replace(incumbent, outcome=worst, seconds=None)
        self.history.trials[incumbent.number - 1] = refused

    def _add(self, candidate: CodeCandidate, outcome: Outcome) -> None:
        elapsed = self.clock.spent
        trial = ScheduleTrial(candidate, outcome, self.made + 1, elapsed, outcome.score)
        self.history.trials.append(trial)
        self.measured.record(candidate, outcome)

    def result(self, reason: str, limit: Clock) -> UnitTuning | UntunedUnit:
        """Return what came of it.

        The start, the winner that is stored, and the best candidate run once more in turns, in
        another process. Where time does not suffice for that, the times of the batches decide.
        """
        best = self.history.best
        if best is None:
            return UntunedUnit(self._refused(), reason)
        finalists = Finalists(self._right_start(), self._stored(), best.candidate)
        self.last = self._final(finalists.candidates, limit)
        choice = finalists.choice(self.last or self._batch_outcomes())
        if choice is None:
            return UntunedUnit(self._refused(), UNCONFIRMED)
        if not choice.confirmed:
            reason = UNCONFIRMED if self.last else UNCOMPARED
        return UnitTuning(
            statement_text(self.measured.unit),
            self.start,
            choice.winner,
            choice.start_seconds,
            choice.seconds,
            self.made,
            self._curve(),
            self._refused(),
            reason,
            choice.confirmed,
            ranking=self.history.knowledge.checked.quality,
        )

    def outcome(self, candidate: CodeCandidate) -> Outcome | None:
        """Return what came of a candidate last; None where it was not measured."""
        trial = self.history.trial_of(candidate)
        if identity(candidate) in self.last:
            return self.last[identity(candidate)]
        return None if trial is None else trial.outcome

    def _right_start(self) -> CodeCandidate | None:
        """Return the start; None where it was refused for what its code does."""
        if self.history.trials[0].outcome.strikes:
            return None
        return self.start

    def _batch_outcomes(self) -> Mapping[Identity, Outcome]:
        """Return what came of the candidates in the batches."""
        return {identity(trial.candidate): trial.outcome for trial in self.history.trials}

    def _stored(self) -> CodeCandidate | None:
        """Return the winner that is stored now: another process may have found one meanwhile."""
        forget_stored()
        measured = self.measured
        return winner_of(measured.unit.digest, self.history.starts, measured.log.provenance)

    def _final(
        self, candidates: Sequence[CodeCandidate], limit: Clock
    ) -> Mapping[Identity, Outcome]:
        """Return what comes of candidates in one process.

        Nothing where there is a single one, or time does not suffice.
        """
        outcomes: Mapping[int, Outcome] = {}
        if len(candidates) == 1:
            return {}
        with limit.bounding():
            check_time()
            codes = {number: self._code(candidate) for number, candidate in enumerate(candidates)}
            outcomes = self.measured.outcomes(codes)
        return {identity(candidates[number]): outcome for number, outcome in outcomes.items()}

    def _code(self, candidate: CodeCandidate) -> Code:
        """Return the machine code of a candidate, which may come from an earlier search."""
        name = identity(candidate)
        if name not in self.codes:
            function = self.measured.built(candidate)
            if isinstance(function, Outcome):
                return function
            self.codes[name] = self.measured.compiled({0: function})[0]
        return self.codes[name]

    def _curve(self) -> Curve:
        points: list[tuple[int, float, float]] = []
        best = float("inf")
        for trial in self.history.trials:
            if trial.seconds is not None:
                best = min(best, trial.seconds)
            if best < float("inf"):
                points.append((trial.number, trial.elapsed, best))
        return tuple(points)

    def _refused(self) -> Mapping[str, int]:
        reasons = [trial.outcome.reason for trial in self.history.trials]
        return Counter(reason for reason in reasons if reason is not None)


def _lower(one: Outcome, other: Outcome) -> Outcome:
    """Return the outcome with the lower times; what was refused once for its code is refused."""

    def rank(outcome: Outcome) -> tuple[int, float]:
        seconds = inf
        if outcome.score is not None:
            seconds = outcome.score
        return -outcome.strikes, seconds

    return min(one, other, key=rank)
