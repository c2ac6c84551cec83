"""Products in tiles that a block stages in shared memory, by whatever multiplies them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar

from codegen.hardware.gpu import WARP_THREADS, GpuModel, KernelResources
from codegen.ir.types import WIDE
from codegen.lowering.loop_plan import LoopLevel
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import MAX_SHARED_BYTES, VECTOR_BYTES
from codegen.targets.cuda.lowering.plans import KernelPlan, TiledPlan
from codegen.targets.cuda.lowering.products.contraction import (
    MIN_DEPTH,
    BlockedProduct,
    ContractionSource,
    TileChoice,
    blocked_product,
)
from codegen.targets.cuda.lowering.products.shared_staging import staged_shape, terms_are_adjacent
from codegen.targets.cuda.lowering.threads.points import count_points
from codegen.targets.cuda.lowering.threads.schedule import (
    REGISTER_BYTES,
    AnyTile,
)
from codegen.tuning.spaces.cuda.body_cost import instructions, read_instructions, reads
from codegen.tuning.spaces.cuda.device_cost import (
    BARRIER_CYCLES,
    LINE,
    MEMORY_LATENCY,
    SCHEDULERS,
    KernelWork,
)
from codegen.tuning.spaces.cuda.memory_traffic import moved_bytes
from codegen.tuning.spaces.cuda.statement import (
    DeviceSpace,
    DeviceUnit,
    bounded_registers,
)
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import ladder

STALLS = 1.3  # cycles of an instruction that multiplies, with what it waits for
SPARE_REGISTERS = 1.3  # for each that is counted: what a compiler needs to spill none
SIDES = (16, 32, 48, 64, 96, 128, 192, 256)
DEPTHS = (4, 8, 16, 32, 64)
# Instructions for the place of what is staged: as it is, for each further loop, beside an edge.
OF_STAGED, OF_DIGIT, OF_EDGE = 3.0, 5.0, 4.0


TILE_CARDS = {
    "rows": StepCard("tile", "rows of a block", "they divide among its threads"),
    "columns": StepCard("tile", "columns of a block", "they divide among its threads"),
    "depth": StepCard("stage", "terms that are staged at a time", "shared memory holds them"),
    "parts": StepCard("parallel", "blocks that share a sum", "each has a step of its own"),
}


class TileSpace(DeviceSpace):
    """Products in tiles, in the `number`th of the coordinates in which a statement is one."""

    point_type: ClassVar[type[Any]]
    tile_type: ClassVar[type[Any]]

    def __init__(self, unit: DeviceUnit, device: GpuModel, number: int, product: BlockedProduct):
        super().__init__(unit, device)
        self.number, self.product = number, product
        self.factor_dtype = ""  # where registers sum

    @cached_property
    def source(self) -> ContractionSource:
        return self.new_source()

    def new_source(self) -> ContractionSource:
        """Return the statement in these coordinates, in which no kernel was written yet."""
        return list(self.unit.statement.contractions())[self.number]

    @property
    @abstractmethod
    def dtype(self) -> str:
        """Return the type of what is staged."""

    @abstractmethod
    def usual_tiles(self) -> Iterator[Any]:
        """Yield the tiles that the schedule lists, each for one block a sum."""

    @abstractmethod
    def step_work(self, point: Any) -> tuple[float, float]:
        """Return what a warp issues for the products of a step, and the lines that it reads."""

    @cached_property
    def counts(self) -> tuple[int, int, int, int]:
        """Return the rows, the columns, the terms of a sum, and the products of a batch."""
        product = self.product
        rows, columns = count_points(product.rows), count_points(product.columns)
        return rows, columns, count_points(product.depth), count_points(product.batch)

    @property
    def pays(self) -> bool:
        """Say whether tiles may pay: the smallest of them is not half empty."""
        rows, columns, depth, _ = self.counts
        if depth < MIN_DEPTH or 2 * min(rows, columns) < SIDES[0]:
            return False
        return any(True for _ in self.usual_tiles())

    def start(self) -> Any:
        return self._start

    @cached_property
    def _start(self) -> Any:
        """Return the cheapest of the tiles that the schedule lists, with any number of parts."""
        points: list[Any] = []
        for tile in self.usual_tiles():
            for parts in ladder(self._most_parts):
                points.append(replace(tile, parts=parts))
        return min(filter(self.fits, points), key=self.cycles)

    @cached_property
    def _accumulated(self) -> str:
        """Return the type in which a thread sums."""
        return self.source.accumulated(self.product.reduce)

    @cached_property
    def _most_parts(self) -> int:
        if self._accumulated == WIDE:
            return 1
        return self.unit.schedule.max_parts

    def refusal(self, point: Any) -> str | None:
        if min(vars(point).values()) < 1:
            return "each number is 1 or more"
        tile: AnyTile = point.tile
        if tile.threads % WARP_THREADS:
            return "a block has whole warps"
        if not tile.is_legal(self.dtype) or self.shared_bytes(point) > MAX_SHARED_BYTES:
            return f"a tile divides evenly among threads, in {MAX_SHARED_BYTES} bytes"
        rows, columns, depth, _ = self.counts
        if tile.rows >= 2 * max(rows, SIDES[0]) or tile.columns >= 2 * max(columns, SIDES[0]):
            return "the tile is twice as large as the product"
        if point.parts > self._most_parts or (point.parts > 1 and point.parts * tile.depth > depth):
            return "each block has a step of its own, and not so many share a sum"
        needed = tile.registers(self.dtype) + self._entry_registers(tile)
        if SPARE_REGISTERS * needed > self._register_bound(tile):
            return "the sums of a thread do not fit into its registers"
        return None

    def _register_bound(self, tile: AnyTile) -> int:
        """Return the registers of a thread as the kernel bounds them."""
        size = max(REGISTER_BYTES, element_size(self._accumulated))
        fetched = sum(entries * width for entries, width in self._entries(tile))
        private = self._fragment_bytes(tile) + (tile.sums + fetched) * size
        return bounded_registers(tile.threads, int(private))

    @abstractmethod
    def _fragment_bytes(self, tile: Any) -> float:
        """Return the bytes of a thread's part of both factors, as these are multiplied."""

    def _entry_registers(self, tile: AnyTile) -> int:
        """Return the registers for places of narrow elements that are fetched one by one."""
        if element_size(self.dtype) >= REGISTER_BYTES:
            return 0
        return sum(2 * entries for entries, width in self._entries(tile) if width == 1)

    def _entries(self, tile: AnyTile) -> list[tuple[int, int]]:
        """Return how often a thread fetches from each factor, and how many neighbours at once."""
        entries: list[tuple[int, int]] = []
        for factor, levels, count in self._sides(tile):
            width = self._fetch_width(factor, levels, tile, count)
            entries.append((-(-count * tile.depth // (width * tile.threads)), width))
        return entries

    def _sides(self, tile: AnyTile) -> tuple[tuple[Any, tuple[LoopLevel, ...], int], ...]:
        """Return each factor with its levels of the output, and the points of them in a tile."""
        product = self.product
        return (
            (product.left, product.rows, tile.rows),
            (product.right, product.columns, tile.columns),
        )

    def shared_bytes(self, point: Any) -> int:
        """Return the bytes of a block's shared memory."""
        tile: AnyTile = point.tile
        size, total = element_size(self.dtype), self._stored_bytes(tile)
        steps = -(-self.counts[2] // (tile.depth * point.parts))
        for factor, _, count in self._sides(tile):
            adjacent = self._keeps_terms_adjacent(factor)
            staged = size * prod(staged_shape(count, tile.depth, steps, self.dtype, adjacent))
            total += -(-staged // VECTOR_BYTES) * VECTOR_BYTES
        return total

    def _stored_bytes(self, tile: Any) -> int:
        """Return the bytes of shared memory that results pass through."""
        return 0

    def _keeps_terms_adjacent(self, factor: Any) -> bool:
        """Say whether terms of a factor lie side by side in shared memory."""
        return False

    def work(self, point: Any) -> KernelWork:
        tile: AnyTile = point.tile
        rows, columns, depth, batch = self.counts
        steps = -(-depth // (tile.depth * point.parts))
        blocks = -(-rows // tile.rows) * -(-columns // tile.columns) * batch * point.parts
        issued, lines = self.step_work(point)
        issued *= STALLS
        staged, staged_lines = self._staged_work(tile)
        elements = (tile.rows + tile.columns) * tile.depth
        size = element_size(self.source.output.dtype)
        latency = MEMORY_LATENCY + 2 * BARRIER_CYCLES
        warps = -(-tile.threads // WARP_THREADS)
        alone = (issued + staged) * -(-warps // SCHEDULERS)
        # A step waits for what it fetches where its products take less time.
        waiting = max(0.0, latency - alone)
        registers = min(tile.registers(self.dtype), self._register_bound(tile))
        return KernelWork(
            KernelResources(tile.threads, registers, self.shared_bytes(point)),
            blocks,
            steps * (issued + staged) + tile.sums * self._output_instructions,
            steps * (lines + staged_lines) + tile.sums,
            latency + MEMORY_LATENCY + steps * (waiting + BARRIER_CYCLES),
            steps * elements * self._factor_size + tile.rows * tile.columns * size,
            moved_bytes(self.source),
        )

    @cached_property
    def _output_instructions(self) -> float:
        """Return what a thread does to store one of its sums."""
        levels = len(self.source.plan.output)
        return 4 + OF_DIGIT * levels + instructions(self.source.scope.body)

    @cached_property
    def _factor_size(self) -> int:
        sizes = [
            element_size(access.tensor.dtype)
            for factor in (self.product.left, self.product.right)
            for access in reads(factor)
        ]
        return max(sizes, default=4)

    def _staged_work(self, tile: AnyTile) -> tuple[float, float]:
        """Return what a warp issues to fetch and place a part of both factors, and the lines."""
        issued, lines = 0.0, 0.0
        for (factor, levels, count), (entries, width) in zip(
            self._sides(tile), self._entries(tile), strict=True
        ):
            each = instructions(factor) * width + OF_STAGED
            each += sum(read_instructions(access) for access in reads(factor)) + width
            each += OF_DIGIT * (len(levels) + len(self.product.depth) - 2)
            if count_points(levels) % count or self.counts[2] % tile.depth:
                each += OF_EDGE
            size = width * element_size(self.dtype) * WARP_THREADS / LINE
            issued += entries * each
            lines += entries * 2 * max(1.0, size)
        return issued, lines

    def _fetch_width(
        self, factor: Any, levels: tuple[LoopLevel, ...], tile: AnyTile, count: int
    ) -> int:
        """Return how many neighbours a thread fetches at once."""
        along, size = levels, count
        if terms_are_adjacent(self.source, factor, self.product.depth):
            along, size = self.product.depth, tile.depth
        if not along:
            return 1
        width = VECTOR_BYTES // element_size(self.dtype)
        while width > 1 and (along[-1].extent % width or size % width):
            width //= 2
        return max(1, width)

    def added_bytes(self, point: Any) -> float:
        return self.bytes_of_parts(point.parts, self._accumulated)

    def point_of(self, plan: KernelPlan) -> Any:
        if not isinstance(plan, TiledPlan) or not isinstance(plan.choice.tile, self.tile_type):
            return None
        return self.point_type(*vars(plan.choice.tile).values(), plan.choice.parts)

    def plan(self, point: Any) -> TiledPlan:
        source = self.new_source()
        product = blocked_product(source)
        assert product is not None
        choice = TileChoice(point.tile, point.parts)
        return TiledPlan(source, product, choice, self.factor_dtype)
