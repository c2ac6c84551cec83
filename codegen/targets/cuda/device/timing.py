"""The time that a device takes for work, among repeats of it.

What the host does to start the work is hidden behind the repeats before it, and the clock of the
device has risen.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from codegen.targets.cuda.device.driver import Driver

SPAN_SECONDS = 2e-3  # that repeats take together
MAX_REPEATS = 64


def choose_repeats(seconds: float) -> int:
    """Return how often work of so many seconds is repeated between two looks at the clock.

    >>> choose_repeats(1e-3), choose_repeats(1e-6), choose_repeats(1.0)
    (2, 64, 1)
    """
    if seconds * MAX_REPEATS <= SPAN_SECONDS:
        return MAX_REPEATS
    return ceil(SPAN_SECONDS / seconds)


def repeated_seconds(driver: Driver, start: Callable[[int], None]) -> Callable[[], float]:
    """Return a function that runs some work several times over, and returns the seconds of once.

    `start` starts the work as often as its argument says.
    """
    start(1)
    count = choose_repeats(driver.elapsed(lambda: start(1)))
    start(count)  # a graph of so many is made when they come for the second time
    start(count)
    return lambda: driver.elapsed(lambda: start(count)) / count
