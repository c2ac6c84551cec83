"""Strided axes, windows and operands: how a kernel walks its tensors (design §10)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

from codegen.ir.nodes import Buf
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.tensor import Access

Side = str | int  # an operand by its name, or what an epilogue reads by its number


@dataclass(frozen=True)
class StridedAxis:
    """An index with its extent, and how far its next value is in each operand (elements; 0 where it does not move).

    `beside` are its steps in what an epilogue reads.
    """

    index: Index
    extent: int
    left: int = 0
    right: int = 0
    target: int = 0
    beside: tuple[int, ...] = ()

    def step(self, side: Side) -> int:
        return self.beside[side] if isinstance(side, int) else getattr(self, side)

    def swapped(self) -> StridedAxis:
        return replace(self, left=self.right, right=self.left)


@dataclass(frozen=True)
class Border:
    """An axis of a tensor, with as many zeros as are read before and after it, and a gap that is not read.

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
    """Where a convolution reads its border: a tap of a position reads zeros unless `0 <= step*position + apart*tap - before < inside`.

    `positions` and `taps` are how many there are. Only where the border is `written` may zeros be read.
    """

    position: Index
    tap: Index
    positions: int
    taps: int
    step: int
    apart: int
    before: int
    inside: int
    written: bool = True

    def between(self, low: Any, high: Any) -> tuple[Any, Any]:
        """The first tap that reads something else at positions from `low` to `high`, and where such taps end; also beyond the taps there are.

        Of integers, or of index expressions.

        >>> window = BorderWindow(Index("h"), Index("r"), 7, 5, 1, 2, 4, 7)
        >>> window.between(0, 0), window.between(5, 6)
        ((2, 6), (-1, 3))
        """
        return -((high * self.step - self.before) // self.apart), (
            self.before + self.inside - 1 - low * self.step
        ) // self.apart + 1


@lru_cache(maxsize=4096)
def used_tap_fraction(window: BorderWindow, together: int) -> float:
    """The part of the taps that tiles of so many neighbouring positions do not leave out.

    >>> window = BorderWindow(Index("h"), Index("r"), 7, 3, 1, 1, 1, 7)
    >>> used_tap_fraction(window, 1), used_tap_fraction(window, 7)
    (0.9047619047619048, 1.0)
    """
    lows = range(0, window.positions, together)
    ends = (window.between(low, min(low + together, window.positions) - 1) for low in lows)
    return sum(max(0, min(stop, window.taps) - max(first, 0)) for first, stop in ends) / (
        len(lows) * window.taps
    )


@dataclass(frozen=True)
class StridedOperand:
    """A tensor as it lies in memory, and the element where reading begins.

    With `borders`, what is read is a copy of one batch in the order of these axes, zeros included; `offset` and the strides of
    batch axes are still those of the tensor. One that is known `ahead` may be packed before the run.
    """

    buf: Buf
    offset: int
    borders: tuple[Border, ...] = ()
    ahead: bool = False

    @property
    def flat(self) -> Buf:
        return replace(self.buf, shape=(prod(self.buf.shape),))


@dataclass(frozen=True)
class Epilogue:
    """What is made of each result before it is stored: `body`, in which `product` stands for the result; `reads` are its other elements."""

    body: Any
    product: str
    reads: Mapping[Access, StridedOperand]

    @property
    def beside(self) -> tuple[StridedOperand, ...]:
        return tuple(self.reads.values())


class EpilogueStore:
    """What stores results, or what an epilogue makes of them."""

    epilogue: Epilogue | None

    @property
    def beside(self) -> tuple[StridedOperand, ...]:
        """What an epilogue reads."""
        return self.epilogue.beside if self.epilogue else ()

    @property
    def stored(self) -> tuple[Side, ...]:
        """The sides that are walked where results are stored."""
        return ("target", *range(len(self.beside)))


def extent(axes: Iterable[StridedAxis]) -> int:
    return prod(a.extent for a in axes)


def offset(axes: Iterable[StridedAxis], operand: Side) -> Affine:
    """Where the indices of some axes lead in an operand."""
    return sum((affine(a.index) * a.step(operand) for a in axes), affine(0))


def merged(
    axes: Sequence[StridedAxis], *operands: Side, but: Collection[Index] = ()
) -> tuple[StridedAxis, ...]:
    """Axes of which neighbours that lie like one axis in the given operands are one, `but` these; the others' strides are then of no use."""
    found: list[StridedAxis] = []
    for axis in axes:
        outer = found[-1] if found else None
        if (
            outer
            and outer.index not in but
            and axis.index not in but
            and all(outer.step(o) == axis.step(o) * axis.extent for o in operands)
        ):
            found[-1] = replace(axis, extent=outer.extent * axis.extent)
        else:
            found.append(axis)
    return tuple(found)
