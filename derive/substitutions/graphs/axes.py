"""The axes of a rule, and what its operators demand of their sizes.

Axes that must be equal are one class. What is left are relations between classes: sums (an axis
that is joined of others), windows, and the channels of grouped convolutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from einalg.language.index.size import Extent

Axis = int


class Joined(NamedTuple):
    """An axis that is others, one after another."""

    whole: Axis
    parts: tuple[Axis, ...]


class WindowPositions(NamedTuple):
    """The positions of a window along an axis."""

    positions: Axis
    axis: Axis
    taps: Axis
    stride: int
    padding: str  # "same" or "valid"

    def number(self, length: Extent, taps: Extent) -> Extent:
        """Return how many there are along an axis of a length.

        >>> WindowPositions(0, 1, 2, 2, "valid").number(7, 3)
        3
        """
        reach = length - 1 if self.padding == "same" else length - taps
        return reach // self.stride + 1


class ConvolutionChannels(NamedTuple):
    """The channels of a convolution: those of its data, those that a group reads, and the features,
    which are those of the result.
    """

    data: Axis
    depth: Axis
    features: Axis


class Axes:
    """Classes of equal axes, by union-find, and the relations between them."""

    def __init__(self) -> None:
        self._parents: list[Axis] = []
        self._history: dict[Axis, tuple[Axis, ...]] = {}
        self.numbers: list[tuple[Axis, int]] = []
        self.taps: list[Axis] = []
        self.sums: list[Joined] = []
        self.windows: list[WindowPositions] = []
        self.channels: list[ConvolutionChannels] = []
        self.diagonals: list[tuple[Axis, Axis]] = []  # rows and columns of identities
        self.merged_counts: list[int] = []  # of groups that are merged with one another
        self.others: list[Axis] = []  # axes that operators read one by one

    def new(self) -> Axis:
        """Return an axis of any size."""
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def several(self, count: int) -> list[Axis]:
        return [self.new() for _ in range(count)]

    def number(self, size: int) -> Axis:
        """Return an axis of a size."""
        axis = self.new()
        self.numbers.append((axis, size))
        return axis

    def root(self, axis: Axis) -> Axis:
        """Return the representative of a class."""
        while self._parents[axis] != axis:
            self._parents[axis] = self._parents[self._parents[axis]]
            axis = self._parents[axis]
        return axis

    def equate(self, one: Axis, two: Axis) -> None:
        """Require two axes to be of one size."""
        first, second = sorted((self.root(one), self.root(two)))
        self._parents[second] = first

    def equate_all(self, one: Sequence[Axis], two: Sequence[Axis]) -> None:
        for a, b in zip(one, two, strict=True):
            self.equate(a, b)

    def join(self, parts: Sequence[Axis]) -> Axis:
        """Return the axis that is some others, one after another."""
        whole = self.new()
        self.sums.append(Joined(whole, tuple(parts)))
        self._history[whole] = tuple(parts)
        return whole

    def history(self, axis: Axis) -> tuple[Axis, ...]:
        """Return the parts that an axis was joined of; none where it was not joined."""
        return self._history.get(axis, ())

    def parts(self, axis: Axis, count: int) -> tuple[Axis, ...]:
        """Return the parts into which an axis splits: those that were joined last, or any."""
        parts = self._history.get(axis, ())
        if len(parts) != count:
            parts = tuple(self.several(count))
            self.sums.append(Joined(axis, parts))
        return parts

    def window(self, axis: Axis, taps: Axis, stride: int, padding: str) -> Axis:
        """Return the axis of the positions of a window."""
        if stride == 1 and padding == "same":
            return axis
        positions = self.new()
        self.windows.append(WindowPositions(positions, axis, taps, stride, padding))
        return positions

    def close(self) -> None:
        """Equate the sums of equal axes, and the positions of equal windows along equal axes."""
        classes: list[Axis] = []
        while classes != self._classes():
            classes = self._classes()
            known: dict[Any, Axis] = {}
            for key, axis in self._definitions():
                self.equate(known.setdefault(key, axis), axis)

    def _classes(self) -> list[Axis]:
        return [self.root(axis) for axis in range(len(self._parents))]

    def _definitions(self) -> Iterator[tuple[Any, Axis]]:
        """Yield axes whose sizes follow from those of others, and what they follow from."""
        for whole, parts in self.sums:
            yield tuple(sorted(map(self.root, parts))), whole
        for window in self.windows:
            yield (self.root(window.axis), self.root(window.taps), *window[3:]), window.positions
