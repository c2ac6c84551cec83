"""Content of the cache that is changed by one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

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
    waited = [0.0]

    def sleep(pause: float) -> None:
        waited[0] += pause

    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(
        disk_cache, "time", SimpleNamespace(monotonic=lambda: waited[0], sleep=sleep)
    )
    with locked_by_another("key"):
        with pytest.raises(TimeoutError), CACHE.locked("key", seconds):
            CACHE.replace("key", b"[]")
        assert seconds <= waited[0] <= seconds + disk_cache.LOCK_PAUSE
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
