"""Strided axes, windows and operands: how a kernel walks its tensors (design §10)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any

from codegen.ir.nodes import Buf
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.tensor import Access

# An operand by its name, one of an epilogue by its number, or one of a prologue by both.
Side = str | int | tuple[str, int]


@dataclass(frozen=True)
class StridedAxis:
    """An index with its extent, and the distance of its next value in each operand.

    Distances are in elements; 0 where an operand does not move. `epilogue_steps` are those in the
    operands of an epilogue, `left_reads` and `right_reads` in what a prologue reads besides; none
    are of an axis along which nothing moves.
    """

    index: Index
    extent: int
    left: int = 0
    right: int = 0
    target: int = 0
    epilogue_steps: tuple[int, ...] = ()
    left_reads: tuple[int, ...] = ()
    right_reads: tuple[int, ...] = ()

    def step(self, side: Side) -> int:
        if isinstance(side, int):
            return self.epilogue_steps[side]
        if isinstance(side, tuple):
            name, number = side
            steps: tuple[int, ...] = getattr(self, f"{name}_reads")
            return steps[number] if steps else 0
        return getattr(self, side)

    def swapped(self) -> StridedAxis:
        """Return the axis with its left and right operands exchanged."""
        return replace(
            self,
            left=self.right,
            right=self.left,
            left_reads=self.right_reads,
            right_reads=self.left_reads,
        )


@dataclass(frozen=True)
class Border:
    """An axis of a tensor, with as many zeros as are read before and after it, and an unread gap.

    Without the gap, lines that are a page apart would displace one another from the cache.
    """

    extent: int
    stride: int
    before: int = 0
    after: int = 0
    gap: int = 0

    @property
    def whole(self) -> int:
        return self.before + self.extent + self.after + self.gap


@dataclass(frozen=True)
class BorderWindow:
    """Where a convolution reads its border.

    A tap of a position reads zeros unless
    `0 <= stride*position + dilation*tap - before < inside`. `positions` and `taps` are how many
    there are. Only where the border is `written` may zeros be read.
    """

    position: Index
    tap: Index
    positions: int
    taps: int
    stride: int
    dilation: int
    before: int
    inside: int
    written: bool = True

    def nonzero_taps(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return the first tap that reads data at some positions, and the end of such taps.

        These are the positions from `low` to `high`. Both results may lie beyond the taps that
        there are. Takes integers, or index expressions.

        >>> window = BorderWindow(Index("h"), Index("r"), 7, 5, 1, 2, 4, 7)
        >>> window.nonzero_taps(0, 0), window.nonzero_taps(5, 6)
        ((2, 6), (-1, 3))
        """
        first = -((high * self.stride - self.before) // self.dilation)
        last = (self.before + self.inside - 1 - low * self.stride) // self.dilation
        return first, last + 1

    def data_positions(self, tap: int) -> range:
        """Return the positions at which a tap reads data.

        >>> window = BorderWindow(Index("h"), Index("r"), 7, 3, 1, 1, 1, 7)
        >>> window.data_positions(0), window.data_positions(1), window.data_positions(2)
        (range(1, 7), range(0, 7), range(0, 6))
        """
        ends: list[int] = []
        for place in (self.before, self.before + self.inside):
            first = -((self.dilation * tap - place) // self.stride)
            ends.append(max(0, min(first, self.positions)))
        return range(*ends)

    @cached_property
    def tap_runs(self) -> tuple[tuple[range, range], ...]:
        """The taps that read data, neighbours of equal positions together, and these positions."""
        runs: list[tuple[range, range]] = []
        for tap in range(self.taps):
            positions = self.data_positions(tap)
            if not positions:
                continue
            if runs and runs[-1] == (range(runs[-1][0].start, tap), positions):
                runs[-1] = range(runs[-1][0].start, tap + 1), positions
            else:
                runs.append((range(tap, tap + 1), positions))
        return tuple(runs)


@lru_cache(maxsize=4096)
def used_tap_fraction(window: BorderWindow, tile_positions: int) -> float:
    """Return the part of the taps that tiles of so many neighbouring positions compute.

    >>> window = BorderWindow(Index("h"), Index("r"), 7, 3, 1, 1, 1, 7)
    >>> used_tap_fraction(window, 1), used_tap_fraction(window, 7)
    (0.9047619047619048, 1.0)
    """
    used = tiles = 0
    for low in range(0, window.positions, tile_positions):
        high = min(low + tile_positions, window.positions) - 1
        first, stop = window.nonzero_taps(low, high)
        used += max(0, min(stop, window.taps) - max(first, 0))
        tiles += 1
    return used / (tiles * window.taps)


@dataclass(frozen=True)
class Prologue:
    """The computation of an operand's elements from what is read, as it is packed.

    `body` is an expression of `first`, the element of the operand's own tensor, and of `others`.
    """

    body: Any
    first: Access
    others: Mapping[Access, StridedOperand] = field(hash=False)


@dataclass(frozen=True)
class StridedOperand:
    """A tensor as it lies in memory, and the element where reading begins.

    With `borders`, a copy of one batch is read, in the order of these axes, zeros included;
    `offset` and the strides of batch axes are still those of the tensor. `ahead` says that its
    values are compile-time constants, so that it may be packed before the run. With a `prologue`,
    its elements are what that computes.
    """

    buf: Buf
    offset: int
    borders: tuple[Border, ...] = ()
    ahead: bool = False
    prologue: Prologue | None = None

    @property
    def others(self) -> tuple[StridedOperand, ...]:
        """Return what a prologue reads besides."""
        if self.prologue is None:
            return ()
        return tuple(self.prologue.others.values())

    def sides(self, name: str) -> tuple[Side, ...]:
        """Return the sides of an operand of this name: its own, and those of a prologue."""
        return (name, *((name, number) for number in range(len(self.others))))

    @property
    def flat(self) -> Buf:
        """Return the buffer with one axis."""
        return replace(self.buf, shape=(prod(self.buf.shape),))


@dataclass(frozen=True)
class Epilogue:
    """The epilogue: the computation on each result before it is stored.

    `body` is an expression in which `product` stands for the result; `reads` are its other
    elements.
    """

    body: Any
    product: str
    reads: Mapping[Access, StridedOperand] = field(hash=False)

    @property
    def operands(self) -> tuple[StridedOperand, ...]:
        return tuple(self.reads.values())


class EpilogueStore:
    """A problem that stores results, or what an epilogue computes from them."""

    epilogue: Epilogue | None

    @property
    def epilogue_operands(self) -> tuple[StridedOperand, ...]:
        if self.epilogue is None:
            return ()
        return self.epilogue.operands

    @property
    def stored_sides(self) -> tuple[Side, ...]:
        """Return the sides that are walked where results are stored."""
        return ("target", *range(len(self.epilogue_operands)))


def extent(axes: Iterable[StridedAxis]) -> int:
    """Return the number of places of some axes."""
    return prod(a.extent for a in axes)


def offset(axes: Iterable[StridedAxis], operand: Side) -> Affine:
    """Return the element of an operand to which the indices of some axes lead."""
    total = affine(0)
    for axis in axes:
        total = total + affine(axis.index) * axis.step(operand)
    return total


def merged(
    axes: Sequence[StridedAxis], *operands: Side, but: Collection[Index] = ()
) -> tuple[StridedAxis, ...]:
    """Merge neighbouring axes that lie like one axis in the given operands.

    Those in `but` stay as they are. The strides of other operands are then of no use.
    """
    results: list[StridedAxis] = []
    for axis in axes:
        if results and _is_one(results[-1], axis, operands, but):
            results[-1] = replace(axis, extent=results[-1].extent * axis.extent)
        else:
            results.append(axis)
    return tuple(results)


def _is_one(
    outer: StridedAxis, inner: StridedAxis, operands: Sequence[Side], but: Collection[Index]
) -> bool:
    """Whether two neighbouring axes may be merged."""
    if outer.index in but or inner.index in but:
        return False
    return all(outer.step(o) == inner.step(o) * inner.extent for o in operands)


def even_tiles(size: int, largest: int) -> list[tuple[int, int]]:
    """Return tiles of `largest` elements or fewer, as (size, count), that differ by at most one.

    >>> even_tiles(49, 12), even_tiles(7, 7)
    ([(10, 4), (9, 1)], [(7, 1)])
    """
    tiles = -(-size // largest)
    small, larger_tiles = divmod(size, tiles)
    counts = ((small + 1, larger_tiles), (small, tiles - larger_tiles))
    return [(tile, count) for tile, count in counts if count]
