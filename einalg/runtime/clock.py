"""The time of an answer: how much of it is left, and in which phases it was spent (design §20).

One `Clock` goes through all phases of a search or of an optimization. Each asks it how much time is
left; work that lies deep inside one asks `check_time`, which raises `OutOfTime` where nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter
from typing import TypeVar

SEARCHING, PROVING, COMPILING, MEASURING = "searching", "proving", "compiling", "measuring"
READING, CHECKING = "reading", "checking"  # of a model
PHASES = (READING, SEARCHING, PROVING, COMPILING, MEASURING, CHECKING)  # in their usual order


Result = TypeVar("Result")


class OutOfTime(BaseException):
    """The time for some work is over.

    It is no `Exception`, so that nothing takes it for a failure of the work: it ends work as an
    interrupt does.
    """


@dataclass
class Course:
    """The phases of an answer: the seconds that each took, and what is being done now.

    `phase` names the phase, such as "compiling", and `detail` how far it is, such as "3 of 12".
    `best` is the best answer so far in words, and `results` are lines about what is done. Where the
    course `is_stopped`, no clock of it has any time left, but those that finish. The `listeners`
    are called after each change of the words.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    phase: str = ""
    detail: str = ""
    best: str = ""
    results: list[str] = field(default_factory=list)
    is_stopped: bool = False
    listeners: list[Callable[[Course], None]] = field(default_factory=list, repr=False)

    def tell(self, detail: str) -> None:
        """Say how far the phase is."""
        self._change(self.phase, detail)

    def tell_best(self, best: str) -> None:
        """Say what the best answer is so far."""
        self.best = best
        self._change(self.phase, self.detail)

    def tell_result(self, line: str) -> None:
        """Say what came of a part of the work."""
        self.results.append(line)
        self._change(self.phase, self.detail)

    def _change(self, phase: str, detail: str) -> None:
        self.phase, self.detail = phase, detail
        for listener in self.listeners:
            listener(self)

    @contextmanager
    def heard_by(self, listener: Callable[[Course], None]) -> Iterator[None]:
        """Call a listener after each change within a block."""
        self.listeners.append(listener)
        try:
            yield
        finally:
            self.listeners.remove(listener)

    @contextmanager
    def during(self, phase: str, detail: str, now: Callable[[], float]) -> Iterator[None]:
        """Count time as that of a phase; the time of phases within it counts as theirs alone."""
        before, began, others = (self.phase, self.detail), now(), sum(self.seconds.values())
        self._change(phase, detail)
        try:
            yield
        finally:
            inner = sum(self.seconds.values()) - others
            spent = max(0.0, now() - began - inner)
            self.seconds[phase] = self.seconds.get(phase, 0.0) + spent
            self.phase, self.detail = before


@dataclass(frozen=True)
class Clock:
    """The time of an answer, which began at `began` and is over at `end`, as `now` counts.

    >>> clock = Clock.of(2.0, now=iter([0.0, 0.5, 1.5]).__next__)
    >>> clock.left, clock.spent
    (1.5, 1.5)
    """

    began: float
    end: float = inf
    now: Callable[[], float] = perf_counter
    course: Course = field(default_factory=Course)
    is_finishing: bool = False

    @classmethod
    def of(
        cls, seconds: float, began: float | None = None, now: Callable[[], float] = perf_counter
    ) -> Clock:
        """Return the clock of an answer that may take some seconds from `began`, or from now."""
        start = now() if began is None else began
        return cls(start, start + seconds, now)

    @property
    def spent(self) -> float:
        """The seconds since it began."""
        return self.now() - self.began

    @property
    def left(self) -> float:
        """The seconds until it is over."""
        if self.course.is_stopped and not self.is_finishing:
            return 0.0
        return max(0.0, self.end - self.now())

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0

    def within(self, seconds: float) -> Clock:
        """Return the clock of a part of the work, that is over after some seconds at the latest."""
        return replace(self, end=min(self.end, self.now() + seconds))

    def at_least(self, seconds: float) -> Clock:
        """Return the clock of a part of the work that has some seconds though time is over.

        >>> clock = Clock.of(2.0, now=iter([0.0, 1.9, 2.0, 2.5]).__next__).at_least(0.25)
        >>> round(clock.left, 2), clock.is_over
        (0.15, True)
        """
        return replace(self, end=max(self.end, self.now() + seconds))

    def finishing(self) -> Clock:
        """Return the clock of what makes an answer of the work done, also after an interrupt."""
        return replace(self, is_finishing=True)

    def unlimited(self) -> Clock:
        """Return the clock of work that an answer needs: it is over only when it is stopped."""
        return replace(self, end=inf)

    def stop(self) -> None:
        """End the time of all clocks of this course, as an interrupt does."""
        self.course.is_stopped = True

    def phase(self, name: str, detail: str = "") -> AbstractContextManager[None]:
        """Count the time of a block as that of a phase, and say that it is being done."""
        return self.course.during(name, detail, self.now)

    def insist(self, step: Callable[[], Result]) -> Result:
        """Take a step without which there is no answer: an interrupt ends all other work.

        It begins anew then; a second interrupt is raised.
        """
        try:
            return step()
        except KeyboardInterrupt:
            if self.course.is_stopped:
                raise
            self.stop()
            return step()

    @contextmanager
    def bounding(self) -> Iterator[Clock]:
        """Limit a block, which ends where time is over or an interrupt comes; then go on after it.

        A second interrupt is raised.
        """
        try:
            with self.limiting():
                yield self
        except OutOfTime:
            pass
        except KeyboardInterrupt:
            if self.course.is_stopped:
                raise
            self.stop()

    @contextmanager
    def limiting(self) -> Iterator[Clock]:
        """Make `check_time` within a block ask this clock."""
        token = _limit.set(self)
        try:
            yield self
        finally:
            _limit.reset(token)


_limit: ContextVar[Clock | None] = ContextVar("limit", default=None)


def check_time() -> None:
    """Raise `OutOfTime` where the time for the work under way is over.

    >>> check_time()
    >>> with Clock.of(0.0).limiting():
    ...     check_time()
    Traceback (most recent call last):
    einalg.runtime.clock.OutOfTime
    """
    clock = _limit.get()
    if clock is not None and clock.is_over:
        raise OutOfTime


def time_left() -> float:
    """Return the seconds that are left for the work under way; infinity where nothing limits it."""
    clock = _limit.get()
    return inf if clock is None else clock.left


def phases_in_words(seconds: dict[str, float]) -> str:
    """Return how long the phases took, in words.

    >>> phases_in_words({"measuring": 0.001, "searching": 1.204, "proving": 0.26})
    'searching 1.20 s, proving 0.26 s, measuring 0.00 s'
    """
    known = [name for name in PHASES if name in seconds]
    others = [name for name in seconds if name not in PHASES]
    return ", ".join(f"{name} {seconds[name]:.2f} s" for name in (*known, *others))
