"""How far a search is, as a bar or as log lines (design §12)."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from derive.search.best_first import Budget, Progress
from derive.search.candidates import Stats
from einalg.text.wording import counted

log = logging.getLogger("einalg")

EVERY = 2.0  # seconds between two log lines
State = tuple[int, int, str]  # how much is done, of how much, and a few words


def search_progress(
    progress: Callable[[Any], None] | bool | None, budget: Budget
) -> AbstractContextManager[Progress | None]:
    """Return the function that a search calls after every state.

    A function is taken as it is; for True it is a bar of tqdm, or log lines where tqdm is not
    installed.
    """
    return _shown(
        progress,
        "derive",
        "state",
        budget.states,
        lambda stats: (stats.states, budget.states, format_stats(stats)),
    )


def layer_progress(
    progress: Callable[..., None] | bool | None,
) -> AbstractContextManager[Callable[..., None] | None]:
    """Return the function that an optimizer calls before each layer, as `search_progress`.

    It is called with the layer, its number from 0 and how many there are.
    """
    return _shown(
        progress,
        "optimize",
        "layer",
        None,
        lambda layer, number, of: (number, of, layer.text.splitlines()[-1]),
    )


@contextmanager
def _shown(
    progress: Callable[..., None] | bool | None,
    what: str,
    unit: str,
    of: int | None,
    state: Callable[..., State],
) -> Iterator[Callable[..., None] | None]:
    if not isinstance(progress, bool):
        yield progress
    elif not progress:
        yield None
    elif (bar := _bar(what, unit, of)) is None:
        yield _logged(unit, state)
    else:
        with bar:
            yield _drawn(bar, state)


def _bar(what: str, unit: str, of: int | None) -> Any:
    """A bar of tqdm, that of notebooks in one, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of notebooks that cannot draw bars
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=of, unit=unit, desc=what, leave=False)


def _drawn(bar: Any, state: Callable[..., State]) -> Callable[..., None]:
    def tell(*arguments: Any) -> None:
        done, of, words = state(*arguments)
        bar.set_postfix_str(words, refresh=False)
        bar.update(done - bar.n)
        if bar.total != of:
            bar.total = of
            bar.refresh()

    return tell


def _logged(unit: str, state: Callable[..., State]) -> Callable[..., None]:
    last = time.perf_counter() - EVERY

    def tell(*arguments: Any) -> None:
        nonlocal last
        if time.perf_counter() - last >= EVERY:
            last = time.perf_counter()
            done, of, words = state(*arguments)
            log.info("einalg: %d of %d %ss, %s", done, of, unit, words)

    return tell


def format_stats(stats: Stats) -> str:
    """The statistics in a few words.

    >>> format_stats(Stats(states=3, candidates=1, duplicates=2))
    '1 candidate, 2 duplicates'
    """
    return f"{counted(stats.candidates, 'candidate')}, {counted(stats.duplicates, 'duplicate')}"
