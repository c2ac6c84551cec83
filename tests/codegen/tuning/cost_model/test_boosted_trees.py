"""Whether trees can be learned on this machine."""

from __future__ import annotations

import pytest

from codegen.tuning.cost_model import boosted_trees


def test_trees_that_cannot_be_loaded_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a library of the system is missing."""

    def fails(name: str) -> None:
        raise OSError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(boosted_trees, "find_spec", lambda name: name)
    monkeypatch.setattr(boosted_trees, "import_module", fails)
    boosted_trees.is_installed.cache_clear()
    assert not boosted_trees.is_installed() and "libgomp" in caplog.text
    boosted_trees.is_installed.cache_clear()
