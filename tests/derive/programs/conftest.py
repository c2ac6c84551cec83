"""What tests of whole programs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.searches import shorten_layer_searches


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache where nothing is known yet."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))


@pytest.fixture(autouse=True)
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of layers that end by themselves, soon and on any machine at the same state."""
    shorten_layer_searches(monkeypatch)
