"""Rows of cells as a person reads them, and lists that their text shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self, SupportsIndex, TypeVar, overload

Item = TypeVar("Item")


class Listing(list[Item]):
    """A list that its text shows; a part of it is one of the same kind."""

    @overload
    def __getitem__(self, position: SupportsIndex) -> Item: ...
    @overload
    def __getitem__(self, position: slice) -> Self: ...
    def __getitem__(self, position: SupportsIndex | slice) -> Item | Self:
        if isinstance(position, slice):
            return type(self)(super().__getitem__(position))
        return super().__getitem__(position)

    def __repr__(self) -> str:
        return str(self)


def aligned(rows: Iterable[Sequence[str]], put: Callable[[str, int], str] = str.ljust) -> str:
    """Rows with their cells below each other, each `put` into the width of its column; the last
    column begins on the left.

    >>> print(aligned([("way", "ms", "operators"), ("a", "10.5", "matmul")], str.rjust))
    way    ms  operators
      a  10.5  matmul
    """
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines)][:-1]
    return "\n".join("  ".join([*map(put, line, widths), line[-1]]).rstrip() for line in lines)
