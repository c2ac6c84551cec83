"""Reductions that the threads of a warp or of a block share, and what is computed from them.

Each thread sums some terms; the threads of a warp hand each other their sums, and warps those of theirs through shared memory. What
a whole row of outputs needs (as the largest element and the sum of a softmax) is summed once, for all outputs of the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from codegen.ir.nodes import Alloc, Buf, Function, If, Predicate, Ref, Statement, Store, WarpReduce
from codegen.lowering.block import LOCAL_NAMES, Block
from codegen.lowering.loop_plan import LoopLevel, points
from codegen.lowering.reductions import ASSIGN, outermost_reductions, reads_inside, value
from codegen.lowering.schedule import outer_first
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.lowering.thread_points import CudaSource, Points, counted_loop
from codegen.targets.cuda.text.vectors import walks_rows
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce

MAX_SHARED_REDUCTIONS = 8  # reductions of one kernel


@dataclass(frozen=True)
class RowReductions:
    """Reductions, inner ones first, that have the same value for all points of `along` at one point of `over`."""

    reduces: tuple[Reduce, ...]
    over: tuple[LoopLevel, ...]
    along: tuple[LoopLevel, ...]

    @property
    def terms(self) -> int:
        return max(map(points, self.reduces))


def shared_reductions(source: CudaSource) -> RowReductions | None:
    """The reductions of a statement that several threads share; None where each thread is better off alone."""
    found: list[Reduce] = []
    place, levels = source.block(source.plan.output).place, source.plan.output
    needed: set[Index] = set()

    def see(body: Any, conditional: bool) -> None:
        for reduce in outermost_reductions(body):
            if reduce in found:
                continue
            free = {i for index in reduce.free_symbols for i in place.form(affine(index)).indices}
            see(reduce.body, True)
            if (
                free <= place.bound
                and points(reduce) >= source.numbers.short
                and not (conditional and not reads_inside(reduce, place))
            ):
                found.append(reduce)
                needed.update(free)

    see(source.scope.body, bool(source.scope.where))
    if not found or len(found) > MAX_SHARED_REDUCTIONS:
        return None
    over, along = (
        [level for level in levels if (level.index in needed) is known] for known in (True, False)
    )
    rows = RowReductions(tuple(found), tuple(over), tuple(along))
    if _count(along) == 1 and (
        _count(over) >= source.numbers.busy or rows.terms < source.numbers.long
    ):
        return None
    return rows


def choose_part_count(source: CudaSource, rows: RowReductions) -> int:
    """How many groups of blocks share one long reduction, where its outputs alone keep few of them busy."""
    numbers = source.numbers
    many = max(numbers.lanes)
    blocks = -(-_count(rows.over) // max(1, numbers.threads // many))
    whole = (
        outermost_reductions(source.scope.body) == list(rows.reduces)
        and _count(rows.along) == 1
        and not source.scope.where
    )
    if not whole or len(rows.reduces) != 1 or blocks >= numbers.blocks:
        return 1
    return max(
        1,
        min(-(-numbers.blocks // blocks), rows.terms // (many * numbers.steps * 4), numbers.parts),
    )


def _count(levels: Any) -> int:
    return prod(level.extent for level in levels)


def reduction_kernel(source: CudaSource, rows: RowReductions) -> Function:
    """The kernel in which a group of threads computes what one row needs, and then the row."""
    return source.function(_ReductionKernel(source, rows).body())


def partial_kernel(source: CudaSource, rows: RowReductions, output: Buf) -> Function:
    """The kernel that sums the terms of a reduction in parts: the first axis of its output counts them."""
    return Function(
        output.name,
        tuple(source.buffers.values()),
        output,
        _ReductionKernel(source, rows, output).body(),
        str(source.scope),
    )


class _ReductionKernel:
    def __init__(self, source: CudaSource, rows: RowReductions, partial: Buf | None = None):
        numbers, self.source, self.rows = source.numbers, source, rows
        few, many = numbers.lanes
        self.partial, self.parts = partial, partial.shape[0] if partial else 1
        self.over, self.along = (
            Points.of(source, "point", rows.over),
            Points.of(source, "other", rows.along),
        )
        self.lanes = many if max(rows.terms // self.parts, self.along.count) >= 4 * many else few
        self.width = min(numbers.shuffled, self.lanes)
        self.warps = self.lanes // self.width
        self.groups = max(1, min(numbers.threads // self.lanes, self.over.count))
        self.blocks = -(-self.over.count // self.groups)
        self.pieces = max(
            1,
            min(
                self.along.count // max(rows.terms, 4 * self.lanes),
                -(-numbers.blocks // self.blocks),
            ),
        )
        self.block, self.group = (
            source.fresh("block", self.blocks),
            source.fresh("group", self.groups),
        )
        self.warp, self.lane = source.fresh("warp", self.warps), source.fresh("lane", self.width)
        self.part, self.piece = source.fresh("part", self.parts), source.fresh("piece", self.pieces)
        names = source.block(source.plan.output).names
        self.totals: dict[Reduce, Buf] = {}
        self.gathered: dict[Reduce, Buf] = {}
        for reduce in rows.reduces:
            stem = LOCAL_NAMES[reduce.op]
            suffix = next(
                s
                for k in range(len(names) + 1)
                if not {f"{stem}{(s := str(k or ''))}", f"{stem}s{s}"} & names
            )
            names |= {f"{stem}{suffix}", f"{stem}s{suffix}"}
            dtype = source.accumulated(reduce)
            self.totals[reduce] = Buf(f"{stem}{suffix}", (), dtype, "reg")
            self.gathered[reduce] = Buf(
                f"{stem}s{suffix}", (self.groups, self.warps), dtype, "shared"
            )
        self.names = names

    def body(self) -> tuple[Statement, ...]:
        inside: list[Statement] = []
        for position, reduce in enumerate(self.rows.reduces):
            inside += self.shared(reduce, self.rows.reduces[:position])
        inside.append(self.threads(self.written()))
        body = [counted_loop(self.block, self.blocks, inside, "block")]
        if self.parts > 1:
            return (counted_loop(self.part, self.parts, body, "block"),)
        return (
            (counted_loop(self.piece, self.pieces, body, "block"),) if self.pieces > 1 else tuple(body)
        )

    @property
    def position(self) -> Affine:
        """A thread's place in its group."""
        return affine(self.warp) * self.width + affine(self.lane)

    def threads(self, body: Any) -> Statement:
        inner = counted_loop(self.lane, self.width, body, "thread")
        return counted_loop(
            self.group, self.groups, [counted_loop(self.warp, self.warps, [inner], "thread")], "thread"
        )

    def at_point(self, known: Any, *more: LoopLevel) -> Block:
        """A block at one row, where some reductions are summed already."""
        block = self.source.block([*self.rows.over, *more])
        block.names |= self.names
        for reduce in known:
            block.results[reduce] = Ref(self.totals[reduce], ())
        return block

    def placed(self, statements: Any) -> tuple[Statement, ...]:
        form = affine(self.block) * self.groups + affine(self.group)
        return self.over.at(form, self.blocks * self.groups - 1, statements)

    def written(self) -> tuple[Statement, ...]:
        """The outputs of a row, by all its threads; a single one by the first."""
        if self.partial is None and self.along.count > 1:
            return self.placed([self.written_row()])
        block = self.at_point(self.rows.reduces, *self.rows.along)
        if self.partial:
            block.put(
                self.source.partial_target(self.partial, self.part, block.place),
                "=",
                block.results[self.rows.reduces[0]],
            )
        else:
            self.source.put_point(block)
        statements = block.statements
        if self.lanes > 1:
            statements = [If(Predicate((Constraint(self.position, "=="),)), tuple(statements))]
        return self.placed(self.along.named(statements))

    def written_row(self) -> Statement:
        """The outputs of a row, neighbours by one thread where that takes one access."""
        last = self.rows.along[-1]
        for width in self.widths(last.extent, self.along.count // (self.lanes * self.pieces)):
            others, index, first = Points.of_groups(self.source, "other", self.rows.along, width)
            lane = self.source.fresh("near", width)
            block = self.at_point(self.rows.reduces, *others.levels)
            block.place = block.place.loop(lane, 0, width).fix(index, first + affine(lane))
            self.source.put_point(block)
            loop = counted_loop(lane, width, block.statements, "vec")
            if walks_rows(loop):
                return self.turns(others, [loop])
        block = self.at_point(self.rows.reduces, *self.rows.along)
        self.source.put_point(block)
        return self.turns(self.along, block.statements)

    def turns(self, others: Points, statements: Any) -> Statement:
        each = self.lanes * self.pieces
        steps = -(-others.count // each)
        step = self.source.fresh("turn", steps)
        begin = affine(step) * self.pieces + (affine(self.piece) if self.pieces > 1 else 0)
        return counted_loop(
            step, steps, others.at(begin * self.lanes + self.position, steps * each - 1, statements)
        )

    def shared(self, reduce: Reduce, known: Any) -> list[Statement]:
        """The sums of the threads, and those of all of them together, which every thread gets."""
        total, op = Ref(self.totals[reduce], ()), ASSIGN[reduce.op]
        block = self.at_point(known)
        block.add(self.strided(reduce, total, block))
        start = Store(total, "=", self.source.identity(reduce))
        found: list[Statement] = [
            Alloc(total.buf),
            self.threads([start, *self.placed(block.statements)]),
        ]
        if self.width > 1:
            found.append(WarpReduce(total, op, self.width))
        if self.warps > 1:
            gathered = self.gathered[reduce]
            parts = [
                Ref(gathered, (affine(self.group), affine(warp))) for warp in range(self.warps)
            ]
            give = Store(Ref(gathered, (affine(self.group), affine(self.warp))), "=", total)
            found.append(Alloc(gathered))
            found.append(
                self.threads([If(Predicate((Constraint(affine(self.lane), "=="),)), (give,))])
            )
            found.append(
                self.threads(
                    [Store(total, "=", parts[0]), *(Store(total, op, part) for part in parts[1:])]
                )
            )
        return found

    def strided(self, reduce: Reduce, total: Ref, block: Block) -> Statement:
        """The terms of a reduction that one thread sums: every so many, so that neighbouring threads read neighbours."""
        levels = tuple(
            level for it in outer_first(reduce) for level in self.source.plan.summed[it.index]
        )
        for width in self.widths(
            levels[-1].extent if levels else 1, points(reduce) // (self.lanes * self.parts)
        ):
            terms, index, first = Points.of_groups(self.source, "term", levels, width)
            lane = self.source.fresh("near", width)
            place = (
                _within(block, terms.levels)
                .place.loop(lane, 0, width)
                .fix(index, first + affine(lane))
            )
            loop = counted_loop(lane, width, self.added(reduce, total, block.inner(place)), "vec")
            if walks_rows(loop):
                return self.stepping(terms, [loop])
        terms = Points.of(self.source, "term", levels)
        return self.stepping(terms, self.added(reduce, total, _within(block, levels)))

    def widths(self, extent: int, most: int) -> list[int]:
        """How many neighbours along an axis a thread may read or write at once, most first."""
        least = min((element_size(buf.dtype) for buf in self.source.buffers.values()), default=16)
        widest = min(self.source.numbers.bytes // least, most)
        return [width for width in (16, 8, 4, 2) if width <= widest and extent % width == 0]

    def added(self, reduce: Reduce, total: Ref, term: Block) -> list[Statement]:
        """Add one term, where it counts."""
        pending = term.place.open(self.source.skipping(reduce))
        if pending is not None:
            inner = term.inner(term.place.given(pending)) if pending else term
            inner.put(total, ASSIGN[reduce.op], value(self.source, reduce.body, inner))
            if pending:
                term.branch(pending, inner)
        return term.statements

    def stepping(self, terms: Points, statements: Any) -> Statement:
        steps = -(-terms.count // (self.lanes * self.parts))
        step = self.source.fresh("step", steps)
        form = (
            affine(self.part) * steps + affine(step) if self.parts > 1 else affine(step)
        ) * self.lanes + self.position
        return counted_loop(step, steps, terms.at(form, self.parts * steps * self.lanes - 1, statements))


def _within(block: Block, levels: tuple[LoopLevel, ...]) -> Block:
    place = block.place
    for level in levels:
        place = place.loop(level.index, *level.range)
    return block.inner(place)
