"""The factors of a contraction on their way into shared memory.

A part is fetched into registers while the part before it is multiplied. Threads read neighbours
that lie side by side in memory, 16 bytes at once where these are aligned and share a guard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from codegen.ir.nodes import Alloc, Apply, Buf, If, Number, Predicate, Ref, Statement, Store
from codegen.lowering.guards import Place
from codegen.lowering.loop_plan import LoopLevel
from codegen.lowering.reductions import value
from codegen.lowering.schedule import strides
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import VECTOR_BYTES
from codegen.targets.cuda.lowering.products.contraction import BlockedProduct
from codegen.targets.cuda.lowering.threads.points import (
    CudaSource,
    Points,
    below,
    counted_loop,
    let_index,
)
from codegen.targets.cuda.text.vectors import copied_row, walks_rows
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.traversal import accesses

VECTOR_WIDTHS = (8, 4, 2)  # elements that a thread fetches at once


@dataclass(frozen=True)
class SummedDepth:
    """The summed levels: each of `parts` blocks stages `size` terms in each of `steps` steps."""

    levels: tuple[LoopLevel, ...]
    size: int
    steps: int
    parts: int


@dataclass(frozen=True)
class StagedFactor:
    """One factor of a contraction: the levels of the output that it has are its rows.

    `size` rows are staged at a time; `block` counts these tiles, of which there are `blocks`.
    """

    factor: Any
    levels: tuple[LoopLevel, ...]
    size: int
    block: Index
    blocks: int


@dataclass(frozen=True)
class Staging:
    """The common properties of both factors on their way into shared memory.

    `terms_adjacent` says whether terms of the sum lie side by side there, as in `left[row, term]`;
    where it is None, they do if they do in memory.
    """

    source: CudaSource
    dtype: str
    depth: SummedDepth
    batch: tuple[LoopLevel, ...]
    threads: int
    terms_adjacent: bool | None

    def left(
        self, name: str, product: BlockedProduct, size: int, block: Index, blocks: int
    ) -> StagedTile:
        return self.stage(name, StagedFactor(product.left, product.rows, size, block, blocks))

    def right(
        self, name: str, product: BlockedProduct, size: int, block: Index, blocks: int
    ) -> StagedTile:
        return self.stage(name, StagedFactor(product.right, product.columns, size, block, blocks))

    def stage(self, name: str, side: StagedFactor) -> StagedTile:
        """Choose how threads fetch the parts of a factor, and where these lie in shared memory."""
        source, depth = self.source, self.depth
        rows = _ReadAxis(Points.of(source, "row", side.levels))
        terms = _ReadAxis(Points.of(source, "term", depth.levels))
        lane = source.fresh("near", 1)
        reads_terms = terms_are_adjacent(source, side.factor, depth.levels)
        if reads_terms:
            terms = _grouped(self, side, lane, depth, side.levels) or terms
        else:
            rows = _grouped(self, side, lane, side, depth.levels) or rows
        width = rows.width * terms.width
        entries = side.size * depth.size // width
        rounds = -(-entries // self.threads)
        loops = _StagingLoops(
            lane=lane,
            thread=source.fresh("thread", self.threads),
            turn=source.fresh("turn", rounds),
            entry=source.fresh("entry", rounds * self.threads),
            row=source.fresh("m", side.size),
            term=source.fresh("k", depth.size),
        )
        adjacent = reads_terms
        if self.terms_adjacent is not None:
            adjacent = self.terms_adjacent
        fetched = Buf(f"{name}_next", (rounds * width,), self.dtype, "local")
        buf = _shared_buffer(name, self, side, adjacent)
        return StagedTile(self, side, rows, terms, reads_terms, adjacent, loops, buf, fetched)


def _shared_buffer(name: str, staging: Staging, side: StagedFactor, terms_adjacent: bool) -> Buf:
    """Return the shared memory of a factor."""
    depth, dtype = staging.depth, staging.dtype
    shape = staged_shape(side.size, depth.size, depth.steps, dtype, terms_adjacent)
    return Buf(name, shape, dtype, "shared")


def staged_shape(
    rows: int, terms: int, steps: int, dtype: str, terms_adjacent: bool
) -> tuple[int, int, int]:
    """Return the shape of the shared memory of a factor, of so many rows and terms at a time.

    Two halves take turns where there are several steps, and its rows are longer than what they
    hold, so that columns lie in different banks.

    >>> staged_shape(64, 16, 9, "f32", terms_adjacent=False)
    (2, 16, 68)
    """
    outer, inner = terms, rows
    if terms_adjacent:
        outer, inner = inner, outer
    spare = max(1, VECTOR_BYTES // element_size(dtype))
    return min(steps, 2), outer, inner + spare


@dataclass(frozen=True)
class _ReadAxis:
    """The rows or the terms that threads read: their points, or groups of `width` neighbours.

    Groups of 4 columns `j`: the points of `j_group`; `index` is `j`, and `first` is `4*j_group`.
    """

    points: Points
    width: int = 1
    index: Index | None = None
    first: Affine | None = None

    def place(self, place: Place, lane: Index) -> Place:
        """Return a place at element `lane` of a group."""
        if self.index is None or self.first is None:
            return place
        return place.fix(self.index, self.first + affine(lane))


def _grouped(
    staging: Staging,
    side: StagedFactor,
    lane: Index,
    along: StagedFactor | SummedDepth,
    other: Sequence[LoopLevel],
) -> _ReadAxis | None:
    """Return the axis in groups that a thread reads at once; None where it reads one by one."""
    source = staging.source
    for width in _widths(source, along):
        points, index, first = Points.of_groups(source, "group", along.levels, width)
        axis = _ReadAxis(points, width, index, first)
        block = source.block([*staging.batch, *other, *points.levels])
        source.plan.ranges[lane] = (0, width)
        block.place = axis.place(block.place.loop(lane, 0, width), lane)
        target = Ref(Buf("row", (width,), staging.dtype, "local"), (affine(lane),))
        block.put(target, "=", value(source, side.factor, block, staging.dtype))
        statements: Sequence[Statement] = block.statements
        guard = _guard(lane, statements)
        if guard is not None:
            statements = guard.then
        if walks_rows(counted_loop(lane, width, statements, "vec")):
            return axis
    return None


def _guard(lane: Index, statements: Sequence[Statement]) -> If | None:
    """Return a guarded store as a branch, where the guard is the same for all of a row.

    `row[lane] = h >= 1 ? A[h - 1][4*group + lane] : 0` is `if (h >= 1) row[lane] = …`.
    """
    if len(statements) != 1:
        return None
    store = statements[0]
    if not isinstance(store, Store) or store.op != "=":
        return None
    choice = store.value
    if not isinstance(choice, Apply) or choice.op != "select":
        return None
    test, then, orelse = choice.arguments
    if not isinstance(test, Predicate):
        return None
    if any(lane in condition.indices for condition in test.conditions):
        return None
    return If(test, (replace(store, value=then),), (replace(store, value=orelse),))


def _widths(source: CudaSource, along: StagedFactor | SummedDepth) -> Iterator[int]:
    """Yield the numbers of neighbours that divide an axis and the part of it that is staged."""
    if not along.levels:
        return
    extent = along.levels[-1].extent
    for width in VECTOR_WIDTHS:
        if width <= source.numbers.vector_bytes and extent % width == 0 and along.size % width == 0:
            yield width


@dataclass(frozen=True)
class _StagingLoops:
    """The loops in which threads move the entries of a part.

    Each thread moves an `entry`, of `lane` elements, at each `turn`; it begins at `row` and `term`,
    which are counted in groups along the axis that is read in groups.
    """

    lane: Index
    thread: Index
    turn: Index
    entry: Index
    row: Index
    term: Index


@dataclass(frozen=True)
class StagedTile:
    """One factor of a contraction in shared memory, and what a thread fetches of its next part."""

    staging: Staging
    side: StagedFactor
    rows: _ReadAxis
    terms: _ReadAxis
    reads_terms: bool  # whether terms are side by side in memory
    terms_adjacent: bool  # whether they are in shared memory
    loops: _StagingLoops
    buf: Buf
    fetched: Buf

    @property
    def width(self) -> int:
        """Return the number of elements of an entry."""
        return self.rows.width * self.terms.width

    @property
    def row_groups(self) -> int:
        """Return the number of entries along the rows of a part."""
        return self.side.size // self.rows.width

    @property
    def term_groups(self) -> int:
        """Return the number of entries along the terms of a part."""
        return self.staging.depth.size // self.terms.width

    def allocated(self) -> list[Statement]:
        return [Alloc(self.buf), Alloc(self.fetched)]

    def fetch(self, step: Affine) -> Statement:
        """Return what reads the part of a step into registers; outside of the factor it is 0."""
        side, depth, loops = self.side, self.staging.depth, self.loops
        rows, terms = self.rows.points, self.terms.points
        inside = terms.bind_indices(rows.bind_indices(self._each(self._read())))
        row_end = side.blocks * self.row_groups
        term_end = depth.parts * depth.steps * self.term_groups
        conditions = []
        if row_end > rows.count:
            conditions.append(below(rows.index, rows.count))
        if term_end > terms.count:
            conditions.append(below(terms.index, terms.count))
        if conditions:
            zero = Store(self._fetched_element(), "=", Number(0, self.staging.dtype))
            inside = (If(Predicate(tuple(conditions)), inside, self._each([zero])),)
        term = step * self.term_groups + affine(loops.term)
        row = affine(side.block) * self.row_groups + affine(loops.row)
        inside = (let_index(terms.index, term, (0, max(term_end, terms.count)), inside),)
        return self._moved((let_index(rows.index, row, (0, max(row_end, rows.count)), inside),))

    def place(self, half: Affine) -> Statement:
        """Return what writes the fetched part into one half of the shared memory."""
        row, term, lane = affine(self.loops.row), affine(self.loops.term), self._lane()
        if self.reads_terms:
            term = term * self.width + lane
        else:
            row = row * self.width + lane
        position = (half, term, row)
        if self.terms_adjacent:
            position = (half, row, term)
        store = Store(Ref(self.buf, position), "=", self._fetched_element())
        return self._moved(self._each([store]))

    def _lane(self) -> Affine:
        if self.width == 1:
            return affine(0)
        return affine(self.loops.lane)

    def _fetched_element(self) -> Ref:
        """Return the register of an element of an entry."""
        return Ref(self.fetched, (affine(self.loops.turn) * self.width + self._lane(),))

    def _read(self) -> list[Statement]:
        """Return what reads one element of the factor."""
        staging, lane = self.staging, self.loops.lane
        levels = (*self.rows.points.levels, *self.terms.points.levels)
        block = staging.source.block([*staging.batch, *levels])
        if self.width > 1:
            place = block.place.loop(lane, 0, self.width)
        else:
            place = block.place.fix(lane, 0)
        block.place = self.terms.place(self.rows.place(place, lane), lane)
        term = value(staging.source, self.side.factor, block, staging.dtype)
        block.put(self._fetched_element(), "=", term)
        return block.statements

    def _moved(self, body: Sequence[Statement]) -> Statement:
        """Return a nest of threads, each of which moves some entries."""
        loops, threads, rounds = self.loops, self.staging.threads, self._rounds()
        row, term = self._entry_position()
        inside = (let_index(loops.term, term, (0, self.term_groups), body),)
        inside = (let_index(loops.row, row, (0, self.row_groups), inside),)
        entries = self.row_groups * self.term_groups
        if rounds * threads > entries:
            inside = (If(Predicate((below(loops.entry, entries),)), inside),)
        entry = affine(loops.turn) * threads + affine(loops.thread)
        inside = (let_index(loops.entry, entry, (0, rounds * threads), inside),)
        turns = counted_loop(loops.turn, rounds, inside, "unroll")
        return counted_loop(loops.thread, threads, [turns], "thread")

    def _rounds(self) -> int:
        """Return the number of entries that each thread moves."""
        return self.fetched.shape[0] // self.width

    def _entry_position(self) -> tuple[Affine, Affine]:
        """Return the row and the term of an entry, so that neighbouring threads read neighbours."""
        entry = affine(self.loops.entry)
        if self.reads_terms:
            return entry.quotient(self.term_groups), entry.remainder(self.term_groups)
        return entry.remainder(self.row_groups), entry.quotient(self.row_groups)

    def _each(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return statements for each element of an entry."""
        lane, width = self.loops.lane, self.width
        if width == 1:
            return tuple(statements)
        guard = _guard(lane, statements)
        if guard is not None:
            return (replace(guard, then=self._each(guard.then), orelse=self._each(guard.orelse)),)
        loop = counted_loop(lane, width, statements, "vec")
        if copied_row(loop) or walks_rows(loop):
            return (loop,)
        return (counted_loop(lane, width, statements, "unroll"),)


def terms_are_adjacent(source: CudaSource, factor: Any, depth: Sequence[LoopLevel]) -> bool:
    """Return whether neighbours of the last summed index lie side by side in memory."""
    if not depth:
        return False
    index = depth[-1].index
    return any(strides(access, source.plan.fixed)(index) == 1 for access in accesses(factor))
