"""How far a search is, as a bar or as log lines (design §12)."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from derive.search import Budget, Progress, Stats
from einalg.wording import counted

log = logging.getLogger("einalg")

EVERY = 2.0  # seconds between two log lines


@contextmanager
def shown(progress: Callable[[Any], None] | bool | None, budget: Budget) -> Iterator[Progress | None]:
    """What a search calls after every state: a function as it is, for True a bar of tqdm, or log lines where tqdm is not installed."""
    if not isinstance(progress, bool):
        yield progress
    elif not progress:
        yield None
    elif (bar := _bar(budget)) is None:
        yield _logged()
    else:
        with bar:
            yield _drawn(bar)


def _bar(budget: Budget) -> Any:
    """A bar of tqdm, that of notebooks in one, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of notebooks that cannot draw bars
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=budget.states, unit="state", desc="derive", leave=False)


def _drawn(bar: Any) -> Progress:
    def tell(stats: Stats) -> None:
        bar.set_postfix_str(told(stats), refresh=False)
        bar.update(stats.states - bar.n)

    return tell


def _logged() -> Progress:
    last = time.perf_counter() - EVERY

    def tell(stats: Stats) -> None:
        nonlocal last
        if time.perf_counter() - last >= EVERY:
            last = time.perf_counter()
            log.info("einalg: %s, %s", counted(stats.states, "state"), told(stats))

    return tell


def told(stats: Stats) -> str:
    """The statistics in a few words.

    >>> told(Stats(states=3, candidates=1, duplicates=2))
    '1 candidate, 2 duplicates'
    """
    return f"{counted(stats.candidates, 'candidate')}, {counted(stats.duplicates, 'duplicate')}"
