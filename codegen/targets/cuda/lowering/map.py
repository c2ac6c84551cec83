"""One thread for each output, or for some of them: neighbouring threads write neighbours in memory."""

from __future__ import annotations

from codegen.ir.nodes import Function, If, Statement
from codegen.lowering.loop_plan import LoopLevel
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.lowering.thread_points import CudaSource, Points, counted_loop, let_index
from einalg.language.index.convert import affine
from einalg.language.ir.traversal import reductions


def map_kernel(source: CudaSource) -> Function:
    """The kernel in which a thread computes outputs by itself, with all the reductions in them."""
    levels = source.plan.output
    width = _width(source)
    body = _vectors(source, levels[0], width) if width > 1 else _elements(source)
    return source.function(body)


def _elements(source: CudaSource) -> tuple[Statement, ...]:
    numbers, points = source.numbers, Points.of(source, "point", source.plan.output)
    threads = _threads(points.count, numbers.threads)
    each = max(1, min(numbers.elements, points.count // max(1, numbers.busy)))
    blocks = -(-points.count // (threads * each))
    block, thread, step = (
        source.fresh("block", blocks),
        source.fresh("thread", threads),
        source.fresh("step", each),
    )
    inside = source.block(source.plan.output)
    source.put_point(inside)
    form = affine(block) * (threads * each) + affine(step) * threads + affine(thread)
    body = points.at(
        form if each > 1 else affine(block) * threads + affine(thread),
        blocks * threads * each - 1,
        inside.statements,
    )
    if each > 1:
        body = (counted_loop(step, each, body, "unroll"),)
    return (counted_loop(block, blocks, [counted_loop(thread, threads, body, "thread")], "block"),)


def _width(source: CudaSource) -> int:
    """The neighbours that a thread takes at once: more than 1 where the whole kernel walks memory in one stride."""
    numbers, levels = source.numbers, source.plan.output
    if (
        len(levels) != 1
        or source.scope.where
        or source.cutting
        or any(True for _ in reductions(source.scope.body))
    ):
        return 1
    largest = max(element_size(b.dtype) for b in (*source.buffers.values(), source.output))
    width = numbers.bytes // largest
    return (
        width
        if width > 1
        and levels[0].extent % width == 0
        and levels[0].extent >= width * numbers.threads
        else 1
    )


def _vectors(source: CudaSource, level: LoopLevel, width: int) -> tuple[Statement, ...]:
    groups, threads = level.extent // width, source.numbers.threads
    blocks = -(-groups // threads)
    block, thread = source.fresh("block", blocks), source.fresh("thread", threads)
    group, lane = source.fresh("group", groups), source.fresh("lane", width)
    inside = source.block([])
    inside.place = (
        inside.place.loop(group, 0, groups)
        .loop(lane, 0, width)
        .fix(level.index, affine(group) * width + affine(lane) + level.range[0])
    )
    source.put_point(inside)
    points = Points(group, (LoopLevel(group, affine(0), affine(groups), (0, groups)),))
    body: tuple[Statement, ...] = (counted_loop(lane, width, inside.statements, "vec"),)
    if blocks * threads > groups:
        body = (If(points.exists(), body),)
    step = let_index(group, affine(block) * threads + affine(thread), (0, blocks * threads), body)
    return (counted_loop(block, blocks, [counted_loop(thread, threads, [step], "thread")], "block"),)


def _threads(count: int, most: int) -> int:
    """The threads of a block: whole warps, but not more than there is work for."""
    return min(most, -(-count // 32) * 32) if count > 16 else count
