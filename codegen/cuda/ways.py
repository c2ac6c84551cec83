"""Which of several ways to run a kernel is fastest on a device: measured there once, and kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np

from codegen.choosing import CHOICES, TOLERANCE, Choice, Figures, choice_of
from codegen.cuda.driver import Driver
from einalg.cache import hashed
from einalg.errors import DeviceError
from einalg.scope import Scope

LOG = logging.getLogger("einalg")
REPEATS = 7
Array = np.ndarray[Any, Any]


def fastest(driver: Driver, calls: Mapping[str, Callable[[], None]], read: Callable[[], Array], scope: Scope, *keys: str) -> str:
    """The name of the fastest of several calls; the first is the one that is believed.

    `read` gives what a call has computed. A call that raises or has other values than the first is left out, with a warning. `keys`
    say what the calls depend on besides the device.
    """
    key = hashed("cuda", driver.name, str(driver.sm), *calls, *keys)
    known = choice_of(CHOICES.read(key))
    if known is None or set(known.ways) - set(calls):
        known = Choice(measured(driver, calls, read, scope))
        CHOICES.replace(key, known.text())
    return known.best


def measured(driver: Driver, calls: Mapping[str, Callable[[], None]], read: Callable[[], Array], scope: Scope) -> dict[str, Figures]:
    """The times of all calls that have the values of the first one."""
    found: dict[str, Figures] = {}
    expected: Array | None = None
    for name, call in calls.items():
        try:
            call()
            values = read()
            times = [driver.elapsed(call) for _ in range(REPEATS)]
        except Exception as error:  # whatever a library raises, there is another way
            if expected is None:
                raise
            LOG.warning("einalg: %s cannot run %s and is left out: %s", name, scope, error)
            continue
        if expected is None or _same(values, expected, scope.dtype):
            expected = values if expected is None else expected
            middle = max(median(times), 1e-9)
            found[name] = Figures(middle, (max(times) - min(times)) / middle)
        else:
            LOG.warning("einalg: %s has other values for %s and is left out", name, scope)
    return found


def _same(found: Array, expected: Array, dtype: str) -> bool:
    if dtype not in TOLERANCE:
        return np.array_equal(found, expected)
    exact = expected.astype(np.float64)
    scale = float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0))
    return np.allclose(found.astype(np.float64), exact, rtol=0, atol=TOLERANCE[dtype] * scale, equal_nan=True)


def chosen(measure: Callable[[], str], what: str) -> str | None:
    """The choice, or None where the device has no room to measure it."""
    try:
        return measure()
    except DeviceError as error:
        LOG.warning("einalg: no library is tried for %s: %s", what, error)
        return None
