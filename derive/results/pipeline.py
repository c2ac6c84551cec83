"""From an expression to its `SearchResult`: search, prove, check, measure (design §8, §9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

from derive.cost.accuracy import tolerance
from derive.cost.backend import Backend
from derive.cost.model import MeasuredCostModel, Roofline, calibrated
from derive.results.candidates import Candidate
from derive.results.derivation import SearchResult
from derive.results.selection import SELECTION, promising, ranked, varied
from derive.results.verification import checked, proven
from derive.rewriting.moves import Rule
from derive.rules import ALL
from derive.search.best_first import Budget, Progress, rules_by_name, search
from derive.search.candidates import EstimatedCandidate, Stats
from einalg.language.ir.program import Program, as_program


def find_derivation(  # noqa: PLR0913, PLR0917 - every option of a search
    expression: Any,
    budget: Budget,
    rules: Iterable[Rule | str] | None,
    backend: Backend | None,
    seed: int = 0,
    progress: Progress | None = None,
    measure: bool = True,
    accuracy: float | None = None,
    executor: Any = None,
    ops: Sequence[str] | None = None,
    most: int | None = None,
) -> SearchResult:
    """Search, prove the candidates, those that promise most first, then check and measure these.

    With `most`, derived candidates that promise less than so many others are neither proven nor
    kept; nor are those that the time is not enough for.
    """
    start = as_program(expression)
    searched = rules_by_name(rules)
    model = calibrated(backend) if backend is not None and measure else Roofline()
    estimated, stats, explored = search(
        start, budget, searched.values(), model, progress, ops=ops, executor=executor, seed=seed
    )
    if most is not None:
        estimated = _limited(estimated, most)
    began = perf_counter()
    until = began + SELECTION.proving_time * budget.seconds
    candidates = proven(start, estimated, backend, stats, executor, until)
    if backend is not None and measure:
        until = began + SELECTION.measuring_time * budget.seconds
        model = MeasuredCostModel(model, backend)
        allowed = tolerance(start) if accuracy is None else accuracy
        candidates = _measured(start, candidates, model, backend, stats, until, seed, allowed)
    ordered = ranked(candidates)
    return SearchResult(start, ordered, stats, backend, explored, {**ALL, **searched})


def _limited(estimated: Sequence[EstimatedCandidate], most: int) -> list[EstimatedCandidate]:
    """Return the derived candidates that promise most, and the expression as it is."""
    derived = varied([candidate for candidate in estimated if candidate.moves])
    originals = [candidate for candidate in estimated if not candidate.moves]
    return [*derived[:most], *originals]


def _measured(
    start: Program,
    candidates: list[Candidate],
    model: MeasuredCostModel,
    backend: Backend,
    stats: Stats,
    until: float,
    seed: int,
    accuracy: float,
) -> list[Candidate]:
    """Return the shortlist, checked and measured, then the other candidates as they are."""
    shortlist, unmeasured = promising(candidates, model, until)
    stats.unmeasured += unmeasured
    taken = {id(candidate) for candidate in shortlist}
    others = [candidate for candidate in candidates if id(candidate) not in taken]
    return [*checked(start, shortlist, backend, stats, seed, accuracy), *others]
