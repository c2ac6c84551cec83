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
from einalg.runtime.measurement import Turn
from einalg.storage.fingerprint import Fingerprint

LOG = logging.getLogger("einalg")
REPEATS = 7


def fastest(
    driver: Driver,
    calls: Mapping[str, Callable[[], None]],
    read: Callable[[], Array],
    scope: Scope,
    *keys: str,
) -> str:
    """Return the name of the fastest of several calls.

    `read` gives what a call has computed; the values of the first one are the expected ones. A call
    that raises or has other values is left out, with a warning. `keys` say what the calls depend on
    besides the device.
    """
    fingerprint = Fingerprint(CHOICE_CODE, f"{driver.name}\n{driver.sm}")
    return cached_choice(
        fingerprint.key("cuda", *calls, *keys),
        calls,
        lambda: measured(driver, calls, read, scope),
    )


def measured(
    driver: Driver, calls: Mapping[str, Callable[[], None]], read: Callable[[], Array], scope: Scope
) -> Selection:
    """The times of all calls that have the values of the first one."""

    def attempt(call: Callable[[], None]) -> tuple[Figures, Array]:
        call()
        values = read()
        run = repeated_seconds(driver, partial(_several_times, call))
        return figures_of([Turn(run()) for _ in range(REPEATS)]), values

    return Selection(
        consistent_runs(
            {name: lambda call=call: attempt(call) for name, call in calls.items()}, scope
        )
    )


def _several_times(call: Callable[[], None], count: int) -> None:
    for _ in range(count):
        call()


def chosen(measure: Callable[[], str], what: str) -> str | None:
    """The choice, or None where the device has no room to measure it."""
    try:
        return measure()
    except DeviceError as error:
        LOG.warning("einalg: no library is tried for %s: %s", what, str(error))
        return None
