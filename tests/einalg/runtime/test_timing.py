"""Timing in turns: what comes between the ways."""

from __future__ import annotations

import pytest

from einalg.runtime import timing


class Clock:
    """A process whose other threads take a processor until a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, busy_until: float):
        self.now, self.busy = 0.0, busy_until
        monkeypatch.setattr(timing, "perf_counter", lambda: self.now)
        monkeypatch.setattr(timing, "process_time", lambda: min(self.now, self.busy))
        monkeypatch.setattr(timing, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("busy", "passed"), [(0.0, 0.01), (0.035, 0.05), (0.1, 0.11), (5.0, 0.12)])
def test_a_pause_ends_when_no_thread_runs_any_more(
    monkeypatch: pytest.MonkeyPatch, busy: float, passed: float
) -> None:
    clock, policy = Clock(monkeypatch, busy), timing.DEFAULT_POLICY
    check = policy.idle_check_seconds
    timing.wait_for_idle_threads()
    assert clock.now == pytest.approx(passed, abs=check)
    before = clock.now
    timing.wait_for_idle_threads()
    second = check if busy < 1 else policy.max_wait_seconds
    assert clock.now - before == pytest.approx(second, abs=check)


@pytest.mark.parametrize(("threads", "pauses"), [("1", 0), ("2", 3)])
def test_ways_with_several_threads_are_parted_by_pauses(
    monkeypatch: pytest.MonkeyPatch, threads: str, pauses: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    clock = Clock(monkeypatch, 0.0)
    found = timing.run_times(
        {name: lambda: None for name in "abc"}, timing.MeasuringPolicy(0.0, 2, 3)
    )
    assert {name: len(times) for name, times in found.items()} == {"a": 2, "b": 2, "c": 2}
    assert clock.now == pytest.approx(pauses * timing.DEFAULT_POLICY.idle_check_seconds)


@pytest.mark.parametrize(("seconds", "calls"), [(0.001, "ab" + "aabb" * 2), (1.0, "ab" * 3)])
def test_what_is_brief_finds_the_caches_as_it_left_them(
    monkeypatch: pytest.MonkeyPatch, seconds: float, calls: str
) -> None:
    """A call that does not count comes first: the weights of another way may fill all caches."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    clock, called = Clock(monkeypatch, 0.0), list[str]()

    def way(name: str) -> None:
        called.append(name)
        clock.sleep(seconds)

    found = timing.run_times(
        {name: lambda name=name: way(name) for name in "ab"}, timing.MeasuringPolicy(0.0, 2, 3)
    )
    assert found == {name: pytest.approx([seconds] * 2) for name in "ab"}
    assert "".join(called) == calls
