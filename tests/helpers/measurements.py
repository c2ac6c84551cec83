"""Measurements that tests say, in the place of those of a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from codegen.measure import calibration
from codegen.tuning import kernel_choice
from einalg.runtime import timing
from einalg.runtime.measurement import CLOCK, Measurement

UNSHORTENED = timing.take_turns
SECONDS = 0.01  # that an alternative runs at most, beyond its least number of turns
RATES = {"library": 1e11, "generated": 4e9, "bandwidth": 1e10, "call": 2e-6}  # of a machine
MEASURED_RATES = calibration.rates


def shorten_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure with the least number of turns and with short pauses; the rates of the processor are
    known.

    No test may depend on how sharp a time is: the machine that it runs on does other work.
    """

    def take_few_turns(
        calls: timing.Calls,
        policy: timing.MeasuringPolicy = timing.DEFAULT_POLICY,
        *arguments: Any,
        **options: Any,
    ) -> timing.Turns:
        short = replace(
            policy,
            seconds_per_alternative=min(SECONDS, policy.seconds_per_alternative),
            max_wait_seconds=SECONDS,
            idle_check_seconds=SECONDS / 10,
        )
        return UNSHORTENED(calls, short, *arguments, **options)

    def known_rates(target: str = "cpu", accuracy: float | None = None) -> dict[str, float]:
        if target == "cpu":
            return dict(RATES)
        return MEASURED_RATES(target, accuracy)

    monkeypatch.setattr(calibration, "rates", known_rates)
    monkeypatch.setattr(timing, "take_turns", take_few_turns)
    monkeypatch.setattr(kernel_choice, "take_turns", take_few_turns)


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
