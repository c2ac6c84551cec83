"""The search of a unit's schedule, on times that are made up: what it measures, and what it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.hardware.cpu import machine
from codegen.lowering.schedule import Schedule
from codegen.targets.c.compiler import find_compiler
from codegen.tuning.measuring.compilation import CandidateCompiler
from codegen.tuning.measuring.task import LASTING, Outcome
from codegen.tuning.records.log import TuningLog
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.records.winners import tuned
from codegen.tuning.search import measured_unit, strategies
from codegen.tuning.search.history import ScheduleTrial, SearchHistory
from codegen.tuning.search.measured_unit import MeasuredUnit, measuring_task
from codegen.tuning.search.program_tuner import TIME_OVER, TRIALS_OVER, TuningPlan, tune_units
from codegen.tuning.search.strategies import ABLATIONS, STRATEGIES
from codegen.tuning.search.targets import ProcessorTarget
from codegen.tuning.search.tuner import (
    NO_VALUES,
    UNCOMPARED,
    UNCONFIRMED,
    UnitTuning,
    UntunedUnit,
)
from codegen.tuning.spaces.loops import LoopsSpace
from codegen.tuning.spaces.space import CodeCandidate, identity
from codegen.tuning.spaces.unit import CodeUnit, RepeatedUnit
from codegen.tuning.spaces.unit_spaces import starts
from derive.matching import match
from einalg.errors import CodegenError, RecordError
from einalg.language import ops
from einalg.language.ir.kernel import EOP, Kernel
from einalg.runtime.clock import Clock, OutOfTime
from tests.helpers.kernels import quick_compiler

SCOPE = ops.matmul(ea.tensor("A", (29, 40)), ea.tensor("B", (40, 35), role="weight"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(strategies, "DRAFT_SECONDS", 0.05)
    monkeypatch.setattr(strategies, "POPULATION", 16)


def unit() -> CodeUnit:
    kernel = match(SCOPE, "O")
    assert kernel is not None
    return CodeUnit(kernel, SCOPE, frozenset({"B"}), digest="a unit")


class MadeUp:
    """Times of candidates without a compiler: those with more rows are faster, loops are slow."""

    def __init__(self) -> None:
        self.batches, self.measured = 0, list[CodeCandidate]()
        self.sizes: list[int] = []

    def compiled(self, unit: MeasuredUnit, functions: Mapping[int, Any]) -> Mapping[int, Any]:
        return functions

    def outcomes(self, unit: MeasuredUnit, functions: Mapping[int, Any]) -> dict[int, Outcome]:
        self.batches += 1
        self.sizes.append(len(functions))
        outcomes: dict[int, Outcome] = {}
        for number, function in functions.items():
            candidate = next(c for c in unit.sources.values() if c.build() == function)
            self.measured.append(candidate)
            outcomes[number] = self.outcome(candidate)
        return outcomes

    def batch(self, number: int) -> list[CodeCandidate]:
        """Return what the `number`th batch has measured."""
        before = sum(self.sizes[: number - 1])
        return self.measured[before : before + self.sizes[number - 1]]

    def outcome(self, candidate: CodeCandidate) -> Outcome:
        if candidate.space.name == "loops":
            return Outcome(1.0)
        if candidate.point.rows == 2:
            return Outcome(reason="wrong values", strikes=LASTING)
        return Outcome(1e-3 / candidate.point.rows / candidate.point.vectors)


def search(
    monkeypatch: pytest.MonkeyPatch,
    times: MadeUp,
    strategy: str = "evolution",
    trials: int = 12,
    seconds: float = 1e6,
) -> UnitTuning | UntunedUnit:
    compiler = find_compiler()
    assert compiler is not None
    monkeypatch.setattr(MeasuredUnit, "compiled", lambda own, f: times.compiled(own, f))
    monkeypatch.setattr(MeasuredUnit, "outcomes", lambda own, f: times.outcomes(own, f))
    compiling = CandidateCompiler(compiler, Path(), 60.0)
    log = TuningLog.here(Provenance.here(compiler))
    plan = TuningPlan(ProcessorTarget(compiling), log, ABLATIONS[strategy](), trials)
    (tuning,) = tune_units([RepeatedUnit(unit())], plan, Clock.of(seconds))
    return tuning


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_start_is_measured_and_the_best_is_kept(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = MadeUp()
    tuning = search(monkeypatch, times, strategy)
    assert isinstance(tuning, UnitTuning) and tuning.trials == 12 == len(tuning.curve)
    assert times.measured[0] == tuning.start
    best = [seconds for _, _, seconds in tuning.curve]
    assert best == sorted(best, reverse=True) and tuning.seconds <= tuning.start_seconds
    winner = tuned("a unit", starts(unit(), machine()))
    assert winner is not None and winner.point == tuning.winner.point


def test_evolution_descends_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds registers that are full of sums, however the model ranks them."""
    tuning = search(monkeypatch, MadeUp(), trials=40)
    assert isinstance(tuning, UnitTuning) and tuning.winner.space.name == "contraction"
    point = tuning.winner.point
    registers = machine().registers
    assert point.rows * point.vectors >= 0.75 * (registers - 2)
    assert tuning.gain >= 1.0


def test_what_is_refused_is_counted_and_not_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = search(monkeypatch, MadeUp(), "random", trials=24)
    assert isinstance(first, UnitTuning)
    wrong = first.refused.get("wrong values", 0)
    assert wrong == sum(first.refused.values())
    times = MadeUp()
    second = search(monkeypatch, times, "random", trials=24)
    assert isinstance(second, UnitTuning) and wrong > 0
    log = TuningLog.here(Provenance.here(usual_compiler()))
    refused = [record for record in log.records() if record.outcome.reason]
    assert len(refused) == wrong + second.refused.get("wrong values", 0)
    points = [tuple(sorted(record.point.items())) for record in refused]
    assert len(set(points)) == len(points)


def usual_compiler() -> Any:
    compiler = find_compiler()
    assert compiler is not None
    return compiler


def test_what_was_fast_before_is_measured_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    first = search(monkeypatch, MadeUp(), trials=12)
    times = MadeUp()
    search(monkeypatch, times, trials=10)
    assert isinstance(first, UnitTuning)
    assert first.winner.point in [candidate.point for candidate in times.batch(2)]


def test_an_interrupt_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(MadeUp):
        def outcome(self, candidate: CodeCandidate) -> Outcome:
            if len(self.measured) == 6:
                raise KeyboardInterrupt
            return super().outcome(candidate)

    tuning = search(monkeypatch, Interrupted())
    assert isinstance(tuning, UnitTuning) and tuning.reason == "it was interrupted"
    assert tuning.trials == 1 and tuning.winner == tuning.start
    assert tuned("a unit", starts(unit(), machine())) is not None


def test_without_time_there_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(monkeypatch, MadeUp(), seconds=0.0) == UntunedUnit({}, TIME_OVER)


def test_what_is_refused_is_told_though_nothing_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(MadeUp):
        def outcome(self, candidate: CodeCandidate) -> Outcome:
            return Outcome(reason="wrong values")

    untuned = search(monkeypatch, Wrong(), trials=4)
    assert untuned == UntunedUnit({"wrong values": 4}, TRIALS_OVER)


def test_a_slower_winner_gives_way_to_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the last comparison, which takes place in another process."""

    class Fickle(MadeUp):
        def outcomes(self, unit: MeasuredUnit, functions: Mapping[int, Any]) -> dict[int, Outcome]:
            outcomes = super().outcomes(unit, functions)
            if set(functions) == {0, 1} and self.batches > 2:
                return {0: Outcome(1.0), 1: Outcome(2.0)}
            return outcomes

    tuning = search(monkeypatch, Fickle(), trials=20)
    assert isinstance(tuning, UnitTuning) and tuning.winner == tuning.start and tuning.gain == 1.0


def test_a_batch_of_a_busy_moment_runs_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The incumbent of each batch says how busy the machine is, and lower times count."""

    class Busy(MadeUp):
        def outcome(self, candidate: CodeCandidate) -> Outcome:
            outcome = super().outcome(candidate)
            if self.batches != 2 or outcome.seconds is None:
                return outcome
            return Outcome(100 * outcome.seconds)

    plain, busy = MadeUp(), Busy()
    quiet, disturbed = search(monkeypatch, plain), search(monkeypatch, busy)
    assert isinstance(quiet, UnitTuning) and isinstance(disturbed, UnitTuning)
    assert disturbed.curve[-1][2] < 1e-2 and busy.batches > 2


def test_a_start_that_is_refused_is_no_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    class StartFails(MadeUp):
        def outcome(self, candidate: CodeCandidate) -> Outcome:
            if candidate == self.measured[0]:
                return Outcome(reason="crash: SIGSEGV")
            return super().outcome(candidate)

    tuning = search(monkeypatch, StartFails())
    assert isinstance(tuning, UnitTuning) and tuning.winner != tuning.start and tuning.gain == 1.0
    assert tuning.refused["crash: SIGSEGV"] == 1 and len(tuning.curve) == tuning.trials - 1


def test_a_start_that_fails_for_a_reason_of_the_moment_is_compared_at_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is stored was faster than it, or nothing is stored."""
    late = Outcome(reason="time-out")
    tuning = search(monkeypatch, Numbered({(1, 0): late}), trials=9)
    assert isinstance(tuning, UnitTuning) and tuning.start_seconds == 2.0 and tuning.is_stored


def test_a_start_that_is_never_measured_leaves_what_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = Outcome(reason="time-out")
    tuning = search(monkeypatch, Numbered({(1, 0): late, (3, 0): late}), trials=9)
    assert isinstance(tuning, UnitTuning) and not tuning.is_stored
    assert tuned("a unit", starts(unit(), machine())) is None


def test_a_start_whose_code_is_wrong_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Outcome(reason="wrong values", strikes=LASTING)
    times = Numbered({(1, 0): wrong})
    tuning = search(monkeypatch, times, trials=9)
    assert (
        isinstance(tuning, UnitTuning)
        and tuning.is_stored
        and tuning.start not in times.measured[1:]
    )


class Numbered(MadeUp):
    """A start that is slow, and others that are refused by their numbers in some batches.

    Batches have the numbers 1 (the start), 2 (8 others), and 3: the last comparison, of the start,
    the stored winner and the best.
    """

    def __init__(self, refused: Mapping[tuple[int, int], Outcome] | None = None) -> None:
        super().__init__()
        self.refused, self.orders = refused or {}, list[list[int]]()

    def outcome(self, candidate: CodeCandidate) -> Outcome:
        if candidate == self.measured[0]:
            return Outcome(2.0)
        return super().outcome(candidate)

    def outcomes(self, unit: MeasuredUnit, functions: Mapping[int, Any]) -> dict[int, Outcome]:
        outcomes = super().outcomes(unit, functions)
        self.orders.append(list(functions))
        for number in outcomes:
            outcomes[number] = self.refused.get((self.batches, number), outcomes[number])
        return outcomes


CRASH = Outcome(reason="crash: SIGSEGV", strikes=1)


def test_what_is_known_to_be_right_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Numbered()
    tuning = search(monkeypatch, times, trials=9)
    assert isinstance(tuning, UnitTuning) and tuning.winner != tuning.start
    assert [order[0] for order in times.orders] == [0, -1, 0]
    assert times.measured[-2:] == [tuning.start, tuning.winner]


def test_a_batch_whose_incumbent_is_refused_runs_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Numbered({(2, -1): CRASH, (2, 0): CRASH})
    tuning = search(monkeypatch, times, trials=9)
    assert isinstance(tuning, UnitTuning) and times.orders[1] == times.orders[2]
    assert "crash: SIGSEGV" not in tuning.refused


def test_a_batch_whose_incumbent_is_refused_twice_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But of what follows from the code of the others."""
    wrong = Outcome(reason="wrong values", strikes=LASTING)
    late = Outcome(reason="time-out")
    refused = {(2, -1): late, (3, -1): late, **{(2, number): wrong for number in range(3)}}
    tuning = search(monkeypatch, Numbered(refused), trials=9)
    assert isinstance(tuning, UnitTuning) and tuning.winner == tuning.start
    wrongs = tuning.refused["wrong values"]
    failed = tuning.refused["the fastest so far failed beside it"]
    assert wrongs >= 3 and wrongs + failed == 8


def test_an_incumbent_is_refused_for_what_its_code_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the reason of the moment that came after it."""
    wrong, late = Outcome(reason="wrong values", strikes=LASTING), Outcome(reason="time-out")
    tuning = search(monkeypatch, Numbered({(2, -1): wrong, (3, -1): late}), trials=12)
    assert isinstance(tuning, UnitTuning) and "time-out" not in tuning.refused
    assert tuning.winner != tuning.start


def test_an_incumbent_that_crashes_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = search(monkeypatch, Numbered({(2, -1): CRASH, (3, -1): CRASH}), trials=12)
    assert isinstance(tuning, UnitTuning) and tuning.winner != tuning.start
    assert tuning.refused["crash: SIGSEGV"] == 1
    log = TuningLog.here(Provenance.here(usual_compiler()))
    reasons = [record.outcome.reason for record in log.records()]
    assert reasons.count("crash: SIGSEGV") == 2


@pytest.mark.parametrize(
    "refused, confirmed",
    [({0: CRASH}, False), ({1: Outcome(reason="time-out")}, False), ({1: CRASH}, True)],
)
def test_nothing_is_stored_that_the_last_comparison_does_not_confirm(
    refused: Mapping[int, Outcome], confirmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the best candidate crashes in it, that speaks for the start."""
    times = Numbered({(3, number): outcome for number, outcome in refused.items()})
    tuning = search(monkeypatch, times, trials=9)
    assert times.batches == 3 and isinstance(tuning, UnitTuning) and tuning.is_stored == confirmed
    winner = tuned("a unit", starts(unit(), machine()))
    if not confirmed:
        assert winner is None and tuning.reason == UNCONFIRMED
    else:
        assert winner is not None and winner.point == tuning.start.point == tuning.winner.point


def test_a_last_comparison_that_time_does_not_suffice_for_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stored winner was not measured, and stays."""

    class Hurried(Numbered):
        def outcomes(self, unit: MeasuredUnit, functions: Mapping[int, Any]) -> dict[int, Outcome]:
            if self.batches:
                raise OutOfTime
            return super().outcomes(unit, functions)

    strong = search(monkeypatch, Numbered(), trials=9)
    weak = search(monkeypatch, Hurried(), "random", trials=1)
    assert isinstance(strong, UnitTuning) and isinstance(weak, UnitTuning)
    assert weak.reason == UNCOMPARED and not weak.is_stored


def test_without_values_to_compare_with_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measured_unit, "MAX_REFERENCE_POINTS", 0)
    times = Numbered({(1, 0): CRASH})
    refused = {"crash: SIGSEGV": 1}
    assert search(monkeypatch, times) == UntunedUnit(refused, NO_VALUES) and times.batches == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_weaker_search_leaves_the_stored_winner(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strong = search(monkeypatch, Numbered(), trials=9)
    weak = search(monkeypatch, Numbered(), strategy, trials=1)
    assert (
        isinstance(strong, UnitTuning)
        and isinstance(weak, UnitTuning)
        and strong.winner != strong.start
    )
    assert weak.winner.point == strong.winner.point and weak.gain == strong.gain
    stored = tuned("a unit", starts(unit(), machine()))
    assert stored is not None and stored.point == strong.winner.point


def test_a_stored_winner_that_is_not_measured_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    strong = search(monkeypatch, Numbered(), trials=9)
    weak = search(monkeypatch, Numbered({(2, 1): Outcome(reason="time-out")}), trials=1)
    stored = tuned("a unit", starts(unit(), machine()))
    assert (
        isinstance(strong, UnitTuning)
        and stored is not None
        and stored.point == strong.winner.point
    )
    assert isinstance(weak, UnitTuning) and not weak.is_stored


def test_a_stored_winner_with_wrong_values_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    strong = search(monkeypatch, Numbered(), trials=9)
    wrong = Outcome(reason="wrong values", strikes=LASTING)
    weak = search(monkeypatch, Numbered({(2, 1): wrong}), trials=1)
    stored = tuned("a unit", starts(unit(), machine()))
    assert isinstance(strong, UnitTuning) and isinstance(weak, UnitTuning) and weak.is_stored
    assert stored is not None and stored.point == weak.start.point != strong.winner.point


@pytest.mark.parametrize(
    "outcomes, counts",
    [
        ([Outcome(reason="time-out")] * 3, False),
        ([Outcome(reason="no worker: OSError"), Outcome(1e-3)], False),
        ([CRASH], False),
        ([CRASH, CRASH], True),
        ([Outcome(1e-3), Outcome(reason="wrong values", strikes=LASTING)], True),
    ],
)
def test_only_refusals_that_follow_from_the_code_count_later(
    outcomes: Sequence[Outcome], counts: bool
) -> None:
    compiler = quick_compiler()
    log = TuningLog.here(Provenance.here(compiler))
    firsts = list(starts(unit(), machine()))
    first = MeasuredUnit.of(unit(), CandidateCompiler(compiler, Path(), 60.0), log)
    for outcome in outcomes:
        first.record(firsts[0], outcome)
    later = TuningLog.here(Provenance.here(compiler))
    again = MeasuredUnit.of(unit(), CandidateCompiler(compiler, Path(), 60.0), later)
    recorded, refused = again.recorded(firsts)
    assert refused == ({identity(firsts[0])} if counts else set())
    is_fast = not counts and any(outcome.score for outcome in outcomes)
    assert recorded == ([firsts[0]] if is_fast else [])


def test_candidates_without_code_do_not_end_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are written to be priced, wherever a strategy or the log asks for their cycles."""

    def written(self: LoopsSpace, point: Schedule) -> Any:
        raise CodegenError("a nest that cannot be written")

    monkeypatch.setattr(LoopsSpace, "written", written)
    tuning = search(monkeypatch, MadeUp(), trials=12)
    assert isinstance(tuning, UnitTuning) and tuning.refused["no code: CodegenError"] > 0
    log = TuningLog.here(Provenance.here(usual_compiler()))
    assert len(list(log.records())) == 12 == tuning.trials


def test_candidates_without_code_are_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many a strategy proposes."""
    built = MeasuredUnit.built

    def without_loops(own: MeasuredUnit, candidate: CodeCandidate) -> Any:
        if candidate.space.name == "loops":
            return Outcome(reason="no code: CodegenError", strikes=LASTING)
        return built(own, candidate)

    monkeypatch.setattr(MeasuredUnit, "built", without_loops)
    tuning = search(monkeypatch, MadeUp(), "random", trials=7)
    assert isinstance(tuning, UnitTuning) and tuning.refused["no code: CodegenError"] > 0
    assert tuning.trials == 7


def proposed(strategy: str, seed: int, rounds: int = 3) -> list[Any]:
    """Return what a strategy proposes, round by round; more rows are faster than expected."""
    candidates = sorted(starts(unit(), machine()), key=lambda start: start.cycles)
    history = SearchHistory(candidates, Random(seed))
    everything: list[Any] = []
    for number in range(rounds):
        for candidate in ABLATIONS[strategy]().propose(history, 6):
            assert history.is_new(candidate) and candidate.space.fits(candidate.point)
            history.see(candidate)
            seconds = candidate.cycles * 1e-9 / getattr(candidate.point, "rows", 1)
            trial = ScheduleTrial(candidate, Outcome(seconds), number, 0.0, seconds)
            history.trials.append(trial)
            history.knowledge.add(history.knowledge.described(candidate), seconds)
            everything.append(identity(candidate))
    return everything


@pytest.mark.parametrize("strategy", ABLATIONS)
def test_no_candidate_is_proposed_twice(strategy: str) -> None:
    everything = proposed(strategy, 1)
    assert len(set(everything)) == len(everything) > 0


@pytest.mark.parametrize("strategy", ABLATIONS)
def test_a_seed_decides_what_is_proposed(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "DRAFT_SECONDS", 1e6)
    monkeypatch.setattr(strategies, "POPULATION", 4)
    monkeypatch.setattr(LoopsSpace, "cycles", lambda space, point: 1e9 + point.unroll)
    assert proposed(strategy, 1, rounds=2) == proposed(strategy, 1, rounds=2)


def test_a_model_that_misleads_makes_no_result_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says of other units that few rows are fast, and of this one the opposite is true."""
    compiler = usual_compiler()
    log = TuningLog.here(Provenance.here(compiler))
    firsts = sorted(starts(unit(), machine()), key=lambda start: start.cycles)
    space, rng = firsts[0].space, Random(1)
    for name in ("one", "two", "three"):
        other = replace(unit(), digest=name)
        measured = MeasuredUnit.of(other, CandidateCompiler(compiler, Path(), 60.0), log)
        for _ in range(12):
            candidate = CodeCandidate(space, space.sample(rng))
            measured.record(candidate, Outcome(1e-3 * candidate.point.rows))
    tuning = search(monkeypatch, MadeUp(), trials=25)
    assert isinstance(tuning, UnitTuning) and tuning.seconds <= tuning.start_seconds
    assert tuning.ranking is not None and tuning.ranking.units >= 4


def test_a_log_of_another_machine_is_not_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    first = search(monkeypatch, MadeUp(), trials=2)
    assert isinstance(first, UnitTuning) and first.ranking is None
    log = TuningLog.here(Provenance.here(usual_compiler()))
    log.path.write_text(log.path.read_text().replace(log.provenance.machine, "another"))
    with pytest.raises(RecordError, match="of another machine"):
        search(monkeypatch, MadeUp(), trials=2)


def test_a_strategy_without_learning_has_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = search(monkeypatch, MadeUp(), "without learning", trials=17)
    assert isinstance(tuning, UnitTuning) and tuning.ranking is None


def test_the_model_proposes_what_it_thinks_cheapest() -> None:
    candidates = sorted(starts(unit(), machine()), key=lambda start: start.cycles)
    proposed = STRATEGIES["model"]().propose(SearchHistory(candidates, Random(1)), 5)
    assert proposed[0] == candidates[0]


def test_expected_values_are_those_of_the_reference() -> None:
    program = ea.parse("T[i,j] += A[i,k]*B[k,j]\nO[i,j] = Max(T[i,j], 0)", A=(4, 5), B=(5, 6))
    kernel = match(program["T"], "T")
    assert kernel is not None
    fused = CodeUnit(kernel, program["T"], readers=(("O", program["O"]),))
    compiler = quick_compiler()
    task = measuring_task(fused, CandidateCompiler(compiler, Path(), 60.0))
    product = task.arrays["A"].astype(np.float64) @ task.arrays["B"]
    assert task.expected is not None and task.output == "O"
    np.testing.assert_allclose(task.expected, np.maximum(product, 0))


def test_what_reads_a_statement_with_gaps_has_no_reference() -> None:
    """Its code knows at which points there is no value, and arrays by chance do not."""
    text = "T = L[j:6](2*A[j], where=j >= 2)\nO[i:8] = T.pad(1, fill=3)[i-1]"
    program = ea.parse(text, A=(6,))
    statements = dict(program.statements)
    compiling = CandidateCompiler(quick_compiler(), Path(), 60.0)
    tasks: dict[str, Any] = {}
    for name, scope in statements.items():
        kernel = Kernel(EOP, {}, tuple(scope.tensors), name)
        unit = CodeUnit(kernel, scope, statements=statements)
        tasks[name] = measuring_task(unit, compiling)
    assert tasks["O"].expected is None and list(tasks["O"].arrays) == ["T"]
    np.testing.assert_allclose(tasks["T"].expected[2:], 2.0 * tasks["T"].arrays["A"][2:])
