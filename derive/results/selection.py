"""Which candidates are followed up: those that promise most by estimate, then by their kernels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from derive.cost.backend import BackgroundKernels
from derive.cost.model import MeasuredCostModel, kernels_of_each_run, total
from derive.results.candidates import Candidate, Candidates
from derive.search.candidates import EstimatedCandidate
from einalg.runtime.clock import COMPILING, MEASURING, Clock, check_time


@dataclass(frozen=True)
class SelectionPolicy:
    """How many candidates are proven and measured, and for how long."""

    promising: int = 12  # candidates by estimate, whose kernels are measured one by one
    max_estimate_ratio: float = 2.5  # to the lowest estimate: a higher one promises nothing
    compiled_early: int = 12  # candidates whose kernels are compiled while the search goes on
    compiled_together: int = 4  # candidates whose kernels are compiled at once
    near_cheapest: float = 1.25  # times the cost of the cheapest, by kernels one by one
    far_above: float = 1.5  # times the cost of the last of the shortlist
    shortlist: int = 4  # of the promising, that are compiled, checked and measured whole
    max_proof_share: float = 0.5  # of the time for proofs, that one may take
    max_kernel_share: float = 0.6  # of the time for measuring, that kernels by themselves may take
    max_rounding_share: float = 0.1  # of the error allowed, that rounding of the reference may take
    max_resampling_share: float = 0.4  # of the time left, that other inputs may take for that
    seconds_to_measure: float = 0.15  # that measuring a candidate of the shortlist takes
    proofs_at_once: int = 32  # programs that an executor proves before the time is looked at
    noise: float = 0.03  # relative difference of two measured costs that says nothing
    max_run_seconds: float = 2.0  # a candidate that is estimated to run longer is not timed


SELECTION = SelectionPolicy()
AnyCandidate = TypeVar("AnyCandidate", Candidate, EstimatedCandidate)
MIN_SECONDS = 1e-12  # of an estimate, in a ratio


class EarlyCompilation:
    """Kernels of candidates that are compiled in the background, while the search goes on."""

    def __init__(
        self,
        model: MeasuredCostModel,
        background: BackgroundKernels,
        policy: SelectionPolicy = SELECTION,
    ):
        self._model, self._background, self._policy = model, background, policy
        self._begun: list[Candidate] = []  # kept, so that no other one has the same identity

    @property
    def is_free(self) -> bool:
        """Whether another candidate may begin now."""
        return len(self._begun) < self._policy.compiled_early and self._background.is_free

    def has_begun(self, candidate: Candidate) -> bool:
        """Tell whether the kernels of a candidate were begun."""
        return any(candidate is other for other in self._begun)

    def begin(self, candidate: Candidate) -> None:
        """Generate the code of a candidate's kernels, and begin to compile it."""
        self._begun.append(candidate)
        self._model.make_ready(kernels_of_each_run(candidate.kernels), self._background)

    def finish(self) -> None:
        """Wait until nothing is compiled any more."""
        self._background.finish()


class KernelCosts:
    """The costs of derived candidates, kernel by kernel by a model that measures.

    They become the costs of the candidates. One that already costs more than the whole shortlist is
    not followed up: what is known of it is its cost. `measured` are those that were looked at until
    the time was over.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        model: MeasuredCostModel,
        policy: SelectionPolicy = SELECTION,
        early: EarlyCompilation | None = None,
    ):
        self.candidates, self.model, self.policy = candidates, model, policy
        self._early = early
        self.measured: list[Candidate] = []
        self._ratio = math.inf  # the lowest of a measured cost to an estimate

    @property
    def shortlist(self) -> list[Candidate]:
        """The cheapest of those that were measured; of all of them where none was.

        Those that are near the cheapest come first, varied: what kernels take one by one, the
        whole need not take.
        """
        ordered = sorted(self.measured or self.candidates, key=_cost)
        near = [c for c in ordered if c.cost <= self.policy.near_cheapest * ordered[0].cost]
        return [*varied(near), *ordered[len(near) :]][: self.policy.shortlist]

    def run(self, clock: Clock) -> None:
        """Measure the candidates in order, those that are compiled together after each other.

        One is left out where its estimate, at the lowest ratio of a measured cost to an estimate so
        far, is far above the whole shortlist.
        """
        size = self.policy.compiled_together
        with clock.limiting():
            for first in range(0, len(self.candidates), size):
                group = self.candidates[first : first + size]
                self._measure([c for c in group if self._is_promising(c)], first, clock)

    def _measure(self, group: Sequence[Candidate], first: int, clock: Clock) -> None:
        check_time()
        with clock.phase(COMPILING, f"{first + 1} of {len(self.candidates)}"):
            _make_ready(self.model, group)
            if self._early is not None:
                self._early.finish()
        for number, candidate in enumerate(group, first + 1):
            check_time()
            estimate = candidate.cost
            with clock.phase(MEASURING, f"{number} of {len(self.candidates)}"):
                candidate.cost = total(self.model, candidate.kernels, self._limit)
            if candidate.cost <= self._limit:
                self._ratio = min(self._ratio, candidate.cost / max(estimate, MIN_SECONDS))
            self.measured.append(candidate)

    @property
    def _limit(self) -> float:
        """The cost of the last one of the shortlist; infinity while that has places."""
        costs = sorted(map(_cost, self.measured))
        return costs[self.policy.shortlist - 1] if len(costs) >= self.policy.shortlist else math.inf

    def _is_promising(self, candidate: Candidate) -> bool:
        if math.isinf(self._ratio):
            return True
        return candidate.cost * self._ratio <= self.policy.far_above * self._limit


def _cost(candidate: Candidate) -> float:
    return candidate.cost


def most_promising(
    estimated: Sequence[EstimatedCandidate], policy: SelectionPolicy = SELECTION
) -> list[EstimatedCandidate]:
    """Return the derived candidates whose estimates are near the lowest, varied."""
    derived = sorted((c for c in estimated if c.moves), key=lambda c: c.estimate)
    if not derived:
        return []
    limit = policy.max_estimate_ratio * derived[0].estimate
    return varied([c for c in derived if c.estimate <= limit])


def _make_ready(model: MeasuredCostModel, candidates: Sequence[Candidate]) -> None:
    """Compile the kernels of some candidates at once, those that run at each call."""
    kernels = []
    for candidate in candidates:
        kernels += kernels_of_each_run(candidate.kernels)
    model.make_ready(kernels)


def varied(ordered: Sequence[AnyCandidate]) -> list[AnyCandidate]:
    """Order candidates anew: the first of every set of operators, then the second of every one.

    An estimate that is wrong is wrong for a whole set.
    """
    counts: Counter[Any] = Counter()
    turns = []
    for position, candidate in enumerate(ordered):
        operators = candidate.operators
        turns.append((counts[operators], position, candidate))
        counts[operators] += 1
    turns.sort(key=lambda turn: turn[:2])
    return [candidate for _, _, candidate in turns]


def ranked(candidates: Sequence[Candidate], policy: SelectionPolicy = SELECTION) -> Candidates:
    """Order candidates by cost, the measured before the estimated.

    Where costs differ by no more than noise, fewer moves come first.
    """
    any_measured = any(candidate.measured for candidate in candidates)
    ordered = sorted(candidates, key=lambda c: (any_measured and not c.measured, c.cost))
    best = ordered[0]
    limit = best.cost * (1 + policy.noise)
    as_good = [c for c in ordered if c.measured == best.measured and c.cost <= limit]
    rest = ordered[len(as_good) :]
    return Candidates([*sorted(as_good, key=lambda c: len(c.moves)), *rest])
