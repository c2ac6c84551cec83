"""Which candidates are followed up: those that promise most by estimate, then by their kernels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

from derive.cost.model import MeasuredCostModel, kernels_of_each_run, total
from derive.results.candidates import Candidate, Candidates
from derive.search.candidates import EstimatedCandidate

Some = TypeVar("Some", Candidate, EstimatedCandidate)


@dataclass(frozen=True)
class SelectionPolicy:
    """How many candidates are proven and measured, and for how long.

    The times that count in seconds of the search are those after which no other candidate is taken
    up.
    """

    promising: int = 12  # candidates by estimate, whose kernels are measured one by one
    max_estimate_ratio: float = 2.5  # to the lowest estimate: a higher one promises nothing
    compiled_together: int = 4  # candidates whose kernels are compiled at once
    shortlist: int = 4  # of the promising, that are compiled, checked and measured whole
    proving_time: float = 1.0  # in seconds of the search
    measuring_time: float = 2.0  # in seconds of the search
    proofs_at_once: int = 32  # programs that an executor proves before the time is looked at
    noise: float = 0.03  # relative difference of two measured costs that says nothing
    max_run_seconds: float = 2.0  # a candidate that is estimated to run longer is not timed


SELECTION = SelectionPolicy()


def promising(
    candidates: Sequence[Candidate],
    model: MeasuredCostModel,
    until: float = math.inf,
    policy: SelectionPolicy = SELECTION,
) -> tuple[list[Candidate], int]:
    """Return the shortlist by `model`, with the expression as it is, and how many it left out.

    The shortlist is of the derived candidates that are cheapest by estimate. Their costs become
    those of the model. A candidate that already costs more than the whole shortlist is not followed
    up: what is known of it is its cost. From the time `until` on (of `perf_counter`) the model is
    asked for no other one; the second value counts these.
    """
    originals = [candidate for candidate in candidates if not candidate.moves]
    derived = _most_promising(candidates, policy)
    measured: list[Candidate] = []
    costs = [math.inf] * policy.shortlist
    for number, candidate in enumerate(derived):
        if measured and perf_counter() > until:
            break
        if number % policy.compiled_together == 0:
            _make_ready(model, derived[number : number + policy.compiled_together])
        candidate.cost = total(model, candidate.kernels, costs[policy.shortlist - 1])
        costs = sorted([*costs, candidate.cost])
        measured.append(candidate)
    shortlist = sorted(measured, key=_cost)[: policy.shortlist]
    return [*shortlist, *originals], len(derived) - len(measured)


def _cost(candidate: Candidate) -> float:
    return candidate.cost


def _most_promising(candidates: Sequence[Candidate], policy: SelectionPolicy) -> list[Candidate]:
    derived = sorted((c for c in candidates if c.moves), key=_cost)
    if not derived:
        return []
    limit = policy.max_estimate_ratio * derived[0].cost
    return varied([c for c in derived if c.cost <= limit])[: policy.promising]


def _make_ready(model: MeasuredCostModel, candidates: Sequence[Candidate]) -> None:
    """Compile the kernels of some candidates at once, those that run at each call."""
    kernels = []
    for candidate in candidates:
        kernels += kernels_of_each_run(candidate.kernels)
    model.make_ready(kernels)


def varied(ordered: Sequence[Some]) -> list[Some]:
    """Order candidates anew: the first of every set of operators, then the second of every one.

    An estimate that is wrong is wrong for a whole set. An operator on tensors as they are given is
    told from one on tensors that were made for it.
    """
    counts: Counter[Any] = Counter()
    turns = []
    for position, candidate in enumerate(ordered):
        operators = _operators(candidate)
        turns.append((counts[operators], position, candidate))
        counts[operators] += 1
    turns.sort(key=lambda turn: turn[:2])
    return [candidate for _, _, candidate in turns]


def _operators(candidate: Candidate | EstimatedCandidate) -> frozenset[tuple[str, bool]]:
    """Return the operators of a candidate, each with whether it reads none of its results."""
    results = {kernel.output for kernel in candidate.kernels}
    operators = set()
    for kernel in candidate.kernels:
        operators.add((kernel.op, kernel.is_eop or results.isdisjoint(kernel.inputs)))
    return frozenset(operators)


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
