"""Numbers of processor cores and of threads that this process uses."""

from __future__ import annotations

import os


def core_count() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count() -> int:
    """Return how many threads generated code uses: `OMP_NUM_THREADS`, or one for each core.

    >>> 1 <= thread_count()
    True
    """
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdigit() and int(first):
        return int(first)
    return core_count()
