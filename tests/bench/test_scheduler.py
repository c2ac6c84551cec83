"""`bench.scheduler`: a network is searched in turns and by the gradient, and the rows say so."""

from __future__ import annotations

from math import inf, isfinite

import pytest

from bench import scheduler
from bench.models import SMALL
from bench.scheduler import compared, share_of_trials


def test_the_share_of_trials() -> None:
    turns = [(1, 0.1, 4.0), (10, 0.2, 2.0)]
    assert share_of_trials([(1, 0.1, 4.0), (4, 0.2, 2.01)], turns) == 0.4  # within 1 %
    assert share_of_trials([(1, 0.1, 4.0), (10, 0.2, 2.1)], turns) == inf


def test_a_small_network(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(scheduler, "MODELS", {"dcgan": SMALL["dcgan"]})
    (row,) = compared(["dcgan"], trials=2, seeds=1)
    assert 0 < row["kernels"] <= row["trials"] <= 2 * row["kernels"]
    for name in ("start ms", "turns ms", "gradient ms", "whole ms"):
        assert row[name] > 0 and isfinite(row[name])
    assert row["gradient ms"] <= row["start ms"] and (row["share"] == "never" or row["share"] > 0)
