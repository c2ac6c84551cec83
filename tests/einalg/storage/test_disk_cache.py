"""Content of the cache that is changed by one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import pytest

from einalg.storage import disk_cache
from einalg.storage.disk_cache import DiskCache

CACHE = DiskCache("tests", ".json", "content of tests")


@contextmanager
def locked_by_another(key: str) -> Iterator[None]:
    with CACHE.locked(key):
        yield


def test_nobody_waits_for_long_for_a_lock(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who holds it may be stopped, or its machine may be gone: the change is made all the same."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(disk_cache, "MAX_LOCK_SECONDS", 0.05)
    with locked_by_another("key"):
        began = monotonic()
        with CACHE.locked("key"):
            CACHE.replace("key", b"[]")
        assert 0.05 <= monotonic() - began < 1.0
    assert CACHE.read("key") == b"[]"
