"""Kernels whose threads share the reductions of a row of outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2, prod

from codegen.hardware.gpu import WARP_THREADS, GpuModel
from codegen.lowering.loop_plan import points as reduction_points
from codegen.lowering.reductions import outermost_reductions
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import MAX_BLOCK_THREADS, VECTOR_BYTES
from codegen.targets.cuda.lowering.plans import KernelPlan, RowPlan
from codegen.targets.cuda.lowering.row_reductions import (
    Division,
    RowReductions,
    choose_part_count,
    divide,
    has_parts,
    row_reductions,
)
from codegen.targets.cuda.lowering.threads.points import CudaSource, count_points
from codegen.tuning.spaces.cuda.body_cost import instructions, rate, read_instructions, reads
from codegen.tuning.spaces.cuda.device_cost import (
    BARRIER_CYCLES,
    CACHE_LATENCY,
    MEMORY_LATENCY,
    KernelWork,
)
from codegen.tuning.spaces.cuda.memory_traffic import moved_bytes, read_bytes, warp_sectors
from codegen.tuning.spaces.cuda.outputs import FEW_THREADS, READS_IN_FLIGHT, SECTORS_OF_LINE
from codegen.tuning.spaces.cuda.statement import (
    DeviceSpace,
    DeviceUnit,
    index_instructions,
    plain_resources,
)
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import Choices, ladder

SHUFFLE_CYCLES = 30.0  # in which threads of a warp hand each other a value and add it
OF_TERM = 4.0  # instructions of a term that each thread adds by itself


@dataclass(frozen=True)
class RowShares:
    """Threads that share a row, rows of a block, blocks that share a row's outputs or one sum."""

    lanes: int
    groups: int
    pieces: int = 1
    parts: int = 1


class RowSpace(DeviceSpace):
    """Rows of outputs, whose reductions threads share."""

    name = "rows"
    cards = {
        "lanes": StepCard("split", "threads that share a row", "a power of two"),
        "groups": StepCard("tile", "rows of a block"),
        "pieces": StepCard("parallel", "blocks that share a row"),
        "parts": StepCard("parallel", "blocks that share a sum", "each output is one reduction"),
    }

    @cached_property
    def _source(self) -> CudaSource:
        return self.unit.statement.source()

    @cached_property
    def rows(self) -> RowReductions | None:
        return row_reductions(self._source)

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        """Return the rows, the outputs of each, and the terms of the longest reduction."""
        assert self.rows is not None  # else the unit has no such space
        return count_points(self.rows.over), count_points(self.rows.along), self.rows.terms

    @cached_property
    def _accumulated(self) -> str:
        """Return the type in which a thread sums."""
        assert self.rows is not None
        return self._source.accumulated(self.rows.reduces[0])

    @cached_property
    def _has_parts(self) -> bool:
        return self.rows is not None and has_parts(self._source, self.rows)

    def start(self) -> RowShares:
        return self._start

    @cached_property
    def _start(self) -> RowShares:
        """Return the cheapest of what the schedule says and of other numbers of threads."""
        assert self.rows is not None
        usual = divide(self._source, self.rows, choose_part_count(self._source, self.rows))
        points = [RowShares(usual.lanes, usual.groups, usual.pieces, usual.parts)]
        for lanes in (8, WARP_THREADS, 256):
            for groups in (1, 256 // lanes):
                points.append(RowShares(lanes, groups, 1, usual.parts))
        return min(filter(self.fits, points), key=self.cycles)

    def choices(self) -> Choices:
        rows, outputs, terms = self._counts
        parts: tuple[int, ...] = (1,)
        if self._has_parts:
            parts = ladder(max(1, min(self.unit.schedule.max_parts, terms)))
        return {
            "lanes": (4, 8, 16, 32, 64, 128, 256, 512, 1024),
            "groups": ladder(max(1, min(rows, 64))),
            "pieces": ladder(max(1, min(outputs, 64))),
            "parts": parts,
        }

    def refusal(self, point: RowShares) -> str | None:
        rows, outputs, terms = self._counts
        if min(point.lanes, point.groups, point.pieces, point.parts) < 1:
            return "each number is 1 or more"
        if point.lanes & (point.lanes - 1):
            return "a power of two of threads share a row"
        if point.lanes * point.groups > MAX_BLOCK_THREADS:
            return FEW_THREADS
        if point.parts > 1 and (point.pieces > 1 or not self._has_parts):
            return "blocks share a sum where each output is a row with one reduction"
        if point.groups > max(1, rows) or point.pieces > max(1, outputs) or point.parts > terms:
            return "there are not so many rows, outputs or terms"
        return None

    def work(self, point: RowShares) -> KernelWork:
        assert self.rows is not None
        rows, outputs, _ = self._counts
        source, threads = self._source, point.lanes * point.groups
        warp_lanes, warps = min(WARP_THREADS, point.lanes), -(-point.lanes // WARP_THREADS)
        issued, lines, latency = index_instructions(self.rows.over), 1.0, 2 * MEMORY_LATENCY
        for reduce in self.rows.reduces:
            summed = prod(it.extent for it in reduce.iterators)
            terms = -(-summed // (point.lanes * point.parts))
            levels = [level for it in reduce.iterators for level in source.plan.summed[it.index]]
            each = instructions(reduce.body) + rate(source.accumulated(reduce)) + 1
            each += index_instructions(levels) / self._vector(levels[-1].extent if levels else 1)
            for access in reads(reduce.body):
                each += read_instructions(access)
                lines += terms * warp_sectors(source, access, levels) / SECTORS_OF_LINE
            for inner in outermost_reductions(reduce.body):
                if inner not in self.rows.reduces:
                    each += reduction_points(inner) * (instructions(inner.body) + OF_TERM)
            issued += terms * each + 2 * log2(warp_lanes) + warps
            latency += terms / READS_IN_FLIGHT * CACHE_LATENCY
            latency += SHUFFLE_CYCLES * log2(warp_lanes) + (2 * BARRIER_CYCLES) * (warps > 1)
        turns = -(-outputs // (point.lanes * point.pieces))
        written = instructions(source.scope.body) + 2
        for access in reads(source.scope.body):
            written += read_instructions(access)
            lines += turns * warp_sectors(source, access, self.rows.along) / SECTORS_OF_LINE
        covered = {level.index: 1 for level in self.rows.over}
        row_bytes = read_bytes(source, covered) / point.parts
        size = element_size(source.output.dtype)
        cached = point.groups * (row_bytes + outputs * size / point.pieces)
        blocks = -(-rows // point.groups) * point.pieces * point.parts
        return KernelWork(
            plain_resources(threads, 8, self._accumulated),
            blocks,
            issued + turns * (written + 2),
            lines + turns,
            latency + turns * CACHE_LATENCY / READS_IN_FLIGHT,
            cached,
            moved_bytes(source),
        )

    def _vector(self, extent: int) -> int:
        """Return how many neighbours a thread reads at once."""
        sizes = [element_size(buf.dtype) for buf in self._source.buffers.values()]
        width = VECTOR_BYTES // min(sizes, default=VECTOR_BYTES)
        while width > 1 and extent % width:
            width //= 2
        return max(1, width)

    def added_bytes(self, point: RowShares) -> float:
        return self.bytes_of_parts(point.parts, self._accumulated)

    def point_of(self, plan: KernelPlan) -> RowShares | None:
        if not isinstance(plan, RowPlan):
            return None
        division = plan.division
        return RowShares(division.lanes, division.groups, division.pieces, division.parts)

    def plan(self, point: RowShares) -> RowPlan:
        source = self.unit.statement.source()
        rows = row_reductions(source)
        assert rows is not None
        blocks = -(-count_points(rows.over) // point.groups)
        warp_lanes = min(WARP_THREADS, point.lanes)
        division = Division(
            point.parts, point.lanes, warp_lanes, point.groups, blocks, point.pieces
        )
        return RowPlan(source, rows, division)


def row_space(unit: DeviceUnit, device: GpuModel) -> RowSpace | None:
    """Return the rows of a statement whose reductions threads may share; None where none do."""
    if not prod(unit.scope.shape):
        return None
    space = RowSpace(unit, device)
    if space.rows is None:
        return None
    return space
