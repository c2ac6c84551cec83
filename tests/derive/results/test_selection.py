"""Which candidates are compiled and measured, kernel by kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from derive.results import selection
from derive.results.candidates import Candidate
from derive.results.selection import KernelCosts, SelectionPolicy
from einalg.language.ir.program import as_program
from einalg.language.notation.parser import parse
from einalg.runtime.clock import Clock, OutOfTime


@dataclass(frozen=True)
class TimedKernel:
    """A kernel in place of a real one: its operator, and what it costs when it is measured."""

    op: str
    cost: float


PROGRAM = as_program(parse("O[i] = A[i] + 1", A=(4,)))
POLICY = SelectionPolicy(compiled_together=2, shortlist=2)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """The groups that are compiled together, by what their candidates will cost."""
    groups: list[list[float]] = []

    def make_ready(_: Any, candidates: Any) -> None:
        groups.append([candidate.error for candidate in candidates])

    monkeypatch.setattr(selection, "_make_ready", make_ready)
    monkeypatch.setattr(selection, "total", lambda _, kernels, limit: kernels[0].cost)
    return groups


def candidates(*costs: tuple[float, float]) -> list[Candidate]:
    """Candidates, each by its estimate and by what it costs when it is measured."""
    rows = []
    for estimate, cost in costs:
        kernels: Any = (TimedKernel("eop", cost),)
        rows.append(Candidate(PROGRAM, kernels, (), estimate, "proved", error=cost))
    return rows


def costs_of(some: list[Candidate]) -> KernelCosts:
    model: Any = None
    return KernelCosts(some, model, POLICY)


def test_those_that_promise_nothing_any_more_are_not_compiled(compiled: Any) -> None:
    """The ratio of costs to estimates is 2 at least: an estimate of 4 says 8 or more."""
    costs = costs_of(candidates((1, 2), (1.1, 3), (1.5, 3.5), (4, 1), (4.1, 9), (1.6, 1)))
    costs.run(Clock.of(10.0))
    assert compiled == [[2, 3], [3.5], [1]]
    assert [candidate.cost for candidate in costs.shortlist] == [1, 2]


def test_until_the_shortlist_is_full_all_are_compiled(compiled: Any) -> None:
    costs = costs_of(candidates((1, 2), (50, 60), (51, 3)))
    costs.run(Clock.of(10.0))
    assert compiled == [[2, 60], [3]]


def test_what_was_measured_until_time_is_over_counts(compiled: Any) -> None:
    times = iter([0.0] * 12 + [99.0] * 99)
    costs = costs_of(candidates((1, 2), (1, 1), (1, 3), (1, 4)))
    with pytest.raises(OutOfTime):
        costs.run(Clock.of(10.0, now=lambda: next(times)))
    assert 0 < len(costs.measured) < 4 and costs.shortlist[0].cost <= 2


def test_the_shortlist_has_other_operators_where_these_cost_about_as_much(compiled: Any) -> None:
    """Of one set of operators the cheapest comes first; what costs far more stays behind."""
    rows = []
    for op, cost in (("eop", 1.0), ("eop", 1.01), ("matmul", 1.02), ("conv2d", 9.0)):
        kernels: Any = (TimedKernel(op, cost),)
        rows.append(Candidate(PROGRAM, kernels, (), cost, "proved", error=cost))
    costs = costs_of(rows)
    costs.run(Clock.of(10.0))
    assert [candidate.operators for candidate in costs.shortlist] == [("eop",), ("matmul",)]
