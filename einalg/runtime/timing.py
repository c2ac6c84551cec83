"""Timing of alternative implementations on a machine that does other work too (design §8).

The alternatives take turns, so that they meet the same moments of the machine. They do so until
their times are sharp, or the time for it is over. What the turns say is decided by
`einalg.runtime.measurement`.

The threads of a library wait busily for more work for some time after a call, and meanwhile take
processors from the next alternative: where they could, there is a pause between two alternatives. A
program that mixes libraries pays for that; a `teardown` that runs another library makes it count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, inf
from time import perf_counter, process_time, sleep, thread_time
from typing import Any, Protocol

from einalg.runtime.clock import time_left
from einalg.runtime.measurement import Measurement, Turn, measurement, measurements
from einalg.runtime.processors import thread_count

try:
    import resource
except ImportError:  # where a system tells nothing of interruptions
    resource = None

Calls = Mapping[str, Callable[[], Any]]
Turns = dict[str, list[Turn]]  # by the name of the alternative
MIN_SECONDS = 1e-9  # of what is divided by


@dataclass(frozen=True)
class MeasuringPolicy:
    """How long and how often alternatives run."""

    seconds_per_alternative: float = 0.1
    min_turns: int = 5
    max_turns: int = 100
    sharp_spread: float = 0.03  # after which no other turn is needed
    min_sharp_turns: int = 9  # that a spread must come from
    hopeless_ratio: float = inf  # to the best time: a slower alternative has no further turn
    late_seconds: float = 0.1  # of a first run, that are never late
    late_factor: float = 5.0  # to the best first run: a later alternative has no turn
    slow_seconds: float = 1.0  # an alternative that takes longer has two turns
    brief_seconds: float = 0.02  # a shorter call depends on who used the caches before it
    turn_seconds: float = 0.0005  # that a turn takes at least, by several runs in a row
    max_runs: int = 1000  # of one turn
    visits: int = 3  # of an alternative, each after a pause, where threads could disturb others
    max_wait_seconds: float = 0.12  # after which no thread of a library waits for work
    idle_check_seconds: float = 0.002
    idle_processor_share: float = 0.2  # of one processor, used by a process without busy threads

    def latest(self, first_seconds: Iterable[float]) -> float:
        """Return the seconds of a first run, above which an alternative is late.

        >>> MeasuringPolicy(late_factor=3.0).latest([2.0, 9.0])
        6.0
        """
        return max(self.late_seconds, self.late_factor * min(first_seconds, default=0.0))


DEFAULT_POLICY = MeasuringPolicy()


class Stopwatch(Protocol):
    """Times so many runs of a call as one turn."""

    def __call__(self, call: Callable[[], Any], runs: int) -> Turn: ...


def processor_watch(call: Callable[[], Any], runs: int) -> Turn:
    """Time runs on this machine's processor.

    >>> turn = processor_watch(lambda: sum(range(1000)), 3)
    >>> turn.clock > 0, turn.runs
    (True, 3)
    """
    interruptions, everything, own = _interruptions(), process_time(), thread_time()
    start = perf_counter()
    for _ in range(runs):
        call()
    passed = perf_counter() - start
    own, everything = thread_time() - own, process_time() - everything
    interruptions = _interruptions() - interruptions
    return Turn(passed / runs, own / runs, max(0.0, everything - own) / runs, interruptions, runs)


def device_watch(call: Callable[[], float], runs: int) -> Turn:
    """Take the seconds that a device tells of each run; `call` returns them."""
    return Turn(sum(call() for _ in range(runs)) / runs, runs=runs)


def _interruptions() -> int:
    """Return how often the system took a core from a thread of this process."""
    if resource is None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def measure(
    calls: Calls,
    policy: MeasuringPolicy = DEFAULT_POLICY,
    teardown: Callable[[], Any] | None = None,
    same_thread_pool: bool = False,
    watch: Stopwatch = processor_watch,
) -> dict[str, Measurement]:
    """Measure alternatives in turns; the options are those of `take_turns`.

    >>> calls = {"once": lambda: sum(range(1000)), "twice": lambda: sum(range(2000))}
    >>> measured = measure(calls)
    >>> list(measured), measured["once"].minimum < measured["twice"].minimum
    (['once', 'twice'], True)
    """
    return measurements(take_turns(calls, policy, teardown, same_thread_pool, watch))


def take_turns(
    calls: Calls,
    policy: MeasuringPolicy = DEFAULT_POLICY,
    teardown: Callable[[], Any] | None = None,
    same_thread_pool: bool = False,
    watch: Stopwatch = processor_watch,
) -> Turns:
    """Return the turns of each alternative, after a first run of each that does not count.

    The time of `teardown`, which follows every run, counts. Set `same_thread_pool` where all
    alternatives use the same threads. Where the time for the work under way is over, as
    `einalg.runtime.clock` says, no turn begins but the first ones.
    """
    has_pauses = not same_thread_pool and thread_count() > 1 and len(calls) > 1
    alternatives: list[_TimedCall] = []
    for call in calls.values():
        alternative = _TimedCall(call, policy, teardown, watch, has_pauses)
        alternative.begin(is_alone=len(calls) == 1)
        alternatives.append(alternative)
    number = 0
    while active := _active(alternatives, policy):
        start = number % len(active)
        for alternative in (*active[start:], *active[:start]):
            alternative.visit(_limit(alternatives, policy))
        number += 1
    return {name: alternative.turns for name, alternative in zip(calls, alternatives, strict=True)}


def _active(alternatives: list[_TimedCall], policy: MeasuringPolicy) -> list[_TimedCall]:
    """Return the alternatives that take part in another round; none where all are sharp."""
    limit = _limit(alternatives, policy)
    active = [alternative for alternative in alternatives if alternative.has_turns_left(limit)]
    is_over = time_left() <= 0 or all(alternative.is_sharp() for alternative in active)
    if is_over and all(alternative.turns for alternative in alternatives):
        return []
    return active


def _limit(alternatives: list[_TimedCall], policy: MeasuringPolicy) -> float:
    """Return the time from which an alternative is hopeless."""
    shortest = [alternative.shortest for alternative in alternatives]
    return policy.hopeless_ratio * min(shortest, default=inf)


@dataclass
class _TimedCall:
    """One of several calls, with its turns so far and the seconds that they took."""

    call: Callable[[], Any]
    policy: MeasuringPolicy
    teardown: Callable[[], Any] | None
    watch: Stopwatch
    has_pauses: bool
    turns: list[Turn] = field(default_factory=list)
    runs: int = 1  # of one turn
    spent: float = 0.0
    is_warmed_up: bool = False
    is_slow: bool = False

    def begin(self, is_alone: bool) -> None:
        """Run for the first time, which says how many runs a turn has.

        A turn of a brief call follows directly on a run that does not count, so that it finds the
        caches as it left them itself. The first run of a slow call counts: it has few others.
        """
        self._pause()
        first = self.watch(self._timed, 1)
        if first.clock >= self.policy.slow_seconds:
            self.is_slow = True
            self.turns.append(first)
            return
        is_brief = first.clock < self.policy.brief_seconds
        self.is_warmed_up = is_brief and not is_alone and self.teardown is None
        runs = ceil(self.policy.turn_seconds / max(first.clock, MIN_SECONDS))
        self.runs = max(1, min(self.policy.max_runs, runs))

    @property
    def shortest(self) -> float:
        """The shortest turn by the clock, infinite before the first one."""
        return min((turn.clock for turn in self.turns), default=inf)

    def has_turns_left(self, limit: float) -> bool:
        """Say whether it takes part in another round; not where it takes longer than a limit."""
        if not self.turns:
            return True
        if self.is_slow:
            return len(self.turns) < 2 and self.shortest <= limit
        if self.is_hopeless(limit) or len(self.turns) >= self.policy.max_turns:
            return False
        if len(self.turns) < self.policy.min_turns:
            return True
        return self.spent < self.policy.seconds_per_alternative

    def is_hopeless(self, limit: float) -> bool:
        """Say whether it takes longer than a limit.

        A single turn from which the system took the core does not say so.
        """
        is_undisturbed = any(not turn.interruptions for turn in self.turns)
        if is_undisturbed or len(self.turns) >= self.policy.min_turns:
            return self.shortest > limit
        return False

    def is_sharp(self) -> bool:
        """Say whether its times agree, so that another turn would tell nothing."""
        if len(self.turns) < self.policy.min_sharp_turns:
            return False
        recorded = measurement(self.turns)
        return recorded.spread <= self.policy.sharp_spread

    def visit(self, limit: float) -> None:
        """Take one turn; several in a row where each visit costs a pause, up to a hopeless one."""
        self._pause()
        start = perf_counter()
        if self.is_warmed_up:
            self.call()
        turns, seconds = 1, 0.0
        if self.has_pauses and not self.is_slow:
            turns = ceil(self.policy.min_turns / self.policy.visits)
            seconds = self.policy.seconds_per_alternative / self.policy.visits
        for number in range(self.policy.max_turns):
            is_enough = number >= turns and perf_counter() - start >= seconds
            if is_enough or (number and self.is_hopeless(limit)):
                break
            self.turns.append(self.watch(self._timed, self.runs))
        self.spent += perf_counter() - start

    def _pause(self) -> None:
        if self.has_pauses:
            wait_for_idle_threads(self.policy)

    @property
    def _timed(self) -> Callable[[], Any]:
        """Return what a stopwatch times: the call itself where nothing follows it."""
        if self.teardown is None:
            return self.call
        return self._with_teardown

    def _with_teardown(self) -> Any:
        assert self.teardown is not None
        result = self.call()
        self.teardown()
        return result


def wait_for_idle_threads(policy: MeasuringPolicy = DEFAULT_POLICY) -> None:
    """Return when no thread of a library waits busily for work, or after the longest wait."""
    start = perf_counter()
    while perf_counter() - start < policy.max_wait_seconds:
        check_start, used = perf_counter(), process_time()
        sleep(policy.idle_check_seconds)
        elapsed = perf_counter() - check_start
        if process_time() - used < policy.idle_processor_share * elapsed:
            return
