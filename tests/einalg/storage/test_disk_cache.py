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


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_nobody_waits_for_a_lock_for_longer_than_there_is_time(
    seconds: float, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who holds it may be stopped: nothing is changed then, as its change would be lost."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    with locked_by_another("key"):
        began = monotonic()
        with pytest.raises(TimeoutError), CACHE.locked("key", seconds):
            CACHE.replace("key", b"[]")
        assert seconds <= monotonic() - began < seconds + 0.5
    assert CACHE.read("key") is None


def test_what_cannot_be_locked_is_changed_without_a_lock(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock(handle: int, operation: int) -> None:
        raise OSError("no locks here")

    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(disk_cache, "flock", lock)
    with CACHE.locked("key"):
        CACHE.replace("key", b"[]")
    assert CACHE.read("key") == b"[]"
