"""Parts of the factors of a contraction on their way into shared memory: fetched into registers while the part before is multiplied.

Threads read neighbours that lie side by side in memory, 16 bytes at once where these are aligned and nothing guards them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from codegen.ir.nodes import Alloc, Buf, For, If, Number, Predicate, Ref, Statement, Store
from codegen.lowering.loop_plan import LoopLevel
from codegen.lowering.reductions import value
from codegen.lowering.schedule import strides
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.lowering.thread_points import CudaSource, Points, below, counted_loop, let_index
from codegen.targets.cuda.text.vectors import copied_row, walks_rows
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.traversal import accesses

WORD = 16  # bytes


@dataclass(frozen=True)
class StagedFactor:
    """One factor of a contraction, the levels of the output that it has, and the part of a tile that is staged of it.

    `block` counts the tiles of `size` elements, of which there are `blocks`.
    """

    factor: Any
    levels: tuple[LoopLevel, ...]
    size: int
    block: Index
    blocks: int


@dataclass(frozen=True)
class SummedDepth:
    """The summed levels, `size` terms of which are staged at a time, in `steps` steps of each of `parts` blocks."""

    levels: tuple[LoopLevel, ...]
    size: int
    steps: int
    parts: int


class StagedTile:
    """One factor of a contraction in shared memory, in two halves that take turns.

    `deep` says whether neighbours of the summed index are side by side there; by default they are where they are in memory.
    """

    def __init__(
        self,
        source: CudaSource,
        name: str,
        dtype: str,
        side: StagedFactor,
        depth: SummedDepth,
        batch: Sequence[LoopLevel],
        threads: int,
        deep: bool | None,
    ):
        self.source, self.side, self.depth, self.batch = source, side, depth, tuple(batch)
        self.threads, self.dtype = threads, dtype
        self.reads_deep = terms_are_adjacent(source, side.factor, depth.levels)
        self.deep = self.reads_deep if deep is None else deep
        outer, inner = (side.size, depth.size) if self.deep else (depth.size, side.size)
        halves = 2 if depth.steps > 1 else 1
        self.buf = Buf(
            name, (halves, outer, inner + max(1, WORD // element_size(dtype))), dtype, "shared"
        )
        self.near, self.far = (
            Points.of(source, "row", side.levels),
            Points.of(source, "term", depth.levels),
        )
        self.lane = source.fresh("near", 1)
        self.width, self.near_of, self.far_of = self._groups()
        self.entries = side.size * depth.size // self.width
        self.rounds = -(-self.entries // threads)
        self.thread, self.turn = source.fresh("thread", threads), source.fresh("turn", self.rounds)
        self.entry = source.fresh("entry", self.rounds * threads)
        self.row, self.term = source.fresh("m", side.size), source.fresh("k", depth.size)
        self.fetched = Buf(f"{name}_next", (self.rounds * self.width,), dtype, "local")

    def allocated(self) -> list[Statement]:
        return [Alloc(self.buf), Alloc(self.fetched)]

    def _groups(self) -> tuple[int, Any, Any]:
        """How many neighbours a thread reads at once, and what the two kinds of points are fixed to then."""
        along = self.depth if self.reads_deep else self.side
        last = along.levels[-1] if along.levels else None
        for width in _widths(self.source, along.size, last):
            points, index, first = Points.of_groups(self.source, "group", along.levels, width)
            other = self.side.levels if self.reads_deep else self.depth.levels
            block = self.source.block([*self.batch, *other, *points.levels])
            self.source.plan.ranges[self.lane] = (0, width)
            block.place = block.place.loop(self.lane, 0, width).fix(
                index, first + affine(self.lane)
            )
            target = Ref(Buf("row", (width,), self.dtype, "local"), (affine(self.lane),))
            block.put(target, "=", value(self.source, self.side.factor, block))
            if walks_rows(counted_loop(self.lane, width, block.statements, "vec")):
                fixed = (points, index, first)
                return (width, None, fixed) if self.reads_deep else (width, fixed, None)
        return 1, None, None

    # Positions in the staged part.

    def _forms(self) -> tuple[Affine, Affine]:
        """The first element's place along the side and along the summed indices, of the entry that a thread moves."""
        along = (self.depth.size if self.reads_deep else self.side.size) // self.width
        outer, inner = affine(self.entry).quotient(along), affine(self.entry).remainder(along)
        return (outer, inner) if self.reads_deep else (inner, outer)

    def _moved(self, body: Sequence[Statement]) -> Statement:
        """A nest of threads, each of which moves some entries: `row` and `term` are where an entry begins, in groups along one of them."""
        row, term = self._forms()
        sizes = (
            (self.side.size, self.depth.size // self.width)
            if self.reads_deep
            else (self.side.size // self.width, self.depth.size)
        )
        inside = (
            let_index(self.row, row, (0, sizes[0]), (let_index(self.term, term, (0, sizes[1]), body),)),
        )
        if self.rounds * self.threads > self.entries:
            inside = (If(Predicate((below(self.entry, self.entries),)), inside),)
        inside = (
            let_index(
                self.entry,
                affine(self.turn) * self.threads + affine(self.thread),
                (0, self.rounds * self.threads),
                inside,
            ),
        )
        return counted_loop(
            self.thread, self.threads, [counted_loop(self.turn, self.rounds, inside, "unroll")], "thread"
        )

    def fetch(self, step: Affine) -> Statement:
        """Read the part of a step into registers; what is outside of the factor is 0."""
        target = Ref(self.fetched, (affine(self.turn) * self.width + affine(self.lane),))
        near, far = (
            self.near_of[0] if self.near_of else self.near,
            self.far_of[0] if self.far_of else self.far,
        )
        block = self.source.block([*self.batch, *near.levels, *far.levels])
        place = (
            block.place.loop(self.lane, 0, self.width)
            if self.width > 1
            else block.place.fix(self.lane, 0)
        )
        for _, index, first in filter(None, (self.near_of, self.far_of)):
            place = place.fix(index, first + affine(self.lane))
        block.place = place
        target = Ref(self.fetched, tuple(place.form(s) for s in target.subscripts))
        block.put(target, "=", value(self.source, self.side.factor, block))
        inside = far.named(near.named(self._each(block.statements)))
        size, deep = (
            self.side.size // (self.width if self.near_of else 1),
            self.depth.size // (self.width if self.far_of else 1),
        )
        rows, terms = self.side.blocks * size, self.depth.parts * self.depth.steps * deep
        conditions = [
            below(points.index, points.count)
            for points, most in ((near, rows), (far, terms))
            if most > points.count
        ]
        if conditions:
            zero = self._each([Store(target, "=", Number(0, self.dtype))])
            inside = (If(Predicate(tuple(conditions)), inside, zero),)
        inside = (
            let_index(far.index, step * deep + affine(self.term), (0, max(terms, far.count)), inside),
        )
        return self._moved(
            (
                let_index(
                    near.index,
                    affine(self.side.block) * size + affine(self.row),
                    (0, max(rows, near.count)),
                    inside,
                ),
            )
        )

    def place(self, half: Affine) -> Statement:
        """Write what was fetched into one half of the shared memory."""
        lane = affine(self.lane) if self.width > 1 else affine(0)
        row, term = affine(self.row), affine(self.term)
        if self.reads_deep:
            term = term * self.width + lane
        else:
            row = row * self.width + lane
        target = Ref(self.buf, (half, *((row, term) if self.deep else (term, row))))
        return self._moved(
            self._each(
                [Store(target, "=", Ref(self.fetched, (affine(self.turn) * self.width + lane,)))]
            )
        )

    def _each(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """Statements for each element of an entry."""
        if self.width == 1:
            return tuple(statements)
        loop = counted_loop(self.lane, self.width, statements, "vec")
        return (
            loop
            if copied_row(loop) or walks_rows(loop)
            else For(loop.index, loop.low, loop.high, loop.range, loop.body, "unroll"),
        )


def terms_are_adjacent(source: CudaSource, factor: Any, depth: Sequence[LoopLevel]) -> bool:
    """Whether neighbours of the summed index lie side by side in memory."""
    last = depth[-1].index if depth else None
    return last is not None and any(
        strides(access, source.plan.fixed)(last) == 1 for access in accesses(factor)
    )


def _widths(source: CudaSource, size: int, last: LoopLevel | None) -> Iterator[int]:
    for width in (8, 4, 2):
        if (
            last is not None
            and width <= source.numbers.bytes
            and last.extent % width == 0
            and size % width == 0
        ):
            yield width
