"""Kernels whose threads compute outputs by themselves: one by one, in vectors, or in rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from codegen.hardware.gpu import WARP_THREADS, GpuModel
from codegen.lowering.loop_plan import points as reduction_points
from codegen.lowering.reductions import outermost_reductions
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import MAX_BLOCK_THREADS
from codegen.targets.cuda.lowering.map import (
    MapDivision,
    block_threads,
    divide_points,
    vector_widths,
)
from codegen.targets.cuda.lowering.plans import KernelPlan, MapPlan, ThreadRowPlan
from codegen.targets.cuda.lowering.thread_rows import ThreadRows, row_levels, thread_rows
from codegen.targets.cuda.lowering.threads.points import count_points
from codegen.tuning.spaces.cuda.body_cost import instructions, rate, read_instructions, reads
from codegen.tuning.spaces.cuda.device_cost import (
    CACHE_LATENCY,
    LINE,
    MEMORY_LATENCY,
    SECTOR,
    KernelWork,
)
from codegen.tuning.spaces.cuda.memory_traffic import (
    covered_points,
    moved_bytes,
    read_bytes,
    warp_sectors,
)
from codegen.tuning.spaces.cuda.statement import (
    DeviceSpace,
    DeviceUnit,
    index_instructions,
    plain_resources,
)
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import Choices
from einalg.language.ir.traversal import accesses
from einalg.text.wording import either_of

THREADS = (32, 64, 128, 256, 512)
WIDTHS = (2, 3, 4, 5, 6, 7, 8, 12, 16)
FEW_THREADS = f"a block has 1 to {MAX_BLOCK_THREADS} threads"
READS_IN_FLIGHT = 4.0  # of a thread that sums
SECTORS_OF_LINE = LINE // SECTOR


@dataclass(frozen=True)
class BodyWork:
    """What a thread does for one output, and the lines that its warp reads and writes for it."""

    issued: float
    lines: float
    terms: int


class MapSpace(DeviceSpace):
    """Threads that compute outputs by themselves, with all their reductions."""

    name = "map"
    cards = {
        "threads": StepCard("parallel", "threads of a block"),
        "outputs": StepCard("unroll", "outputs of a thread, one by one", "it has no vector"),
        "width": StepCard("vectorize", "neighbours of a thread", "they divide the outputs"),
    }

    @cached_property
    def _widths(self) -> tuple[int, ...]:
        return (1, *reversed(list(vector_widths(self.unit.statement.source()))))

    def start(self) -> MapDivision:
        return self._start

    @cached_property
    def _start(self) -> MapDivision:
        return divide_points(self.unit.statement.source())

    def choices(self) -> Choices:
        return {"threads": THREADS, "outputs": (1, 2, 4, 8), "width": self._widths}

    def refusal(self, point: MapDivision) -> str | None:
        if point.width > 1 and point.outputs > 1:
            return "a thread has one vector, or several outputs"
        if point.width not in self._widths:
            return f"a vector has {either_of(self._widths)} elements here"
        if not 0 < point.threads <= MAX_BLOCK_THREADS:
            return FEW_THREADS
        if not 0 < point.outputs <= max(1, count_points(self.source.plan.output)):
            return "there are not so many outputs"
        return None

    def work(self, point: MapDivision) -> KernelWork:
        source = self.source
        count, each = count_points(source.plan.output), point.outputs * point.width
        threads = block_threads(-(-count // each), point.threads)
        one = self._body
        covered = covered_points(source.plan.output, threads * each)
        cached = read_bytes(source, covered) + threads * each * element_size(source.output.dtype)
        steps = one.terms / READS_IN_FLIGHT
        return KernelWork(
            plain_resources(threads, 4 + each, source.output.dtype),
            -(-count // (threads * each)),
            one.issued * each / (point.width**0.5) + index_instructions(source.plan.output),
            one.lines * each,
            MEMORY_LATENCY * 2 + steps * _step_latency(cached, one, threads * each),
            cached,
            moved_bytes(source),
        )

    @cached_property
    def _body(self) -> BodyWork:
        return body_work(self, self.source.scope.body)

    def point_of(self, plan: KernelPlan) -> MapDivision | None:
        if not isinstance(plan, MapPlan):
            return None
        return plan.division

    def plan(self, point: MapDivision) -> MapPlan:
        return MapPlan(self.unit.statement.source(), point)


def body_work(space: DeviceSpace, body: Any) -> BodyWork:
    """Return what a thread does for a body, where neighbouring threads have neighbouring points."""
    source = space.source
    issued, lines, terms = instructions(body) + 1, 1.0, 0
    for access in reads(body):
        issued += read_instructions(access)
        lines += warp_sectors(source, access, source.plan.output) / SECTORS_OF_LINE
    for reduce in outermost_reductions(body):
        inner, count = body_work(space, reduce.body), reduction_points(reduce)
        issued += count * (inner.issued + rate(source.accumulated(reduce)))
        lines += count * (inner.lines - 1)
        terms += count * max(1, inner.terms)
    return BodyWork(issued, lines, terms)


def _step_latency(cached: float, body: BodyWork, outputs: int) -> float:
    """Return the cycles of a read that waits: more where fewer of the reads are at hand."""
    read = max(1.0, body.lines * LINE * outputs / WARP_THREADS)
    return CACHE_LATENCY + MEMORY_LATENCY * min(1.0, cached / read)


@dataclass(frozen=True)
class RowOfOutputs:
    """Rows of `width` outputs along one of the levels, of which a block computes `threads`."""

    level: int
    width: int
    threads: int


class ThreadRowSpace(DeviceSpace):
    """Threads that compute rows of outputs, which share reads."""

    name = "thread rows"
    cards = {
        "level": StepCard("reorder", "the level that rows lie along"),
        "width": StepCard("tile", "outputs of a row", "they divide the level"),
        "threads": StepCard("parallel", "threads of a block"),
    }

    @cached_property
    def _levels(self) -> tuple[ThreadRows, ...]:
        return tuple(row_levels(self.source))

    def start(self) -> RowOfOutputs:
        return self._start

    @cached_property
    def _start(self) -> RowOfOutputs:
        usual = thread_rows(self.source)
        threads = self.unit.schedule.threads
        for number, rows in enumerate(self._levels):
            if usual is not None and rows.level == usual.level:
                return RowOfOutputs(number, usual.width, threads)
        return min(self.points(), key=self.cycles)

    def points(self) -> list[RowOfOutputs]:
        """Return all rows, for as many threads as the schedule says."""
        points: list[RowOfOutputs] = []
        for level in range(len(self._levels)):
            for width in WIDTHS:
                points.append(RowOfOutputs(level, width, self.unit.schedule.threads))
        return list(filter(self.fits, points))

    def choices(self) -> Choices:
        return {
            "level": range(len(self._levels)),
            "width": WIDTHS,
            "threads": THREADS,
        }

    def refusal(self, point: RowOfOutputs) -> str | None:
        if point.level not in range(len(self._levels)):
            return f"there are {len(self._levels)} levels along which outputs share reads"
        if not 0 < point.threads <= MAX_BLOCK_THREADS:
            return FEW_THREADS
        if point.width < 2 or self._levels[point.level].level.extent % point.width:
            return "a row has two outputs or more, whose number divides the level"
        return None

    def work(self, point: RowOfOutputs) -> KernelWork:
        source, rows = self.source, self._levels[point.level]
        count = count_points(source.plan.output) // point.width
        threads = min(point.threads, count)
        width, reduce = point.width, rows.reduce
        terms = reduction_points(reduce)
        issued = width * (instructions(reduce.body) + rate(source.accumulated(reduce)))
        lines = 0.0
        for access in set(accesses(reduce.body)):
            is_shared = all(rows.level.index not in form.indices for form in access.subscripts)
            times = 1 if is_shared else width
            issued += times * read_instructions(access)
            lines += times * warp_sectors(source, access, source.plan.output) / SECTORS_OF_LINE
        covered = covered_points(source.plan.output, threads * width)
        covered[rows.level.index] = max(covered[rows.level.index], width)
        cached = read_bytes(source, covered) + threads * width * element_size(source.output.dtype)
        one = BodyWork(issued, lines * terms, terms)
        return KernelWork(
            plain_resources(threads, 4 + 3 * width, source.accumulated(reduce)),
            -(-count // threads),
            issued * terms + index_instructions(source.plan.output) + 2 * width,
            lines * terms + width,
            MEMORY_LATENCY * 2 + terms / READS_IN_FLIGHT * _step_latency(cached, one, threads),
            cached,
            moved_bytes(source),
        )

    def point_of(self, plan: KernelPlan) -> RowOfOutputs | None:
        if not isinstance(plan, ThreadRowPlan):
            return None
        for number, rows in enumerate(self._levels):
            if rows.level == plan.rows.level:
                return RowOfOutputs(number, plan.rows.width, plan.threads)
        return None

    def plan(self, point: RowOfOutputs) -> ThreadRowPlan:
        source = self.unit.statement.contraction()
        rows = replace(list(row_levels(source))[point.level], width=point.width)
        return ThreadRowPlan(source, rows, point.threads)


def thread_row_space(unit: DeviceUnit, device: GpuModel) -> ThreadRowSpace | None:
    """Return the rows of a statement whose outputs share reads; None where none do."""
    if not prod(unit.scope.shape):
        return None
    space = ThreadRowSpace(unit, device)
    if not space.points():
        return None
    return space
