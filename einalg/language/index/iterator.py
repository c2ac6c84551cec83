"""Loop indices with their half-open ranges (design §2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from einalg.errors import NotationError
from einalg.language.index.affine import Index


def iterators_text(iterators: tuple[LoopIndex, ...]) -> str:
    """Return loop indices as they stand between brackets, e.g. `i:4, j:-1:5`."""
    return ", ".join(map(str, iterators)) or "()"


class LoopIndex(NamedTuple):
    """An index with its half-open range `[low, high)`; both None while the range is still to be
    inferred.
    """

    index: Index
    low: Any
    high: Any

    @property
    def extent(self) -> int:
        return self.high - self.low

    def __str__(self) -> str:
        if self.high is None:
            return str(self.index)
        if self.low == 0:
            return f"{self.index}:{self.high}"
        return f"{self.index}:{self.low}:{self.high}"


class BoundTwice(NamedTuple):
    """An index that is bound a second time, which is what an error is about."""

    index: Index

    def error(self) -> NotationError:
        return NotationError(
            f"index {self.index} is bound twice\n  rename one of the two"
        ).regarding(self)


def loop_index(index: Index, low: Any = None, high: Any = None) -> LoopIndex:
    """Return a loop index with bounds as Python's integers, or without a range."""
    if low is not None:
        low = int(low)
    if high is not None:
        high = int(high)
    return LoopIndex(index, low, high)


def loop_indices(entries: Iterable[Any]) -> tuple[LoopIndex, ...]:
    """Return loop indices from such, or from tuples `(index, low, high)` or `(index,)`."""
    iterators = []
    for entry in entries:
        iterators.append(entry if isinstance(entry, LoopIndex) else loop_index(*entry))
    return tuple(iterators)
