"""The fastest of several implementations of a kernel on a device: measured there, and stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from codegen.targets.cuda.device.driver import Driver
from codegen.targets.cuda.device.timing import repeated_seconds
from codegen.tuning.fingerprint import CHOICE_CODE
from codegen.tuning.kernel_choice import (
    Array,
    Figures,
    Selection,
    cached_choice,
    consistent_runs,
    figures_of,
)
from einalg.errors import DeviceError
from einalg.language.ir.scope import Scope
from einalg.runtime.measurement import Turn, measurement
from einalg.storage.fingerprint import Fingerprint

LOG = logging.getLogger("einalg")
REPEATS = 7


def fastest(
    driver: Driver,
    starts: Mapping[str, Callable[[int], None]],
    read: Callable[[], Array],
    scope: Scope,
    *keys: str,
) -> str:
    """Return the name of the fastest of several ways to compute something.

    Each of `starts` starts one way, as often as its argument says. `read` gives what it has
    computed; the values of the first way are the expected ones. One that raises or has other
    values is left out, with a warning. `keys` say what the ways depend on besides the device.
    """
    fingerprint = Fingerprint(CHOICE_CODE, f"{driver.name}\n{driver.sm}")
    return cached_choice(
        fingerprint.key("cuda", *starts, *keys),
        starts,
        lambda: measured(driver, starts, read, scope),
    )


def measured(
    driver: Driver,
    starts: Mapping[str, Callable[[int], None]],
    read: Callable[[], Array],
    scope: Scope,
) -> Selection:
    """The times of all ways that have the values of the first one."""

    def attempt(start: Callable[[int], None], _: Array | None) -> tuple[Figures, Array]:
        start(1)
        values = read()
        run = repeated_seconds(driver, start)
        return figures_of(measurement([Turn(run()) for _ in range(REPEATS)])), values

    return Selection(
        consistent_runs({name: partial(attempt, start) for name, start in starts.items()}, scope)
    )


def chosen(measure: Callable[[], str], what: str) -> str | None:
    """The choice, or None where the device has no room to measure it."""
    try:
        return measure()
    except DeviceError as error:
        LOG.warning("einalg: no library is tried for %s: %s", what, str(error))
        return None
