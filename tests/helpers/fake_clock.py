"""A clock of `einalg.runtime.timing` that tests move, so that they take the same at any load."""

from __future__ import annotations

import pytest

from einalg.runtime import timing


class FakeClock:
    """A process whose other threads take a processor until a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, busy_until: float = 0.0):
        self.now, self.busy = 0.0, busy_until
        monkeypatch.setattr(timing, "perf_counter", self.read)
        monkeypatch.setattr(timing, "thread_time", self.read)
        monkeypatch.setattr(timing, "process_time", lambda: min(self.now, self.busy))
        monkeypatch.setattr(timing, "sleep", self.sleep)
        monkeypatch.setattr(timing, "resource", None)  # nothing interrupts this process

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
