"""Measurements that tests say, in the place of those of a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from einalg.runtime.measurement import CLOCK, Measurement


def exactly(seconds: float, busy: bool = False) -> Measurement:
    """Return the measurement of runs that all took as long."""
    return Measurement(seconds, seconds, seconds, 9, CLOCK, busy)


def all_exactly(seconds: Callable[[Any], float]) -> Callable[..., list[Measurement]]:
    """Return a method `measure` of a backend, by which a program takes so many seconds.

    >>> class Backend:
    ...     measure = all_exactly(len)
    >>> [measured.seconds for measured in Backend().measure(["a", "bb"], {})]
    [1, 2]
    """

    def measure(self: Any, runnables: Sequence[Any], *options: Any) -> list[Measurement]:
        return [exactly(seconds(runnable)) for runnable in runnables]

    return measure


def sooner(kind: type, seconds: float = 0.1) -> Callable[..., list[Measurement]]:
    """Return a method `measure` of a backend, by which programs of one kind are faster."""

    def of_one(runnable: Any) -> float:
        return seconds if isinstance(runnable, kind) else 1.0

    return all_exactly(of_one)


class NoBackground:
    """The background of a backend that compiles nothing ahead."""

    is_free = False

    def kernel_timers(self, kernels: Any) -> list[Any]:
        raise AssertionError("nothing begins here")

    def finish(self) -> None:
        pass

    stop = finish
