"""One thread for each output, or for some: neighbouring threads write neighbours in memory."""

from __future__ import annotations

from codegen.ir.nodes import Function, If, Statement
from codegen.lowering.loop_plan import LoopLevel
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import WARP_THREADS
from codegen.targets.cuda.lowering.threads.points import CudaSource, Points, counted_loop, let_index
from einalg.language.index.convert import affine
from einalg.language.ir.traversal import reductions

SMALL_BLOCK_THREADS = 16  # a block of as many threads or fewer is not filled up to a warp


def map_kernel(source: CudaSource) -> Function:
    """Return the kernel in which a thread computes outputs by itself, with all their reductions."""
    width = _vector_width(source)
    if width > 1:
        return source.function(_vectors(source, source.plan.output[0], width))
    return source.function(_elements(source))


def _elements(source: CudaSource) -> tuple[Statement, ...]:
    """Return the loops in which each thread computes some outputs, one by one."""
    numbers, points = source.numbers, Points.of(source, "point", source.plan.output)
    threads = _block_threads(points.count, numbers.threads)
    each = max(1, min(numbers.max_thread_outputs, points.count // max(1, numbers.device_threads)))
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


def _vector_width(source: CudaSource) -> int:
    """Return the number of neighbours that a thread computes at once.

    It is more than 1 where the whole kernel walks memory in one stride.
    """
    numbers, levels = source.numbers, source.plan.output
    if len(levels) != 1 or source.scope.where or source.cutting:
        return 1
    if any(True for _ in reductions(source.scope.body)):
        return 1
    largest = max(element_size(b.dtype) for b in (*source.buffers.values(), source.output))
    width, extent = numbers.vector_bytes // largest, levels[0].extent
    if width <= 1 or extent % width or extent < width * numbers.threads:
        return 1
    return width


def _vectors(source: CudaSource, level: LoopLevel, width: int) -> tuple[Statement, ...]:
    """Return the loops in which each thread computes `width` neighbours."""
    groups, threads = level.extent // width, source.numbers.threads
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


def _block_threads(points: int, most: int) -> int:
    """Return the threads of a block: whole warps, but not more than there is work for."""
    if points <= SMALL_BLOCK_THREADS:
        return points
    return min(most, -(-points // WARP_THREADS) * WARP_THREADS)
