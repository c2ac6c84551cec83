"""What tests of whole programs share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache where nothing is known yet."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
