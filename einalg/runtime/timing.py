"""Timing several ways to do the same: in turns, so that what disturbs the machine disturbs all of them (design §8).

With more threads than one, each way is timed in one go, and none in the wake of another: the threads of a library wait for more work for some
time after a call, and take processors meanwhile from those of the next one. A program that mixes them pays for that; `after` makes it count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any

SECONDS, LEAST, MOST = (
    0.1,
    5,
    100,
)  # of each way, and how many runs, where nothing else is asked for
SLOWER = 0.05  # relative difference from which on one way is slower than another
PAUSE = 0.12  # seconds after which no thread of a library waits any more
LOOK, IDLE = (
    0.01,
    0.2,
)  # seconds to see whether any does, and the part of a processor that the process takes then where none does
HOPELESS = 3.0  # times the best after the first turn: no more of these
BRIEF = 0.02  # seconds: what takes less depends on who used the caches before


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads generated code uses: `OMP_NUM_THREADS`, or one for each core.

    >>> 1 <= threads()
    True
    """
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdigit() and int(first) else cores()


def pause() -> None:
    """Return when no thread of a library waits for more work, which takes a processor, or after `PAUSE` seconds."""
    start = perf_counter()
    while perf_counter() - start < PAUSE:
        began, used = perf_counter(), process_time()
        sleep(LOOK)
        if process_time() - used < IDLE * (perf_counter() - began):
            return


def in_turns(
    calls: Mapping[str, Callable[[], Any]],
    seconds: float,
    least: int,
    most: int,
    after: Callable[[], Any] | None = None,
    alike: bool = False,
) -> dict[str, list[float]]:
    """Seconds of the calls of each way, those after a first one: `least` or more within about `seconds` a way, but `most` in all.

    What is hopelessly slow has few. A brief one comes right after one that does not count, so that no way finds the caches as another one
    left them. `after` is run after every call, and its time belongs to that. `alike` says that all use the same threads.

    >>> times = in_turns({"once": lambda: sum(range(1000)), "twice": lambda: sum(range(2000))}, 0.0, 3, 30)
    >>> list(times), len(times["once"]), min(times["twice"]) > 0
    (['once', 'twice'], 3, True)
    """

    def timed(call: Callable[[], Any], is_brief: bool = False) -> float:
        if is_brief and not after:
            call()
        start = perf_counter()
        call()
        if after:
            after()
        return perf_counter() - start

    spent: dict[str, list[float]] = {way: [] for way in calls}
    if not (alike or threads() == 1 or len(calls) < 2):
        for way, call in calls.items():
            pause()
            timed(call)
            best, start = (
                min((min(times) for times in spent.values() if times), default=float("inf")),
                perf_counter(),
            )
            while len(spent[way]) < least or (
                len(spent[way]) < most and perf_counter() - start < seconds
            ):
                spent[way].append(timed(call))
                if spent[way][0] > HOPELESS * best:
                    break
        return spent
    brief = {way: timed(call) < BRIEF for way, call in calls.items()}
    turns, start = 0, perf_counter()
    while turns < least or (turns < most and perf_counter() - start < seconds * len(calls)):
        best, turns = min((min(times) for times in spent.values() if times), default=0.0), turns + 1
        for way, call in calls.items():
            if turns == 1 or min(spent[way]) <= HOPELESS * best:
                spent[way].append(timed(call, brief[way] and len(calls) > 1))
    return spent


def medians(calls: Sequence[Callable[[], Any]], alike: bool = False) -> list[float]:
    """The median seconds of each of some ways, as `in_turns` measures them.

    >>> len(medians([lambda: 1, lambda: 2]))
    2
    """
    return [
        median(times)
        for times in in_turns(
            {str(k): call for k, call in enumerate(calls)}, SECONDS, LEAST, MOST, alike=alike
        ).values()
    ]


def is_slower(seconds: float, other: float) -> bool:
    """Whether a way is slower than another beyond what measurements differ by.

    >>> is_slower(1.2, 1.0), is_slower(1.02, 1.0)
    (True, False)
    """
    return seconds > other * (1 + SLOWER)
