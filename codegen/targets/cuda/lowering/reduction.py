"""Reductions that the threads of a warp or of a block share, and what is computed from them.

Each thread sums some terms; the threads of a warp hand each other their sums, and the warps hand
each other theirs through shared memory. What a whole row of outputs needs (as the largest element
and the sum of a softmax) is summed once, for all outputs of the row.

The decisions are frozen values, each made by one function from those before it: `row_reductions`
says what is shared, and by how many threads and blocks; `_loop_indices` and `_accumulators` name
their loops and variables, and `_RowKernel` writes the statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codegen.ir.nodes import Alloc, Buf, Function, If, Predicate, Ref, Statement, Store, WarpReduce
from codegen.lowering.block import LOCAL_NAMES, Block
from codegen.lowering.loop_plan import LoopLevel, points
from codegen.lowering.reductions import ASSIGN, addend
from codegen.lowering.schedule import outer_first
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.lowering.row_reductions import Division, RowReductions
from codegen.targets.cuda.lowering.threads.points import (
    CudaSource,
    Points,
    counted_loop,
)
from codegen.targets.cuda.text.vectors import walks_rows
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce

VECTOR_WIDTHS = (16, 8, 4, 2)  # elements that a thread reads or writes at once


# The names of its loops and variables.


@dataclass(frozen=True)
class _LoopIndices:
    """The loops of a kernel, and the counters of the rows and of the outputs of a row."""

    over: Points
    along: Points
    block: Index
    group: Index
    warp: Index
    lane: Index
    part: Index
    piece: Index


def _loop_indices(source: CudaSource, rows: RowReductions, division: Division) -> _LoopIndices:
    return _LoopIndices(
        over=Points.of(source, "point", rows.over),
        along=Points.of(source, "other", rows.along),
        block=source.fresh("block", division.blocks),
        group=source.fresh("group", division.groups),
        warp=source.fresh("warp", division.warps),
        lane=source.fresh("lane", division.warp_lanes),
        part=source.fresh("part", division.parts),
        piece=source.fresh("piece", division.pieces),
    )


@dataclass(frozen=True)
class _Accumulators:
    """For each reduction a variable of a thread, `total`, and one value for each warp, `totals`.

    `names` are those that a kernel must not use for anything else.
    """

    totals: dict[Reduce, Buf]
    of_warps: dict[Reduce, Buf]
    names: frozenset[str]


def _accumulators(source: CudaSource, rows: RowReductions, division: Division) -> _Accumulators:
    names = set(source.block(source.plan.output).names)
    totals, of_warps = dict[Reduce, Buf](), dict[Reduce, Buf]()
    for reduce in rows.reduces:
        stem = LOCAL_NAMES[reduce.op]
        suffix = _free_suffix(stem, names)
        total, of_warp = f"{stem}{suffix}", f"{stem}s{suffix}"
        names |= {total, of_warp}
        dtype = source.accumulated(reduce)
        totals[reduce] = Buf(total, (), dtype, "reg")
        of_warps[reduce] = Buf(of_warp, (division.groups, division.warps), dtype, "shared")
    return _Accumulators(totals, of_warps, frozenset(names))


def _free_suffix(stem: str, names: Iterable[str]) -> str:
    """Return what makes `total` and `totals` free names: nothing, else the first number.

    >>> _free_suffix("total", {"A"}), _free_suffix("total", {"total", "totals1"})
    ('', '2')
    """
    suffix, count = "", 0
    while f"{stem}{suffix}" in names or f"{stem}s{suffix}" in names:
        count += 1
        suffix = str(count)
    return suffix


# The statements.


def reduction_kernel(source: CudaSource, rows: RowReductions, division: Division) -> Function:
    """Return the kernel in which groups of threads compute what a row needs, and then the row."""
    return source.function(_row_kernel(source, rows, division, None).body())


def partial_kernel(
    source: CudaSource, rows: RowReductions, division: Division, output: Buf
) -> Function:
    """Return the kernel that sums a reduction in parts: the first axis of its output."""
    return source.function(_row_kernel(source, rows, division, output).body(), output)


def _row_kernel(
    source: CudaSource, rows: RowReductions, division: Division, partial: Buf | None
) -> _RowKernel:
    loops = _loop_indices(source, rows, division)
    return _RowKernel(source, rows, partial, division, loops, _accumulators(source, rows, division))


@dataclass(frozen=True)
class _RowKernel:
    """The statements of a kernel; with an output `partial`, of one part of the terms."""

    source: CudaSource
    rows: RowReductions
    partial: Buf | None
    division: Division
    loops: _LoopIndices
    sums: _Accumulators

    def body(self) -> tuple[Statement, ...]:
        inside: list[Statement] = []
        for position, reduce in enumerate(self.rows.reduces):
            inside += self.reduced(reduce, self.rows.reduces[:position])
        inside.append(self.over_threads(self.written_rows()))
        division, loops = self.division, self.loops
        body = (counted_loop(loops.block, division.blocks, inside, "block"),)
        if division.parts > 1:
            return (counted_loop(loops.part, division.parts, body, "block"),)
        if division.pieces > 1:
            return (counted_loop(loops.piece, division.pieces, body, "block"),)
        return body

    # Places.

    @property
    def lane_of_row(self) -> Affine:
        """Return a thread's number among those that share its row."""
        return affine(self.loops.warp) * self.division.warp_lanes + affine(self.loops.lane)

    def over_threads(self, body: Sequence[Statement]) -> Statement:
        """Return statements that every thread of a block runs."""
        lanes = counted_loop(self.loops.lane, self.division.warp_lanes, body, "thread")
        warps = counted_loop(self.loops.warp, self.division.warps, [lanes], "thread")
        return counted_loop(self.loops.group, self.division.groups, [warps], "thread")

    def block_in_row(self, summed: Sequence[Reduce], levels: Sequence[LoopLevel] = ()) -> Block:
        """Return an empty block inside one row and `levels`, where some reductions are summed."""
        block = self.source.block([*self.rows.over, *levels])
        block.names |= self.sums.names
        for reduce in summed:
            block.results[reduce] = Ref(self.sums.totals[reduce], ())
        return block

    def at_row(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return statements at the row of a group of threads, where there is such a row."""
        blocks, groups = self.division.blocks, self.division.groups
        row = affine(self.loops.block) * groups + affine(self.loops.group)
        return self.loops.over.at(row, blocks * groups - 1, statements)

    def vector_widths(self, extent: int, thread_points: int) -> list[int]:
        """Return how many neighbours a thread may read or write at once, the most first.

        `extent` is that of their axis; a thread has `thread_points` of them in all.
        """
        sizes = [element_size(buf.dtype) for buf in self.source.buffers.values()]
        widest = self.source.numbers.vector_bytes // min(sizes, default=VECTOR_WIDTHS[0])
        widest = min(widest, thread_points)
        return [width for width in VECTOR_WIDTHS if width <= widest and extent % width == 0]

    # The reductions.

    def reduced(self, reduce: Reduce, summed: Sequence[Reduce]) -> list[Statement]:
        """Return what gives every thread of a row the value of a reduction.

        Those in `summed` come before it.
        """
        total, op = Ref(self.sums.totals[reduce], ()), ASSIGN[reduce.op]
        block = self.block_in_row(summed)
        block.add(self.thread_terms(reduce, total, block))
        start = Store(total, "=", self.source.identity(reduce))
        statements: list[Statement] = [
            Alloc(total.buf),
            self.over_threads([start, *self.at_row(block.statements)]),
        ]
        if self.division.warp_lanes > 1:
            statements.append(WarpReduce(total, op, self.division.warp_lanes))
        if self.division.warps > 1:
            statements += self.reduced_across_warps(reduce, total, op)
        return statements

    def reduced_across_warps(self, reduce: Reduce, total: Ref, op: str) -> list[Statement]:
        """Return what combines the values of warps: each writes one, and every thread reads all."""
        of_warps, group = self.sums.of_warps[reduce], affine(self.loops.group)
        written = Store(Ref(of_warps, (group, affine(self.loops.warp))), "=", total)
        is_first_lane = Predicate((Constraint(affine(self.loops.lane), "=="),))
        read = [Store(total, "=", Ref(of_warps, (group, affine(0))))]
        for warp in range(1, self.division.warps):
            read.append(Store(total, op, Ref(of_warps, (group, affine(warp)))))
        return [
            Alloc(of_warps),
            self.over_threads([If(is_first_lane, (written,))]),
            self.over_threads(read),
        ]

    def thread_terms(self, reduce: Reduce, total: Ref, block: Block) -> Statement:
        """Return the sum of one thread's terms, so that neighbouring threads read neighbours."""
        levels = tuple(
            level for it in outer_first(reduce) for level in self.source.plan.summed[it.index]
        )
        extent = 1
        if levels:
            extent = levels[-1].extent
        thread_points = points(reduce) // (self.division.lanes * self.division.parts)
        for width in self.vector_widths(extent, thread_points):
            terms, index, first = Points.of_groups(self.source, "term", levels, width)
            lane = self.source.fresh("near", width)
            place = _inside(block, terms.levels).place
            place = place.loop(lane, 0, width).fix(index, first + affine(lane))
            added = self.added_term(reduce, total, block.inner(place))
            loop = counted_loop(lane, width, added, "vec")
            if walks_rows(loop):
                return self.over_terms(terms, [loop])
        terms = Points.of(self.source, "term", levels)
        return self.over_terms(terms, self.added_term(reduce, total, _inside(block, levels)))

    def added_term(self, reduce: Reduce, total: Ref, term: Block) -> list[Statement]:
        """Return what adds one term, where the conditions of the reduction hold."""
        op, pending = ASSIGN[reduce.op], term.place.undecided(self.source.skipping(reduce))
        if pending:
            inner = term.inner(term.place.assuming(pending))
            inner.put(total, op, addend(self.source, reduce, inner))
            term.branch(pending, inner)
        elif pending is not None:
            term.put(total, op, addend(self.source, reduce, term))
        return term.statements

    def over_terms(self, terms: Points, statements: Sequence[Statement]) -> Statement:
        """Return a loop over the terms of a thread: every `lanes`-th one of its part."""
        lanes, parts = self.division.lanes, self.division.parts
        steps = -(-terms.count // (lanes * parts))
        step = self.source.fresh("step", steps)
        position = affine(step)
        if parts > 1:
            position = affine(self.loops.part) * steps + position
        term = position * lanes + self.lane_of_row
        return counted_loop(step, steps, terms.at(term, parts * steps * lanes - 1, statements))

    # The outputs.

    def written_rows(self) -> tuple[Statement, ...]:
        """Return what writes the outputs of a row, by all its threads or the first one."""
        if self.partial is None and self.loops.along.count > 1:
            return self.at_row([self.written_row()])
        block = self.block_in_row(self.rows.reduces, self.rows.along)
        if self.partial is None:
            self.source.put_point(block)
        else:
            target = self.source.partial_target(self.partial, self.loops.part, block.place)
            block.put(target, "=", block.results[self.rows.reduces[0]])
        statements = block.statements
        if self.division.lanes > 1:
            is_first = Predicate((Constraint(self.lane_of_row, "=="),))
            statements = [If(is_first, tuple(statements))]
        return self.at_row(self.loops.along.bind_indices(statements))

    def written_row(self) -> Statement:
        """Return what writes a row of several outputs, at once where one word holds neighbours."""
        along, extent = self.loops.along, self.rows.along[-1].extent
        thread_points = along.count // (self.division.lanes * self.division.pieces)
        for width in self.vector_widths(extent, thread_points):
            groups, index, first = Points.of_groups(self.source, "other", self.rows.along, width)
            lane = self.source.fresh("near", width)
            block = self.block_in_row(self.rows.reduces, groups.levels)
            block.place = block.place.loop(lane, 0, width).fix(index, first + affine(lane))
            self.source.put_point(block)
            loop = counted_loop(lane, width, block.statements, "vec")
            if walks_rows(loop):
                return self.over_outputs(groups, [loop])
        block = self.block_in_row(self.rows.reduces, self.rows.along)
        self.source.put_point(block)
        return self.over_outputs(along, block.statements)

    def over_outputs(self, outputs: Points, statements: Sequence[Statement]) -> Statement:
        """Return a loop over the outputs of a row that a thread writes."""
        lanes, pieces = self.division.lanes, self.division.pieces
        steps = -(-outputs.count // (lanes * pieces))
        step = self.source.fresh("turn", steps)
        begin = affine(step) * pieces
        if pieces > 1:
            begin = begin + affine(self.loops.piece)
        point = begin * lanes + self.lane_of_row
        return counted_loop(step, steps, outputs.at(point, steps * lanes * pieces - 1, statements))


def _inside(block: Block, levels: Sequence[LoopLevel]) -> Block:
    """Return an empty block inside more loops."""
    place = block.place
    for level in levels:
        place = place.loop(level.index, *level.range)
    return block.inner(place)
