"""Turns of alternatives: their order, their number, and what comes between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from einalg.runtime import clock, timing
from einalg.runtime.measurement import Turn
from tests.helpers.fake_clock import FakeClock
from tests.helpers.measurements import UNSHORTENED

BARE = timing.MeasuringPolicy(0.0, min_turns=2, max_turns=3, turn_seconds=0.0)


@pytest.fixture(autouse=True)
def all_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take as many turns here as users' measurements have."""
    monkeypatch.setattr(timing, "take_turns", UNSHORTENED)


@pytest.mark.parametrize("busy", [0.0, 0.035, 0.1, 5.0])
def test_a_pause_ends_when_no_thread_runs_any_more(
    monkeypatch: pytest.MonkeyPatch, busy: float
) -> None:
    clock, policy = FakeClock(monkeypatch, busy), timing.DEFAULT_POLICY
    check = policy.idle_check_seconds
    timing.wait_for_idle_threads()
    assert clock.now == pytest.approx(min(busy + check, policy.max_wait_seconds), abs=check)
    before = clock.now
    timing.wait_for_idle_threads()
    second = check if busy < 1 else policy.max_wait_seconds
    assert clock.now - before == pytest.approx(second, abs=check)


@pytest.mark.parametrize(
    ("threads", "same", "pauses"), [("1", False, 0), ("2", True, 0), ("2", False, 3 * 3)]
)
def test_ways_with_several_threads_are_parted_by_pauses(
    monkeypatch: pytest.MonkeyPatch, threads: str, same: bool, pauses: int
) -> None:
    """Before the first run, and before each of two visits."""
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    clock = FakeClock(monkeypatch)
    turns = timing.take_turns({name: lambda: None for name in "abc"}, BARE, same_thread_pool=same)
    assert {name: len(recorded) for name, recorded in turns.items()} == {"a": 2, "b": 2, "c": 2}
    assert clock.now == pytest.approx(pauses * timing.DEFAULT_POLICY.idle_check_seconds)


@pytest.mark.parametrize(("seconds", "calls"), [(0.001, "ab" + "aabb" + "bbaa"), (0.5, "ababba")])
def test_what_is_brief_finds_the_caches_as_it_left_them(
    monkeypatch: pytest.MonkeyPatch, seconds: float, calls: str
) -> None:
    """A call that does not count comes first: the weights of another way may fill all caches."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    clock, called = FakeClock(monkeypatch), list[str]()

    def way(name: str) -> None:
        called.append(name)
        clock.sleep(seconds)

    turns = timing.take_turns({name: lambda name=name: way(name) for name in "ab"}, BARE)
    for recorded in turns.values():
        assert [turn.clock for turn in recorded] == pytest.approx([seconds] * 2)
    assert "".join(called) == calls


def scripted(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> tuple[FakeClock, timing.Calls]:
    """Return calls that take as long as they are said to, by one thread."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    clock = FakeClock(monkeypatch)
    return clock, {name: lambda spent=spent: clock.sleep(spent) for name, spent in seconds.items()}


def test_turns_end_where_all_are_sharp(monkeypatch: pytest.MonkeyPatch) -> None:
    _, calls = scripted(monkeypatch, quick=0.002, slow=0.004)
    policy = timing.MeasuringPolicy(10.0, turn_seconds=0.0)
    turns = timing.take_turns(calls, policy)
    assert {len(recorded) for recorded in turns.values()} == {policy.min_sharp_turns}
    every = timing.take_turns(calls, replace(policy, sharp_spread=-1.0))
    assert {len(recorded) for recorded in every.values()} == {policy.max_turns}


def test_what_is_not_sharp_goes_on_until_its_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    clock, numbers = FakeClock(monkeypatch), count()

    def rough() -> None:
        clock.sleep(0.001 * (1 + next(numbers) % 7))

    policy = timing.MeasuringPolicy(0.1, max_turns=1000, turn_seconds=0.0)
    turns = timing.take_turns({"rough": rough}, policy)["rough"]
    assert len(turns) > policy.min_sharp_turns
    assert clock.now == pytest.approx(0.1, abs=0.02)


def test_a_slow_one_has_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    _, calls = scripted(monkeypatch, quick=0.001, slow=2.0)
    turns = timing.take_turns(calls)
    assert len(turns["slow"]) == 2 and len(turns["quick"]) >= timing.DEFAULT_POLICY.min_turns


def test_a_rival_that_is_much_slower_has_turns_unless_only_the_best_matters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, calls = scripted(monkeypatch, quick=0.001, slow=0.012)
    assert len(timing.take_turns(calls)["slow"]) >= timing.DEFAULT_POLICY.min_turns
    policy = replace(timing.DEFAULT_POLICY, hopeless_ratio=3.0)
    assert len(timing.take_turns(calls, policy)["slow"]) == 1


def test_a_turn_that_lost_its_core_is_not_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another turn says whether it is: the first one waited for other work."""
    clock, calls = scripted(monkeypatch, rival=0.002)
    runs, interruptions = count(), list[int]()

    def disturbed() -> None:
        clock.sleep(0.001)
        if next(runs) == 2:  # the first turn that counts
            clock.sleep(0.02)
            interruptions.append(1)

    monkeypatch.setattr(timing, "_interruptions", lambda: len(interruptions))
    policy = replace(timing.DEFAULT_POLICY, hopeless_ratio=3.0, turn_seconds=0.0)
    turns = timing.take_turns({**calls, "quick": disturbed}, policy)["quick"]
    assert turns[0].interruptions == 1 and turns[0].clock > 0.02
    assert len(turns) >= policy.min_turns and turns[-1].clock == pytest.approx(0.001)


def test_the_time_for_the_work_under_way_ends_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = scripted(monkeypatch, one=0.01, two=0.01)
    with clock.Clock.of(0.0, now=lambda: now.now).limiting():
        turns = timing.take_turns(calls)
    assert {name: len(recorded) for name, recorded in turns.items()} == {"one": 1, "two": 1}
    policy = timing.MeasuringPolicy(10.0, sharp_spread=-1.0)
    began = now.now
    with clock.Clock.of(0.5, now=lambda: now.now).limiting():
        timing.take_turns(calls, policy)
    assert now.now - began == pytest.approx(0.5, abs=0.05)


def test_very_brief_calls_run_several_times_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    _, calls = scripted(monkeypatch, brief=1e-5, other=1e-3)
    turns = timing.take_turns(calls)
    assert turns["brief"][0].runs == 50 and turns["other"][0].runs == 1
    assert turns["brief"][0].clock == pytest.approx(1e-5)


def test_a_device_tells_its_own_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeClock(monkeypatch)
    turns = timing.take_turns({"kernel": lambda: 0.25}, BARE, watch=timing.device_watch)
    assert turns["kernel"] == [Turn(0.25), Turn(0.25)]


def test_what_runs_in_turns_is_measured_by_one_clock() -> None:
    """A call of one thread is not told without what other work adds to the rival's two threads."""

    def watch(call: Callable[[], Turn], runs: int) -> Turn:
        return call()

    calls = {"one": lambda: Turn(0.03, 0.01), "two": lambda: Turn(0.02, 0.01, 0.01)}
    measured = timing.measure(calls, BARE, watch=watch)
    assert [recorded.seconds for recorded in measured.values()] == [0.03, 0.02]
