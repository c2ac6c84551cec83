"""The verdicts of this process, for who listens: the plugin of pytest does while a test runs.

This module needs nothing but Python, so that it costs nothing to import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """The verdict on something that was compared, and its extent in words.

    >>> print(Verdict("softmax", "tested", "100 examples of 24 shapes"))
    softmax: tested (100 examples of 24 shapes)
    """

    name: str
    verdict: str
    extent: str = ""

    def __str__(self) -> str:
        extent = f" ({self.extent})" if self.extent else ""
        return f"{self.name}: {self.verdict}{extent}"


_LISTENERS: list[Callable[[Verdict], None]] = []


def note(verdict: Verdict) -> None:
    """Tell all that listen."""
    for listener in list(_LISTENERS):
        listener(verdict)


@contextmanager
def listening(listener: Callable[[Verdict], None]) -> Iterator[None]:
    """Call a function with every verdict inside.

    >>> seen = []
    >>> with listening(seen.append):
    ...     note(Verdict("softmax", "tested"))
    >>> [verdict.name for verdict in seen]
    ['softmax']
    """
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)
