"""Proofs of candidates, and checks of their values against the reference (design §9)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from derive.cost.accuracy import relative_error
from derive.cost.backend import Backend, Runnable
from derive.cost.memory import comparison_fits_in_memory
from derive.matching import with_operator_names
from derive.proof import prove
from derive.results.candidates import Candidate
from derive.results.sample_inputs import by_role, sample_inputs
from derive.results.selection import SELECTION, SelectionPolicy, varied
from derive.rules import ALL
from derive.search.candidates import EstimatedCandidate, Stats
from derive.search.executor import ordered_map
from einalg.errors import CodegenError
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.program import Program

log = logging.getLogger("einalg")


def proven(
    start: Program,
    estimated: Sequence[EstimatedCandidate],
    backend: Backend | None,
    stats: Stats,
    executor: Any,
    until: float,
) -> list[Candidate]:
    """Return the candidates that are equal to the expression, each with its verdict.

    Those that are not, or come after the time `until`, are counted in `stats`.
    """
    derived = varied([candidate for candidate in estimated if candidate.moves])
    programs = [candidate.program for candidate in derived]
    verdicts = _verdicts(start, programs, executor, until)
    if late := len(derived) - len(verdicts):
        stats.rejected["not proven in time"] += late
        stats.unmeasured += late
    known = {id(candidate): verdict for candidate, verdict in zip(derived, verdicts)}
    candidates: list[Candidate] = []
    wrong: Counter[str] = Counter()  # how often a user's rule had part in a wrong program
    for candidate in estimated:
        verdict = known.get(id(candidate)) if candidate.moves else "proved"
        if verdict == "different":
            stats.rejected["not equal to the original"] += 1
            wrong.update(move.rule for move in candidate.moves if move.rule not in ALL)
        elif verdict is not None:
            candidates.append(_with_verdict(candidate, verdict, backend))
    for name, times in wrong.items():
        log.warning(
            "einalg: %d programs that the rule %r helped to make are not equal to the original; "
            "ea.check_rule tests it",
            times,
            name,
        )
    return candidates


def _with_verdict(
    candidate: EstimatedCandidate, verdict: str, backend: Backend | None
) -> Candidate:
    return Candidate(
        candidate.program,
        with_operator_names(candidate.kernels),
        candidate.moves,
        candidate.estimate,
        verdict,
        backend=backend,
    )


def _verdicts(
    start: Program,
    programs: Sequence[Program],
    executor: Any,
    until: float,
    policy: SelectionPolicy = SELECTION,
) -> list[str]:
    """Return the verdicts of the first programs: of one at least, and of none from `until` on."""
    verdicts: list[str] = []
    size = 1 if executor is None else policy.proofs_at_once
    while len(verdicts) < len(programs) and (not verdicts or perf_counter() < until):
        next_programs = programs[len(verdicts) : len(verdicts) + size]
        verdicts += ordered_map(executor, partial(verdict_of, start), next_programs)
    return verdicts


def verdict_of(start: Program, program: Program) -> str:
    """Return "proved", "tested" or "different"."""
    return prove(start, program).verdict


def checked(
    start: Program,
    candidates: list[Candidate],
    backend: Backend,
    stats: Stats,
    seed: int,
    accuracy: float,
    policy: SelectionPolicy = SELECTION,
) -> list[Candidate]:
    """Return the candidates whose compiled kernels give what the reference gives, measured.

    Those for which memory lacks, or that would take too long, keep their estimate.
    """
    is_slow = min(c.cost for c in candidates) > policy.max_run_seconds
    if is_slow or not comparison_fits_in_memory(start, start):
        return candidates
    arrays = sample_inputs(start, seed)
    expected = backend.reference(start, arrays)
    weights, inputs = by_role(start, arrays)
    sound: list[Candidate] = []
    timed: list[tuple[Candidate, Runnable]] = []
    for candidate in candidates:
        is_slow = candidate.cost > policy.max_run_seconds
        if is_slow or not comparison_fits_in_memory(start, candidate.program):
            sound.append(candidate)
            continue
        runnable = _compiled(candidate, weights, stats)
        if runnable is None:
            continue
        candidate.error = relative_error(expected, runnable(**inputs), start, arrays)
        if not candidate.error <= accuracy:
            stats.rejected[f"numerical error above {accuracy:.1e}"] += 1
            continue
        timed.append((candidate, runnable))
        sound.append(candidate)
    runnables = [runnable for _, runnable in timed]
    for (candidate, _), seconds in zip(timed, backend.seconds(runnables, inputs)):
        candidate.cost, candidate.measured = seconds, True
    if not sound:
        raise CodegenError(_nothing_is_right(start))
    return sound


def _nothing_is_right(start: Program) -> str:
    message = (
        "no candidate, not even the expression as it is, gives the values of the reference "
        "evaluator"
    )
    dtypes = {scope.dtype for _, scope in start.statements}
    if all(map(is_float, dtypes)):
        return message
    return f"{message}\n  where integers overflow, give its tensors a wider type"


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
