"""Loop indices with their half-open ranges (design §2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from einalg.errors import NotationError, RangeError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.size import (
    Extent,
    as_extent,
    at_sizes,
    extent_of,
    is_always_negative,
    sizes_in,
)


def iterators_text(iterators: tuple[LoopIndex, ...]) -> str:
    """Return loop indices as they stand between brackets, e.g. `i:4, j:-1:5`."""
    return ", ".join(map(str, iterators)) or "()"


class LoopIndex(NamedTuple):
    """An index with its half-open range `[low, high)`; both None while the range is still to be
    inferred. A bound is an integer or a form of sizes.
    """

    index: Index
    low: Any
    high: Any

    @property
    def extent(self) -> Extent:
        return extent_of(self.low, self.high)

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
    """Return a loop index with bounds as Python's integers or forms of sizes, or without a
    range.
    """
    return LoopIndex(index, _bound(low), _bound(high))


def _bound(value: Any) -> Extent | None:
    if value is None:
        return None
    extent = as_extent(value)
    return int(value) if extent is None else extent


def sizes_of(iterators: Iterable[LoopIndex]) -> set[Any]:
    """Return the sizes in the ranges of loop indices."""
    return sizes_in(bound for it in iterators for bound in (it.low, it.high))


def loop_indices(entries: Iterable[Any]) -> tuple[LoopIndex, ...]:
    """Return loop indices from such, or from tuples `(index, low, high)` or `(index,)`."""
    iterators = []
    for entry in entries:
        iterators.append(entry if isinstance(entry, LoopIndex) else loop_index(*entry))
    return tuple(iterators)


def iterators_at_sizes(
    iterators: Iterable[LoopIndex], values: Mapping[Any, Affine]
) -> tuple[LoopIndex, ...]:
    """Return loop indices with numbers in the places of sizes; `RangeError` where a range would end
    before its start.
    """
    concrete = []
    for it in iterators:
        new = LoopIndex(it.index, at_sizes(it.low, values), at_sizes(it.high, values))
        if is_always_negative(new.extent):
            sizes = ", ".join(f"{size}={number}" for size, number in values.items())
            raise RangeError(
                f"index {it.index} has the range {it}, whose end is before its start at {sizes}\n"
                "  choose larger sizes"
            )
        concrete.append(new)
    return tuple(concrete)
