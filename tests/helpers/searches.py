"""Searches that end as soon as they have what a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from derive.cost.model import Roofline
from derive.search.best_first import Budget, Search, rules_by_name, templates_by_name
from derive.search.candidates import EstimatedCandidate, Stats
from derive.search.expansion import StateExpander
from einalg.language.ir.program import as_program
from einalg.runtime.clock import Clock

Form = Callable[[Any], bool]
LAYER_STATES = 20  # in which convolutions and products have other forms


def shorten_layer_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """End the search of each layer of a network after a few states, on any machine at the same.

    It begins with nothing. A test that asks for what a search finds gives it more seconds than the
    slowest machine needs.
    """
    monkeypatch.setattr("derive.programs.forms.similar_layers.common_forms", dict)
    monkeypatch.setattr(
        "derive.programs.optimization.optimize.Budget", partial(Budget, states=LAYER_STATES)
    )


def first_candidates(
    expression: Any, forms: Mapping[str, Form], budget: Budget
) -> dict[str, EstimatedCandidate]:
    """Return the candidate of each form that is found soonest, and of those the cheapest, without
    the forms that none has. The search ends when all forms have one.
    """
    expander = StateExpander(rules_by_name(None), templates_by_name(None))
    run = Search(as_program(expression), budget, expander, Roofline())
    watch = _Watch(run, forms)
    run.explore(Clock.of(budget.seconds), watch)
    watch.look()
    return watch.candidates


class _Watch:
    """A progress of a search that ends it when every form has a candidate."""

    def __init__(self, run: Search, forms: Mapping[str, Form]):
        self.run, self.forms = run, forms
        self.candidates: dict[str, EstimatedCandidate] = {}
        self.looked_at = 0

    def __call__(self, stats: Stats) -> None:
        self.look()
        if self.candidates.keys() == self.forms.keys():
            raise StopIteration

    def look(self) -> None:
        """Look at the candidates that the last state led to."""
        collected = self.run.candidates.collected
        recent = sorted(collected[self.looked_at :], key=lambda candidate: candidate.estimate)
        self.looked_at = len(collected)
        for name, holds in self.forms.items():
            if name in self.candidates:
                continue
            for candidate in recent:
                if holds(candidate):
                    self.candidates[name] = candidate
                    break
