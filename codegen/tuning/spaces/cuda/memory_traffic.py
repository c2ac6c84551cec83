"""What reads bring into a multiprocessor: elements that a block needs, and sectors of a warp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from codegen.hardware.gpu import WARP_THREADS
from codegen.lowering.loop_plan import LoopLevel
from codegen.lowering.schedule import strides
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.lowering.threads.points import CudaSource
from codegen.tuning.spaces.cuda.device_cost import SECTOR
from einalg.language.index.affine import Index
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses

Covered = Mapping[Index, int]  # by an index, of how many of its values something is computed


def covered_points(levels: Sequence[LoopLevel], count: int) -> dict[Index, int]:
    """Return how many values of each index neighbouring points have, so many as are counted."""
    covered: dict[Index, int] = {}
    for level in reversed(levels):
        covered[level.index] = max(1, min(level.extent, count))
        count = -(-count // max(1, level.extent))
    return covered


def read_bytes(source: CudaSource, covered: Covered) -> float:
    """Return the bytes that a statement reads for some values of its indices, each element once.

    Indices that are not covered have all of their values.
    """
    ranges: dict[Index, tuple[int, int]] = {}
    for index, (low, high) in source.plan.ranges.items():
        ranges[index] = (low, low + covered.get(index, max(1, high - low)))
    boxes: dict[Tensor, list[list[tuple[int, int]]]] = {}
    for access in set(accesses(source.scope.body)):
        box = [form.interval(ranges) for form in access.subscripts]
        boxes.setdefault(access.tensor, []).append(box)
    total = 0
    for tensor, read in boxes.items():
        around: list[tuple[int, int]] = []
        for axis in zip(*read):
            around.append((min(low for low, _ in axis), max(high for _, high in axis)))
        apart = sum(_elements(tensor, box) for box in read)
        total += min(apart, _elements(tensor, around)) * element_size(tensor.dtype)
    return float(total)


def _elements(tensor: Tensor, box: Sequence[tuple[int, int]]) -> int:
    """Return the number of elements of a tensor in a box."""
    elements = 1
    for (low, high), (first, last) in zip(tensor.box, box):
        elements *= max(1, min(high, int(last) + 1) - max(low, int(first)))
    return elements


def moved_bytes(source: CudaSource) -> float:
    """Return the bytes that a whole statement reads and writes, each element once."""
    written = prod(source.output.shape) * element_size(source.output.dtype)
    return read_bytes(source, {}) + written


def warp_sectors(source: CudaSource, access: Access, levels: Iterable[LoopLevel]) -> float:
    """Return the sectors of memory that a warp reads at once, whose threads count points.

    `levels` are the loops over these points, inner ones last.
    """
    step_of, lanes, sectors = strides(access, source.plan.fixed), WARP_THREADS, 1.0
    for level in reversed(list(levels)):
        if lanes <= 1:
            break
        count, step = min(lanes, level.extent), step_of(level.index)
        if step is None:
            sectors *= count
        elif step:
            span = count * abs(step) * element_size(access.tensor.dtype)
            sectors *= min(count, -(-span // SECTOR))
        lanes = -(-lanes // max(1, level.extent))
    return min(sectors, float(WARP_THREADS))
