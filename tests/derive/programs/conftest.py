"""What tests of whole programs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.cost.model import Roofline
from derive.programs.forms import similar_layers


@pytest.fixture
def usual_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates for similar layers are those of rates at which transforms pay, at any load."""
    monkeypatch.setattr(similar_layers, "calibrated", lambda backend: Roofline(library=2e10))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache where nothing is known yet."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
