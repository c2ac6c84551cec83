"""Timing of alternative implementations on a machine that does other work too (design §8).

`interleaved` runs the alternatives in rounds, so that a disturbance slows all of them down.
`sequential` times one after the other: the threads of a library wait for more work for some time
after a call, and meanwhile take processors from the next alternative. A program that mixes
libraries pays for that; a `teardown` that runs another library makes it count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any

from einalg.runtime.processors import thread_count

Calls = Mapping[str, Callable[[], Any]]
RunTimes = dict[str, list[float]]  # seconds of each run, by the name of the alternative


@dataclass(frozen=True)
class MeasuringPolicy:
    """How long and how often alternatives run, and when two times differ."""

    seconds_per_alternative: float = 0.1
    min_runs: int = 5
    max_runs: int = 100
    hopeless_ratio: float = 3.0  # to the best time: a slower alternative has no second run
    brief_seconds: float = 0.02  # a shorter call depends on who used the caches before it
    slower_margin: float = 0.05  # relative difference that is more than noise
    max_wait_seconds: float = 0.12  # after which no thread of a library waits for work
    idle_check_seconds: float = 0.01
    idle_processor_share: float = 0.2  # of one processor, used by a process without busy threads


DEFAULT_POLICY = MeasuringPolicy()


def run_times(
    calls: Calls,
    policy: MeasuringPolicy = DEFAULT_POLICY,
    teardown: Callable[[], Any] | None = None,
    same_thread_pool: bool = False,
) -> RunTimes:
    """Return the seconds of the runs of each alternative.

    The alternatives are `interleaved`, unless threads of one could disturb the next one. The time
    of `teardown`, which follows every run, counts. Set `same_thread_pool` where all alternatives
    use the same threads.

    >>> calls = {"once": lambda: sum(range(1000)), "twice": lambda: sum(range(2000))}
    >>> times = run_times(calls, MeasuringPolicy(0.0, min_runs=3, max_runs=30))
    >>> list(times), len(times["once"]), min(times["twice"]) > 0
    (['once', 'twice'], 3, True)
    """
    if same_thread_pool or thread_count() == 1 or len(calls) < 2:
        return interleaved(calls, policy, teardown)
    return sequential(calls, policy, teardown)


def interleaved(
    calls: Calls,
    policy: MeasuringPolicy = DEFAULT_POLICY,
    teardown: Callable[[], Any] | None = None,
) -> RunTimes:
    """Time the alternatives in rounds, after a first run of each that does not count.

    A hopelessly slow alternative takes part in one round only. A run of a brief one follows
    directly on one that does not count, so that it finds the caches as it left them itself.
    """
    warmed_up: dict[str, bool] = {}
    for name, call in calls.items():
        first = _seconds_of_run(call, teardown)
        is_brief = first < policy.brief_seconds and len(calls) > 1
        warmed_up[name] = is_brief and teardown is None
    times: RunTimes = {name: [] for name in calls}
    rounds, start = 0, perf_counter()
    time_limit = policy.seconds_per_alternative * len(calls)
    while _has_runs_left(policy, rounds, start, time_limit):
        limit = policy.hopeless_ratio * _best_time(times.values(), default=0.0)
        rounds += 1
        for name, call in calls.items():
            if rounds > 1 and min(times[name]) > limit:
                continue
            if warmed_up[name]:
                call()
            times[name].append(_seconds_of_run(call, teardown))
    return times


def sequential(
    calls: Calls,
    policy: MeasuringPolicy = DEFAULT_POLICY,
    teardown: Callable[[], Any] | None = None,
) -> RunTimes:
    """Time the alternatives one after the other, each after a first run that does not count.

    No thread of an earlier alternative is busy when the next one begins.
    """
    times: RunTimes = {name: [] for name in calls}
    for name, call in calls.items():
        wait_for_idle_threads(policy)
        _seconds_of_run(call, teardown)
        limit = policy.hopeless_ratio * _best_time(times.values(), default=float("inf"))
        runs, start = times[name], perf_counter()
        while _has_runs_left(policy, len(runs), start, policy.seconds_per_alternative):
            runs.append(_seconds_of_run(call, teardown))
            if runs[0] > limit:
                break
    return times


def wait_for_idle_threads(policy: MeasuringPolicy = DEFAULT_POLICY) -> None:
    """Return when no thread of a library waits busily for work, or after the longest wait."""
    start = perf_counter()
    while perf_counter() - start < policy.max_wait_seconds:
        check_start, used = perf_counter(), process_time()
        sleep(policy.idle_check_seconds)
        elapsed = perf_counter() - check_start
        if process_time() - used < policy.idle_processor_share * elapsed:
            return


def median_seconds(
    calls: Sequence[Callable[[], Any]],
    policy: MeasuringPolicy = DEFAULT_POLICY,
    same_thread_pool: bool = False,
) -> list[float]:
    """Return the median seconds of each alternative, as `run_times` measures them.

    >>> len(median_seconds([lambda: 1, lambda: 2]))
    2
    """
    named = {str(position): call for position, call in enumerate(calls)}
    times = run_times(named, policy, same_thread_pool=same_thread_pool)
    return [median(runs) for runs in times.values()]


def is_slower(seconds: float, other: float, policy: MeasuringPolicy = DEFAULT_POLICY) -> bool:
    """Return whether a time is longer than another one by more than noise.

    >>> is_slower(1.2, 1.0), is_slower(1.02, 1.0)
    (True, False)
    """
    return seconds > other * (1 + policy.slower_margin)


def _seconds_of_run(call: Callable[[], Any], teardown: Callable[[], Any] | None) -> float:
    start = perf_counter()
    call()
    if teardown is not None:
        teardown()
    return perf_counter() - start


def _has_runs_left(policy: MeasuringPolicy, runs: int, start: float, time_limit: float) -> bool:
    if runs < policy.min_runs:
        return True
    return runs < policy.max_runs and perf_counter() - start < time_limit


def _best_time(times: Iterable[Sequence[float]], default: float) -> float:
    """Return the shortest of all runs so far, or `default` where nothing has run."""
    return min((min(runs) for runs in times if runs), default=default)
