"""One thread for each output, or for some: neighbouring threads write neighbours in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.hardware.gpu import WARP_THREADS
from codegen.ir.nodes import Function, If, Statement
from codegen.lowering.loop_plan import LoopLevel
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.lowering.threads.points import (
    CudaSource,
    Points,
    count_points,
    counted_loop,
    let_index,
)
from einalg.language.index.convert import affine
from einalg.language.ir.traversal import reductions

SMALL_BLOCK_THREADS = 16  # a block of as many threads or fewer is not filled up to a warp


@dataclass(frozen=True)
class MapDivision:
    """How the outputs of a statement are divided among threads.

    Each of the `threads` of a block computes `outputs`, one after the other, or `width` neighbours
    at once.
    """

    threads: int
    outputs: int = 1
    width: int = 1


def divide_points(source: CudaSource) -> MapDivision:
    """Choose what a thread computes, by the numbers of the schedule."""
    numbers, count = source.numbers, count_points(source.plan.output)
    width = next(vector_widths(source), 1)
    if width > 1 and count >= width * numbers.threads:
        return MapDivision(numbers.threads, 1, width)
    outputs = max(1, min(numbers.max_thread_outputs, count // max(1, numbers.device_threads)))
    return MapDivision(numbers.threads, outputs)


def map_kernel(source: CudaSource, division: MapDivision) -> Function:
    """Return the kernel in which a thread computes outputs by itself, with all their reductions."""
    if division.width > 1:
        return source.function(_vectors(source, source.plan.output[0], division))
    return source.function(_elements(source, division))


def _elements(source: CudaSource, division: MapDivision) -> tuple[Statement, ...]:
    """Return the loops in which each thread computes some outputs, one by one."""
    points = Points.of(source, "point", source.plan.output)
    threads, each = block_threads(points.count, division.threads), division.outputs
    blocks = -(-points.count // (threads * each))
    block, thread = source.fresh("block", blocks), source.fresh("thread", threads)
    step = source.fresh("step", each)
    inside = source.block(source.plan.output)
    source.put_point(inside)
    point = affine(block) * (threads * each) + affine(thread)
    if each > 1:
        point = point + affine(step) * threads
    body = points.at(point, blocks * threads * each - 1, inside.statements)
    if each > 1:
        body = (counted_loop(step, each, body, "unroll"),)
    in_block = counted_loop(thread, threads, body, "thread")
    return (counted_loop(block, blocks, [in_block], "block"),)


def vector_widths(source: CudaSource) -> Iterator[int]:
    """Yield the numbers of neighbours that a thread may compute at once, the most first.

    There are some where the whole kernel walks memory in one stride.
    """
    levels = source.plan.output
    if len(levels) != 1 or source.scope.where or source.cutting:
        return
    if any(True for _ in reductions(source.scope.body)):
        return
    largest = max(element_size(b.dtype) for b in (*source.buffers.values(), source.output))
    width = source.numbers.vector_bytes // largest
    while width > 1:
        if levels[0].extent % width == 0:
            yield width
        width //= 2


def _vectors(source: CudaSource, level: LoopLevel, division: MapDivision) -> tuple[Statement, ...]:
    """Return the loops in which each thread computes neighbours at once."""
    width, threads = division.width, division.threads
    groups = level.extent // width
    blocks = -(-groups // threads)
    block, thread = source.fresh("block", blocks), source.fresh("thread", threads)
    group, lane = source.fresh("group", groups), source.fresh("lane", width)
    inside = source.block([])
    element = affine(group) * width + affine(lane) + level.range[0]
    place = inside.place.loop(group, 0, groups).loop(lane, 0, width)
    inside.place = place.fix(level.index, element)
    source.put_point(inside)
    points = Points(group, (LoopLevel(group, affine(0), affine(groups), (0, groups)),))
    body: tuple[Statement, ...] = (counted_loop(lane, width, inside.statements, "vec"),)
    if blocks * threads > groups:
        body = (If(points.exists(), body),)
    form = affine(block) * threads + affine(thread)
    body = (let_index(group, form, (0, blocks * threads), body),)
    in_block = counted_loop(thread, threads, body, "thread")
    return (counted_loop(block, blocks, [in_block], "block"),)


def block_threads(points: int, most: int) -> int:
    """Return the threads of a block: whole warps, but not more than there is work for."""
    if points <= SMALL_BLOCK_THREADS:
        return points
    return min(most, -(-points // WARP_THREADS) * WARP_THREADS)
