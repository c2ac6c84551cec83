"""Rows of outputs that one thread computes side by side, so that what they share is read once.

In `O[h,w,c] += A[h+r,w+s,c]*K[r,s,c]`, a thread computes several `w` at one `h` and `c`. It reads
each weight once, and once what two windows have in common, where the compiler keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from codegen.ir.nodes import For, Function, Ref, Statement
from codegen.lowering.block import Block
from codegen.lowering.loop_plan import LoopLevel
from codegen.lowering.reductions import ASSIGN, addend, outermost_reductions
from codegen.lowering.schedule import outer_first
from codegen.targets.cuda.lowering.threads.points import (
    CudaSource,
    Points,
    count_points,
    counted_loop,
)
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.traversal import accesses

MAX_WRITTEN_TERMS = 64  # of the inner summed loops, which are written out


@dataclass(frozen=True)
class ThreadRows:
    """Rows of `width` outputs along a level, which have `shared_reads` reads of a sum in common."""

    reduce: Reduce
    level: LoopLevel
    width: int
    shared_reads: int


def thread_rows(source: CudaSource) -> ThreadRows | None:
    """Return the rows of a statement; None where outputs share nothing, or are too few for rows."""
    best: ThreadRows | None = None
    for rows in row_levels(source):
        rows = replace(rows, width=_width(source, rows.level))
        if rows.width == 1:
            continue
        if best is None or rows.shared_reads >= best.shared_reads:
            best = rows
    return best


def row_levels(source: CudaSource) -> Iterator[ThreadRows]:
    """Yield rows of one output along each level along which outputs share reads of a sum."""
    reduces = outermost_reductions(source.scope.body)
    if source.scope.where or len(reduces) != 1 or reduces[0].where:
        return
    (reduce,) = reduces
    if outermost_reductions(reduce.body):
        return
    for level in source.plan.output[:-1]:  # neighbouring threads compute neighbours in memory
        shared = _shared_reads(reduce, level)
        if shared:
            yield ThreadRows(reduce, level, 1, shared)


def _width(source: CudaSource, level: LoopLevel) -> int:
    """Return how many outputs a thread computes: they divide the level, and leave many threads."""
    numbers = source.numbers
    outputs_of_a_thread = count_points(source.plan.output) // numbers.device_threads
    most = min(numbers.max_row_outputs, outputs_of_a_thread)
    return max((width for width in range(2, most + 1) if level.extent % width == 0), default=1)


def _shared_reads(reduce: Reduce, level: LoopLevel) -> int:
    """Return how many reads of a sum are the same for all outputs along a level."""
    shared = 0
    for access in set(accesses(reduce.body)):
        if all(level.index not in form.indices for form in access.subscripts):
            shared += 1
    return shared


def thread_row_kernel(source: CudaSource, rows: ThreadRows, most_threads: int) -> Function:
    """Return the kernel in which each thread computes one row, so many of a block at most."""
    count = rows.level.extent // rows.width
    group = source.fresh(f"{rows.level.index.name}_group", count)
    groups = LoopLevel(group, affine(0), affine(count), (0, count))
    levels: list[LoopLevel] = []
    for level in source.plan.output:
        if level == rows.level:
            level = groups
        levels.append(level)
    points = Points.of(source, "point", levels)
    threads = min(most_threads, points.count)
    blocks = -(-points.count // threads)
    block, thread = source.fresh("block", blocks), source.fresh("thread", threads)
    body = points.at(
        affine(block) * threads + affine(thread),
        blocks * threads - 1,
        _row(source, rows, groups, levels),
    )
    in_block = counted_loop(thread, threads, body, "thread")
    return source.function((counted_loop(block, blocks, [in_block], "block"),))


def _row(
    source: CudaSource, rows: ThreadRows, groups: LoopLevel, levels: Sequence[LoopLevel]
) -> list[Statement]:
    """Return what computes a row: its sums begin, terms are added to all, and outputs are set."""
    reduce, width = rows.reduce, rows.width
    lane = source.fresh("lane", width)
    output = affine(groups.index) * width + affine(lane) + rows.level.range[0]
    block = source.block(levels)
    totals = Ref(block.local(reduce, (width,), source.accumulated(reduce)), (affine(lane),))
    along = block.place.loop(lane, 0, width).fix(rows.level.index, output)

    def for_each_output(inner: Block) -> For:
        return counted_loop(lane, width, inner.statements, "unroll")

    begin = block.inner(along)
    begin.put(totals, "=", source.identity(reduce))
    block.add(for_each_output(begin))
    place = along
    summed: list[LoopLevel] = []
    for it in outer_first(reduce):
        summed += source.plan.summed[it.index]
    for level in summed:
        place = place.loop(level.index, *level.range)
    term = block.inner(place)
    term.put(totals, ASSIGN[reduce.op], addend(source, reduce, term))
    loops: Statement = for_each_output(term)
    written = 1
    for level in reversed(summed):
        written *= level.extent
        kind = "seq"
        if written <= MAX_WRITTEN_TERMS:
            kind = "unroll"
        loops = For(level.index, level.low, level.high, level.range, (loops,), kind)
    block.add(loops)
    end = block.inner(along)
    end.results[reduce] = totals
    source.put_point(end)
    block.add(for_each_output(end))
    return block.statements
