"""Proofs of candidates, and checks of their values against the reference (design §9)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from derive.cost.accuracy import relative_error
from derive.cost.backend import Backend, Runnable
from derive.cost.memory import comparison_fits_in_memory
from derive.matching import with_operator_names
from derive.proof import prove
from derive.proof.outcome.verdict import DIFFERENT, PROVED, UNKNOWN
from derive.results.candidates import Candidate
from derive.results.sample_inputs import (
    InputSample,
    by_role,
    inputs_with_values,
    steadier_sample,
)
from derive.results.selection import SELECTION, SelectionPolicy
from derive.results.stored_search import LazyEstimate
from derive.rewriting.body_queries import bound_indices
from derive.rewriting.paths import program_scopes
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.candidates import EstimatedCandidate, Stats
from derive.search.executor import ordered_map
from einalg.errors import CodegenError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.program import Program
from einalg.runtime.clock import COMPILING, MEASURING, Clock, OutOfTime, check_time
from einalg.text.wording import counted

log = logging.getLogger("einalg")

_Run = tuple[Candidate, Runnable]
MAX_INDICES = 32  # of a scope that NumPy evaluates at once: an axis each


class Proofs:
    """The verdicts on candidates of a search, each proven once, and the candidates that are equal.

    Those that are not equal are counted in `stats`.
    """

    def __init__(self, start: Program, backend: Backend | None, stats: Stats, executor: Any = None):
        self.start, self.backend, self.stats, self.executor = start, backend, stats, executor
        self._verdicts: dict[int, str] = {}  # by the identity of a candidate
        self._candidates: dict[int, Candidate] = {}
        self._wrong: Counter[str] = Counter()  # how often a user's rule had part in a wrong program

    def restore(
        self, verdicts: Mapping[int, str], candidates: Sequence[EstimatedCandidate]
    ) -> None:
        """Take verdicts, by the identity of a candidate, that were reached before."""
        for candidate in candidates:
            if candidate.moves and id(candidate) in verdicts:
                self._note(candidate, verdicts[id(candidate)])

    def verdict(self, candidate: EstimatedCandidate) -> str | None:
        """Return the verdict on a candidate, if there is one."""
        verdict = self._verdicts.get(id(candidate))
        return None if verdict == UNKNOWN else verdict

    def is_open(self, candidate: EstimatedCandidate) -> bool:
        """Tell whether nothing is known of a candidate."""
        return bool(candidate.moves) and id(candidate) not in self._verdicts

    def reopen(self, candidate: EstimatedCandidate) -> bool:
        """Forget that a proof was given up, and return whether one was."""
        if self._verdicts.get(id(candidate)) != UNKNOWN:
            return False
        del self._verdicts[id(candidate)]
        return True

    def is_late(self, candidate: EstimatedCandidate) -> bool:
        """Tell whether a candidate was not proven in time."""
        return self.is_open(candidate) or self._verdicts.get(id(candidate)) == UNKNOWN

    def is_wrong(self, candidate: EstimatedCandidate) -> bool:
        """Tell whether a candidate is not equal to the expression."""
        return self._verdicts.get(id(candidate)) == DIFFERENT

    def candidate(self, estimated: EstimatedCandidate) -> Candidate | None:
        """Return a candidate with its verdict; None where it is not equal, or not known to be."""
        name = id(estimated)
        if name in self._candidates:
            return self._candidates[name]
        verdict = self._verdicts.get(name) if estimated.moves else PROVED
        if verdict in (None, DIFFERENT, UNKNOWN):
            return None
        self._candidates[name] = self._with_verdict(estimated, verdict)
        return self._candidates[name]

    def prove(
        self,
        candidates: Sequence[EstimatedCandidate],
        clock: Clock,
        policy: SelectionPolicy = SELECTION,
    ) -> None:
        """Prove candidates in order, until the time is over.

        A proof that takes more than a share of the time that is left is given up.
        """
        todo = [candidate for candidate in candidates if self.is_open(candidate)]
        if self.executor is not None:
            self._prove_elsewhere(todo, clock, policy)
            return
        for candidate in todo:
            part = clock.within(policy.max_proof_share * clock.left)
            try:
                with part.limiting():
                    check_time()
                    verdict = verdict_of(self.start, candidate.program)
            except OutOfTime:
                if clock.is_over:
                    return
                self._verdicts[id(candidate)] = UNKNOWN
            else:
                self._note(candidate, verdict)

    def _prove_elsewhere(
        self, candidates: Sequence[EstimatedCandidate], clock: Clock, policy: SelectionPolicy
    ) -> None:
        """Prove by the executor, so many at once before the time is looked at."""
        size = policy.proofs_at_once
        for first in range(0, len(candidates), size):
            if clock.is_over:
                return
            some = candidates[first : first + size]
            programs = [candidate.program for candidate in some]
            verdicts = ordered_map(self.executor, partial(verdict_of, self.start), programs)
            for candidate, verdict in zip(some, verdicts, strict=True):
                self._note(candidate, verdict)

    def _note(self, candidate: EstimatedCandidate, verdict: str) -> None:
        self._verdicts[id(candidate)] = verdict
        if verdict == DIFFERENT:
            self.stats.rejected["not equal to the original"] += 1
            self._wrong.update(move.rule for move in candidate.moves if move.rule not in ALL)

    def _with_verdict(self, candidate: EstimatedCandidate, verdict: str) -> Candidate:
        if isinstance(candidate, LazyEstimate):
            return candidate.candidate(verdict, self.backend)
        return Candidate(
            candidate.program,
            with_operator_names(candidate.kernels),
            candidate.moves,
            candidate.estimate,
            verdict,
            backend=self.backend,
            expression=self.start,
        )

    def warn_of_rules(self) -> None:
        """Warn of rules of a user that had part in programs that are not equal."""
        for name, times in self._wrong.items():
            log.warning(
                "einalg: left out %s that the rule %r helped to make: not equal to the original; "
                "test the rule with ea.check_rule",
                counted(times, "program"),
                name,
            )


def verdict_of(start: Program, program: Program) -> str:
    """Return "proved", "tested" or "different"."""
    return prove(start, program).verdict


@dataclass(frozen=True)
class _Reference:
    """What is right: a program that is equal to `start`, evaluated in double precision."""

    start: Program
    program: Program
    backend: Backend
    seed: int

    def sample(self) -> InputSample:
        """Return inputs, and the outputs that are right for them.

        Integers are not 0 where outputs would have no value, and inputs smaller where results of
        statements or inner scopes would be too large for their types.
        """
        flat = lifted(self.program)
        every = Program(flat.statements, flat.names)
        reference = partial(self.backend.reference, every)
        arrays, results = inputs_with_values(flat, self.start.inputs, reference, self.seed)
        return InputSample(arrays, {name: results[name] for name in self.program.outputs})

    def steadier(self, sample: InputSample, limit: float) -> InputSample | None:
        """Return `sample_inputs.steadier_sample` of a sample."""
        reference = partial(self.backend.reference, self.program)
        return steadier_sample(sample, reference, self._rounding_error, limit, self.seed)

    def _rounding_error(self, sample: InputSample) -> float:
        """Return the error of the same evaluation in the types of the program."""
        rounded = execute(self.program, sample.arrays, between_blocks=check_time)
        return relative_error(sample.expected, rounded, self.start, sample.arrays)


@dataclass
class ShortlistCheck:
    """Checks of candidates: whether their kernels give what the reference gives, measured.

    Those that do not are `wrong`; where one deviates, inputs are taken on which rounding alone
    decides nothing. Those for which memory or time lacks, or that would take too long, keep their
    estimate.
    """

    start: Program
    backend: Backend
    stats: Stats
    accuracy: float
    seed: int = 0
    policy: SelectionPolicy = SELECTION
    wrong: list[Candidate] = field(default_factory=list)

    def run(self, candidates: Sequence[Candidate], clock: Clock) -> None:
        """Compile and check candidates in order, then measure them together."""
        is_slow = min(c.cost for c in candidates) > self.policy.max_run_seconds
        if is_slow or not comparison_fits_in_memory(self.start, self.start):
            return
        reference = _Reference(self.start, self._evaluated(candidates), self.backend, self.seed)
        with clock.phase(MEASURING, "the reference"), clock.limiting():
            sample = reference.sample()
        ran = self._ran(candidates, sample, clock)
        if any(self._deviates(candidate) for candidate, _ in ran):
            steady = self._steady(reference, sample, ran, clock)
            if steady is not None:
                sample = steady
                ran = self._ran([candidate for candidate, _ in ran], sample, clock)
        timed = self._right(ran)
        if not timed and len(self.wrong) == len(candidates):
            raise CodegenError(_nothing_is_right(self.start))
        _, inputs = by_role(self.start, sample.arrays)
        runnables = [runnable for _, runnable in timed]
        with clock.phase(MEASURING, counted(len(timed), "candidate")), clock.limiting():
            measured = self.backend.measure(runnables, inputs)
        for (candidate, _), measurement in zip(timed, measured, strict=True):
            candidate.measurement = measurement
            candidate.cost, candidate.measured = measurement.seconds, True

    def _steady(
        self, reference: _Reference, sample: InputSample, ran: Sequence[_Run], clock: Clock
    ) -> InputSample | None:
        """Return inputs on which rounding alone does not make values wrong, where those of the
        sample are none.

        None where they are, or where none are found in time; `OutOfTime` where nothing is right
        until then.
        """
        part = clock.within(self.policy.max_resampling_share * clock.left)
        limit = self.policy.max_rounding_share * self.accuracy
        try:
            with part.limiting(), clock.phase(MEASURING, "the reference"):
                return reference.steadier(sample, limit)
        except OutOfTime:
            if all(self._deviates(candidate) for candidate, _ in ran):
                raise
            return None

    def _evaluated(self, candidates: Sequence[Candidate]) -> Program:
        """Return the program that the reference computes: the expression as it is, if it can.

        Otherwise it is a candidate that is proved to be equal and has fewer indices at a place.
        """
        if _most_indices(self.start) > MAX_INDICES:
            for candidate in candidates:
                if candidate.verdict == PROVED and _most_indices(candidate.program) <= MAX_INDICES:
                    return candidate.program
        return self.start

    def _ran(
        self, candidates: Sequence[Candidate], sample: InputSample, clock: Clock
    ) -> list[_Run]:
        """Return the candidates that could be compiled and run, with their errors.

        Time to measure them is left.
        """
        weights, inputs = by_role(self.start, sample.arrays)
        ran: list[_Run] = []
        for number, candidate in enumerate(candidates, 1):
            if self._is_too_large(candidate):
                continue
            reserved = self.policy.seconds_to_measure * (len(ran) + 1)
            part = clock.within(clock.left - reserved)
            if candidate.cost > part.left:
                self.stats.is_cut = True
                continue
            try:
                words = f"{number} of {len(candidates)}"
                with part.limiting(), clock.phase(COMPILING, words):
                    check_time()
                    runnable = _compiled(candidate, weights, self.stats)
                if runnable is None:
                    self.wrong.append(candidate)
                    continue
                with part.limiting(), clock.phase(MEASURING, words):
                    result = runnable(**inputs)
            except OutOfTime:
                self.stats.is_cut = True
                break
            candidate.error = relative_error(sample.expected, result, self.start, sample.arrays)
            ran.append((candidate, runnable))
        return ran

    def _right(self, ran: Sequence[_Run]) -> list[_Run]:
        """Return the candidates that gave what is expected; the others are wrong."""
        right: list[_Run] = []
        for candidate, runnable in ran:
            if self._deviates(candidate):
                self.wrong.append(candidate)
                self.stats.rejected[f"numerical error above {self.accuracy:.1e}"] += 1
            else:
                right.append((candidate, runnable))
        return right

    def _deviates(self, candidate: Candidate) -> bool:
        """Tell whether a candidate that ran is not as accurate as it must be."""
        return candidate.error is None or candidate.error > self.accuracy

    def _is_too_large(self, candidate: Candidate) -> bool:
        """Tell whether a run of a candidate takes too long, or does not fit in memory."""
        if candidate.cost > self.policy.max_run_seconds:
            return True
        return not comparison_fits_in_memory(self.start, candidate.program)


def _most_indices(program: Program) -> int:
    """Return the most indices that one scope of a program binds."""
    return max(len(bound_indices(scope)) for scope in program_scopes(program))


def _nothing_is_right(start: Program) -> str:
    message = (
        "no candidate, not even the expression as it is, gives the values of the reference "
        "evaluator"
    )
    dtypes = {scope.dtype for _, scope in start.statements}
    if all(map(is_float, dtypes)):
        return message
    return (
        f"{message}\n  where integers overflow or are infinite, give its tensors a wider type, or "
        "one of floats"
    )


def _compiled(candidate: Candidate, weights: Mapping[str, Any], stats: Stats) -> Runnable | None:
    """Compile a candidate and bind the weights; None where code generation fails.

    That is counted and logged. It is an error for the expression as it is.
    """
    try:
        return candidate.compile().bind(**weights)
    except CodegenError as error:
        if not candidate.moves:
            raise
        log.warning("a candidate is dropped: %s", error)
        stats.rejected["code generation failed"] += 1
        return None
