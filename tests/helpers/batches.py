"""How many batches of random kernels are compiled: few in each run of the tests, many at night."""

from __future__ import annotations

from hypothesis import settings

MORE = 20  # times as many at night


def is_nightly() -> bool:
    """Tell whether properties are tried on more examples than in each run of the tests."""
    return settings.default.max_examples > settings.get_profile("ci").max_examples


def batches(count: int) -> int:
    """Return how many batches a test draws, of which each costs a run of a compiler."""
    if is_nightly():
        return MORE * count
    return count


def examples(by_day: int, at_night: int) -> int:
    """Return how many random examples a slow property is tried on."""
    return at_night if is_nightly() else by_day
