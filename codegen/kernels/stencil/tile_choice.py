"""The choice of a stencil's register tile: the one of least cost of all that fit (design §10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from codegen.hardware.cpu import CpuModel
from codegen.kernels.cache_costs import cycles_of_line, touched_lines
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.stencil.problem import Phase, PhaseGroup, Stencil, TapRun, tap_runs
from codegen.kernels.strided_axes import even_tiles, extent
from einalg.language.ir.dtypes import numpy_dtype

SPARE_REGISTERS = 5  # for what is read and for weights
CHOICES = 4096  # of stencils, that are at hand: a program is compiled several times
MAX_UNROLLED_PRODUCTS = 256  # of vectors, that are written out in the innermost loop
BLOCKS_PER_CORE = 4  # so that threads end together


@dataclass(frozen=True)
class StencilTile:
    """The numbers of a nest.

    Elements of a vector; phases of positions, filters, lines and vectors of a tile; and tiles of a
    block.
    """

    lanes: int
    phases: int
    filters: int
    lines: int
    vectors: int
    block: int = 1

    @property
    def sums(self) -> int:
        """Return the vectors of sums of a tile."""
        return self.phases * self.filters * self.lines * self.vectors

    @property
    def width(self) -> int:
        """Return the positions of a panel."""
        return self.vectors * self.lanes

    def panels(self, positions: int) -> int:
        return -(-positions // self.width)


@lru_cache(CHOICES)
def choose_tile(stencil: Stencil, machine: CpuModel) -> tuple[StencilTile, float]:
    """Return the numbers that keep the machine's registers busiest, and the cycles of the nest."""
    tiles = list(_register_tiles(stencil, machine))
    if not tiles:
        lanes = machine.widths(numpy_dtype(stencil.dtype).itemsize)[0]
        tiles = [StencilTile(lanes, 1, 1, 1, 1)]
    best, fewest_cycles = None, 0.0
    for tile in tiles:
        blocked = _with_block(stencil, tile, machine)
        cycles = stencil_cycles(stencil, blocked, machine)
        if best is None or cycles < fewest_cycles:
            best, fewest_cycles = blocked, cycles
    assert best is not None
    return best, fewest_cycles


def is_small_enough(stencil: Stencil, tile: StencilTile, machine: CpuModel) -> bool:
    """Say whether the sums of a tile are in registers, and its products can be written out."""
    return refusal(stencil, tile, machine) is None


def refusal(stencil: Stencil, tile: StencilTile, machine: CpuModel) -> str | None:
    """Say in words why a tile is too large: its sums are not in registers, or its products too many
    to be written out. None where it is not; a single vector of sums never is.
    """
    if tile.sums == 1:
        return None
    unrolled_taps = max((1, *(len(phase.taps) for phase in stencil.above)))
    free = max(1, machine.registers - SPARE_REGISTERS)
    if tile.sums > free:
        return f"a tile of {tile.sums} vectors of sums needs as many registers, and {free} are free"
    products = tile.sums * unrolled_taps
    if products > MAX_UNROLLED_PRODUCTS:
        return f"{products} products would be written out, of which {MAX_UNROLLED_PRODUCTS} may be"
    return None


def _register_tiles(stencil: Stencil, machine: CpuModel) -> Iterator[StencilTile]:
    """Yield the tiles that are small enough."""
    registers = max(1, machine.registers - SPARE_REGISTERS)
    for lanes in machine.widths(numpy_dtype(stencil.dtype).itemsize):
        for phases, filters in _phases_and_filters(stencil, registers):
            vectors_left = registers // (phases * filters)
            most_vectors = min(-(-stencil.positions.extent // lanes), vectors_left)
            for vectors in range(1, most_vectors + 1):
                lines_left = registers // (phases * filters * vectors)
                for lines in range(1, min(stencil.lines.extent, lines_left) + 1):
                    tile = StencilTile(lanes, phases, filters, lines, vectors)
                    if is_small_enough(stencil, tile, machine):
                        yield tile


def _phases_and_filters(stencil: Stencil, registers: int) -> Iterator[tuple[int, int]]:
    for phases in even_shares(len(stencil.along), registers):
        for filters in even_shares(stencil.filters.extent, registers // phases):
            yield phases, filters


def even_shares(number: int, largest: int) -> list[int]:
    """Return the largest shares, at most so large, of all partitions of a number into even ones.

    >>> even_shares(10, 6)
    [1, 2, 3, 4, 5]
    """
    shares = {-(-number // count) for count in range(1, number + 1)}
    return sorted(share for share in shares if share <= largest)


def _with_block(stencil: Stencil, tile: StencilTile, machine: CpuModel) -> StencilTile:
    """Return a tile with blocks of such tiles whose data fill 1/4 of the second cache."""
    lines, positions = stencil.lines, stencil.positions
    elements = tile.panels(positions.extent) * tile.width * positions.step
    line_bytes = extent(stencil.channels) * elements * numpy_dtype(stencil.dtype).itemsize
    cached_lines = machine.level2 // 4 // max(1, line_bytes) - lines.reach
    cached_tiles = cached_lines // (tile.lines * lines.step)
    tiles = -(-lines.extent // tile.lines)
    shares = max(1, tiles * extent(stencil.batch) // (BLOCKS_PER_CORE * machine.cores))
    return replace(tile, block=max(1, min(cached_tiles, tiles, shares)))


# Cycles.


@dataclass(frozen=True)
class _TileCost:
    """The terms of a register tile's cost: of so many lines and some phases, for all channels."""

    stencil: Stencil
    tile: StencilTile
    machine: CpuModel
    lines: int
    above: Phase
    along: PhaseGroup

    @property
    def passes(self) -> int:
        return self.machine.passes(self.tile.lanes, numpy_dtype(self.stencil.dtype).itemsize)

    @property
    def met_lines(self) -> int:
        """Return the lines of data between the first and the last that the tile meets."""
        return (self.lines - 1) * self.stencil.lines.step + self.stencil.lines.reach

    @property
    def loads(self) -> int:
        """Return the vectors of data that a tap along the line meets."""
        met = set()
        for line in range(self.lines):
            for shift in self.above.shifts:
                met.add(self.stencil.lines.step * line + shift)
        return len(met) * self.tile.vectors

    def sums(self, run: TapRun) -> float:
        """Return the cycles of one tap of a run: products, or their latency, and loads."""
        costs, taps = CPU_COSTS, len(self.above.taps)
        results = len(run.weights) * self.tile.filters * self.lines * self.tile.vectors
        products = results * taps
        compute = self.passes * products / costs.products_per_cycle
        latency = costs.product_latency * taps
        load = self.passes * costs.load_beside_products * (2 * self.loads + products)
        return max(compute, latency) + load

    def store(self) -> float:
        """Return the cycles of storing the sums: in vectors, or element by element."""
        phases = len(self.along.phases)
        sums = phases * self.tile.filters * self.lines * self.tile.vectors
        target = self.stencil.positions.target
        if target == phases:
            return self.passes * sums * CPU_COSTS.store
        lines = self.tile.lanes * _line_share(self.stencil, target, self.machine)
        return sums * (self.passes * 2 * self.tile.lanes + lines)

    def fetch(self) -> float:
        """Return the cycles for lines of the copy that are not in the first cache."""
        s, tile = self.stencil, self.tile
        element_bytes = numpy_dtype(s.dtype).itemsize
        lines = extent(s.channels) * self.met_lines
        panels = tile.panels(s.positions.extent)
        line_elements = panels * tile.vectors * tile.lanes * s.positions.step
        missing = max(0.0, 1 - self.machine.level1 / (lines * line_elements * element_bytes))
        cache_lines = 1 + tile.vectors * tile.lanes * element_bytes / CPU_COSTS.line_bytes
        return CPU_COSTS.level2_line * missing * extent(s.channels) * self.met_lines * cache_lines

    def total(self) -> float:
        """Return the cycles of the tile."""
        sums = 0.0
        for run in tap_runs(self.stencil.positions, self.along.phases):
            sums += run.count * self.sums(run)
        return sums * extent(self.stencil.channels) + self.store() + self.fetch()


def stencil_cycles(stencil: Stencil, tile: StencilTile, machine: CpuModel) -> float:
    """Return the cycles of a nest: of its register tiles, and of the copies of lines."""
    tile = _needed_vectors(stencil, tile)
    panels = tile.panels(stencil.positions.extent)
    filters = -(-stencil.filters.extent // tile.filters)
    total = 0.0
    for lines, count in even_tiles(stencil.lines.extent, tile.lines):
        for above, along in stencil.parts(tile.phases):
            cost = _TileCost(stencil, tile, machine, lines, above, along)
            total += count * panels * filters * extent(along.axes) * cost.total()
        total += _copy_cycles(stencil, tile, machine, lines, count)
    return total * extent(stencil.batch)


def _needed_vectors(stencil: Stencil, tile: StencilTile) -> StencilTile:
    """Return a tile without the vectors beyond a line of positions.

    Nothing reads the sums of these, so a compiler leaves them out.
    """
    return replace(tile, vectors=min(tile.vectors, -(-stencil.positions.extent // tile.lanes)))


def _copy_cycles(
    stencil: Stencil, tile: StencilTile, machine: CpuModel, lines: int, count: int
) -> float:
    """Return the cycles of copying the data of so many tiles of lines."""
    axis, positions = stencil.lines, stencil.positions
    block_lines = max(0, (tile.block * lines - 1) * axis.step + axis.reach)
    copied_lines = -(-count // tile.block) * block_lines
    elements = copied_lines * extent(stencil.channels) * positions.data
    if positions.left == 1 and positions.step == 1:
        return elements * CPU_COSTS.copied_element
    near = CPU_COSTS.copied_element * abs(positions.left * positions.step)
    element = min(CPU_COSTS.gathered_element, near)
    return elements * (element + _line_share(stencil, positions.left, machine))


def _line_share(stencil: Stencil, step: int, machine: CpuModel) -> float:
    """Return the cycles for the line of an element, which others of its line are far from.

    Neighbours in memory belong to another batch then: they come when all positions are done.
    """
    size = numpy_dtype(stencil.dtype).itemsize
    if any(abs(axis.left) * size < CPU_COSTS.line_bytes for axis in stencil.channels):
        return 0.0
    elements = stencil.lines.extent * stencil.positions.extent
    used_bytes = touched_lines(elements, step, size) * CPU_COSTS.line_bytes
    return touched_lines(1, step, size) * cycles_of_line(used_bytes, machine)
