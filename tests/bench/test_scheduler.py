"""`bench.scheduler`: a network is searched in turns and by the gradient, and the rows say so."""

from __future__ import annotations

from math import inf, isfinite

import pytest

from codegen.tuning.search.task_scheduler import TuningTask, by_gradient, in_turns

pytest.importorskip("torch")  # of which the networks are

from bench import scheduler
from bench.models import SMALL
from bench.scheduler import compared, replayed, share_of_trials


def test_the_share_of_trials() -> None:
    turns = [(1, 4.0), (10, 2.0)]
    assert share_of_trials([(1, 4.0), (4, 2.01)], turns) == 0.4  # within 1 %
    assert share_of_trials([(1, 4.0), (10, 2.1)], turns) == inf


def test_the_gradient_finds_the_rounds_that_turns_have_recorded() -> None:
    """One task gains in each of its rounds, and the other one never does."""
    gaining = TuningTask(1, 8.0, "sum", [8.0 - number for number in range(7)])
    steady = TuningTask(1, 8.0, "product", [1e-3] * 7)
    turns = replayed([gaining, steady], in_turns, 50)
    gradient = replayed([gaining, steady], by_gradient, 50)
    assert turns == [
        (2, 8.001),
        (10, 7.001),
        (18, 7.001),
        (26, 6.001),
        (34, 6.001),
        (42, 5.001),
        (50, 5.001),
    ]
    assert gradient[-1] == (50, 3.001)
    assert share_of_trials(gradient, turns) == 34 / 50
    assert gaining.best[0] == 8.0 and not gaining.is_done  # what was recorded stays


def test_a_task_without_another_recorded_round_is_done() -> None:
    task = TuningTask(1, 8.0, "sum", [2.0, 1.0])
    assert replayed([task], by_gradient, 99) == [(1, 2.0), (9, 1.0)]


def test_a_small_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "MODELS", {"dcgan": SMALL["dcgan"]})
    (row,) = compared(["dcgan"], trials=2, seeds=1)
    assert 0 < row["kernels"] <= row["trials"] <= 2 * row["kernels"]
    for name in ("start ms", "turns ms", "gradient ms", "whole ms"):
        assert row[name] > 0 and isfinite(row[name])
    assert row["gradient ms"] <= row["start ms"] and (row["share"] == "never" or row["share"] > 0)
