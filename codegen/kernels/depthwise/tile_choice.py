"""The choice of a depthwise convolution's register tile: the one of least cost (design §10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from codegen.hardware.cpu import CpuModel
from codegen.kernels.cache_costs import line_cycles
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.depthwise.problem import Depthwise, SpaceWindow
from codegen.kernels.strided_axes import even_tiles, extent

READ_REGISTERS = 1  # for what is read of the data
MAX_UNROLLED_PRODUCTS = 160  # of vectors, that are written out in the innermost loop
MAX_WRITTEN_PRODUCTS = 1200  # of vectors, in all parts of a line together
MAX_VECTORS = 4  # of neighbouring channels
MAX_POSITIONS = 8  # of a tile: longer bursts of stores gain nothing
MAX_STREAMED_POSITIONS = 4  # where results go to memory, which takes no longer bursts


@dataclass(frozen=True)
class DepthwiseTile:
    """The numbers of a nest.

    Elements of a vector; vectors of neighbouring channels and positions of a tile; taps along the
    line whose weights are in registers at once; and whether the data of the next line are asked
    for.
    """

    lanes: int
    vectors: int
    positions: int
    taps: int
    prefetches: bool = False

    @property
    def width(self) -> int:
        """Return the channels of a tile."""
        return self.lanes * self.vectors


@dataclass(frozen=True)
class TileRun:
    """Neighbouring tiles of so many positions each that read with the same taps.

    `taps` are those of each position.
    """

    first: int
    positions: int
    count: int
    taps: tuple[range, ...]

    @property
    def products(self) -> int:
        """Return the products of a tile."""
        return sum(map(len, self.taps))

    def elements(self, axis: SpaceWindow, taps: range) -> frozenset[int]:
        """Return the elements that the positions of a tile meet with some taps.

        Elements are counted from that of the first position and the first tap.
        """
        return _met_elements(self.taps, axis.window.stride, axis.window.dilation, taps)

    def uses(self, axis: SpaceWindow, taps: range) -> dict[int, list[tuple[int, int]]]:
        """Return the positions and taps of a tile that meet each of the `elements`."""
        elements: dict[int, list[tuple[int, int]]] = {}
        for position, nonzero in enumerate(self.taps):
            for tap in taps:
                if tap in nonzero:
                    element = position * axis.window.stride + tap * axis.window.dilation
                    elements.setdefault(element, []).append((position, tap))
        return dict(sorted(elements.items()))


@lru_cache(maxsize=4096)
def _met_elements(
    position_taps: tuple[range, ...], stride: int, dilation: int, taps: range
) -> frozenset[int]:
    """Return the elements that positions meet with those of their taps that are among some."""
    elements = set[int]()
    for position, nonzero in enumerate(position_taps):
        first = position * stride
        low, high = max(nonzero.start, taps.start), min(nonzero.stop, taps.stop)
        elements.update(range(first + low * dilation, first + high * dilation, dilation))
    return frozenset(elements)


@lru_cache(maxsize=1024)
def tile_runs(axis: SpaceWindow, largest: int) -> tuple[TileRun, ...]:
    """Return the tiles of an axis, of so many positions at most, those that are alike as runs.

    >>> from codegen.kernels.strided_axes import BorderWindow
    >>> from einalg.language.index.affine import Index
    >>> window = BorderWindow(Index("w"), Index("s"), 12, 3, 1, 1, 1, 12)
    >>> runs = tile_runs(SpaceWindow(window, 1, 1, (1,)), 3)
    >>> [(run.first, run.positions, run.count, run.products) for run in runs]
    [(0, 3, 1, 8), (3, 3, 2, 9), (9, 3, 1, 8)]
    """
    runs: list[TileRun] = []
    first = 0
    for positions, count in even_tiles(axis.window.positions, largest):
        for _ in range(count):
            taps = tuple(axis.nonzero_taps(first + place) for place in range(positions))
            if runs and runs[-1].taps == taps:
                runs[-1] = replace(runs[-1], count=runs[-1].count + 1)
            else:
                runs.append(TileRun(first, positions, 1, taps))
            first += positions
    return tuple(runs)


def choose_tile(problem: Depthwise, machine: CpuModel) -> tuple[DepthwiseTile, float] | None:
    """Return the numbers that keep the machine's registers busiest, and the cycles of the nest.

    None where no vector is as short as the channels, or too much would be written out.
    """
    best, fewest_cycles = None, 0.0
    for tile in _tiles(problem, machine):
        cycles = depthwise_cycles(problem, tile, machine)
        if best is None or cycles < fewest_cycles:
            best, fewest_cycles = tile, cycles
    if best is None:
        return None
    prefetches = _moved_bytes(problem) > machine.level2
    return replace(best, prefetches=prefetches), fewest_cycles


def _tiles(problem: Depthwise, machine: CpuModel) -> Iterator[DepthwiseTile]:
    """Yield the tiles that fit into the registers, and whose products can be written out."""
    window = problem.positions.window
    longest = MAX_POSITIONS
    if _moved_bytes(problem) > machine.level3:
        longest = MAX_STREAMED_POSITIONS
    for lanes in widths(problem, machine):
        for vectors in range(1, min(MAX_VECTORS, problem.lane.extent // lanes) + 1):
            free = machine.registers // vectors - READ_REGISTERS
            if free < 2:
                break
            for taps in sorted({min(window.taps, free // 2), min(window.taps, free - 1)}):
                most = min(window.positions, free - taps, longest)
                for positions in range(1, most + 1):
                    tile = DepthwiseTile(lanes, vectors, positions, taps)
                    if fits(problem, tile, machine):
                        yield tile


def fits(problem: Depthwise, tile: DepthwiseTile, machine: CpuModel) -> bool:
    """Say whether a tile fits into the registers, and its products can be written out."""
    return refusal(problem, tile, machine) is None


def refusal(problem: Depthwise, tile: DepthwiseTile, machine: CpuModel) -> str | None:
    """Say in words why a tile is too large: for what it computes, the registers, or to be written
    out. None where it is not.
    """
    window = problem.positions.window
    if min(tile.vectors, tile.positions, tile.taps) < 1:
        return "each number is at least 1"
    if tile.taps > window.taps or tile.positions > window.positions:
        return f"a line has {window.positions} positions, and the window {window.taps} taps"
    if tile.width > problem.lane.extent:
        return f"a tile of {tile.width} channels is wider than all {problem.lane.extent}"
    needed = (tile.positions + tile.taps + READ_REGISTERS) * tile.vectors
    if needed > machine.registers:
        return (
            f"sums, weights and data of a tile need {needed} registers, "
            f"and there are {machine.registers}"
        )
    products = tile.positions * tile.vectors * window.taps
    if products > MAX_UNROLLED_PRODUCTS:
        return f"{products} products would be written out, of which {MAX_UNROLLED_PRODUCTS} may be"
    runs = tile_runs(problem.positions, tile.positions)
    written = sum(run.products for run in runs) * tile.vectors
    if written > MAX_WRITTEN_PRODUCTS:
        return (
            f"{written} products would be written out in all parts of a line, "
            f"of which {MAX_WRITTEN_PRODUCTS} may be"
        )
    return None


def widths(problem: Depthwise, machine: CpuModel) -> list[int]:
    """Return the elements of vectors that are no longer than the channels.

    Those of the machine's registers, or of a part of one where there are fewer channels.
    """
    channels = problem.lane.extent
    widths = machine.widths(problem.element_bytes)
    if channels >= widths[-1]:
        return [width for width in widths if width <= channels]
    return [width for width in (8, 4, 2) if width <= channels][:1]


# Cycles.


def depthwise_cycles(problem: Depthwise, tile: DepthwiseTile, machine: CpuModel) -> float:
    """Return the cycles of a nest: of its register tiles, and of what comes from the caches."""
    lines = _outer_positions(problem)
    blocks = -(-problem.lane.extent // tile.width)
    total = 0.0
    for run in tile_runs(problem.positions, tile.positions):
        total += run.count * _tile_cycles(problem, tile, machine, run)
    total *= extent(problem.batch) * lines * blocks
    return total + _cache_cycles(problem, machine) + _packing_cycles(problem)


def _outer_positions(problem: Depthwise) -> int:
    """Return the lines of a batch."""
    return prod(axis.window.positions for axis in problem.outer)


def _line_taps(problem: Depthwise) -> float:
    """Return the taps of a line across it, in the mean, for all channels that are summed."""
    taps = prod(axis.products for axis in problem.outer)
    return extent(problem.channels) * taps / max(1, _outer_positions(problem))


def _tile_cycles(problem: Depthwise, tile: DepthwiseTile, machine: CpuModel, run: TileRun) -> float:
    """Return the cycles of a register tile: of all its steps, and of its stores."""
    costs, axis = CPU_COSTS, problem.positions
    passes = machine.passes(tile.lanes, problem.element_bytes)
    taps = axis.window.taps
    loads = 0.0
    for first in range(0, taps, tile.taps):
        some = range(first, min(taps, first + tile.taps))
        loads += len(some) + len(run.elements(axis, some)) * _lines_of_load(problem, tile, passes)
    loads *= passes * tile.vectors
    products = passes * run.products * tile.vectors
    compute = products / costs.products_per_cycle
    load = loads / costs.loads_per_cycle
    latency = costs.product_latency * max(map(len, run.taps), default=0)
    beside = costs.load_beside_products * loads
    displaced = _displaced_lines(problem, run.elements(axis, range(taps)), machine)
    store = passes * run.positions * tile.vectors * costs.overlapped_store
    if problem.epilogue is not None:
        store *= 2
    steps = _line_taps(problem) * (max(compute, load, latency) + beside)
    return steps + store + displaced * costs.displaced_line + _runs_cycles(problem, machine, run)


def _runs_cycles(problem: Depthwise, machine: CpuModel, run: TileRun) -> float:
    """Return the cycles for lines that come from memory, of each position some neighbours.

    The more channels a tile has of a position, the fewer such runs of lines there are.
    """
    if _moved_bytes(problem) <= machine.level2:
        return 0.0
    elements = len(run.elements(problem.positions, range(problem.positions.window.taps)))
    lines = elements * prod(axis.window.taps for axis in problem.outer)
    return CPU_COSTS.run_of_lines * (lines + run.positions)


def _displaced_lines(problem: Depthwise, elements: Collection[int], machine: CpuModel) -> int:
    """Return the lines of a tile's data that displace one another from the first cache.

    Channels that follow next lie in the same lines, or in their neighbours.
    """
    page, line = CPU_COSTS.page_bytes, CPU_COSTS.line_bytes
    row_bytes = [row * problem.element_bytes for row in _met_lines(problem.outer)]
    step = problem.positions.left * problem.element_bytes
    places = [row + element * step for row in row_bytes for element in elements]
    sets = Counter([place % page // line for place in places])
    set_lines = max(1, machine.level1 // page)
    return sum(max(0, lines - set_lines) for lines in sets.values())


def _met_lines(axes: Sequence[SpaceWindow]) -> list[int]:
    """Return where the lines begin that a position meets across its own, in elements."""
    begins = [0]
    for axis in axes:
        step = axis.window.dilation * axis.left
        begins = [begin + tap * step for begin in begins for tap in range(axis.window.taps)]
    return begins


def _lines_of_load(problem: Depthwise, tile: DepthwiseTile, passes: int) -> float:
    """Return the lines of the cache that one pass of a load meets, wherever the data begin."""
    pass_bytes = tile.lanes * problem.element_bytes / passes
    return 1 + pass_bytes / CPU_COSTS.line_bytes


def _cache_cycles(problem: Depthwise, machine: CpuModel) -> float:
    """Return the cycles for lines of data and results that are not in the first cache.

    A line is met again by the windows of the next positions, of which the first cache may have
    lost the data.
    """
    line_bytes = problem.positions.window.inside * problem.lane.extent * problem.element_bytes
    met_lines = prod(axis.window.taps for axis in problem.outer)
    data_bytes, moved_bytes = _data_bytes(problem), _moved_bytes(problem)
    again = max(0, met_lines - 1) * line_cycles(data_bytes, met_lines * line_bytes, machine)
    return again + line_cycles(moved_bytes, moved_bytes, machine)


def _data_bytes(problem: Depthwise) -> int:
    """Return the bytes of the data."""
    elements = extent((*problem.batch, problem.lane, *problem.channels))
    for axis in (*problem.outer, problem.positions):
        elements *= axis.window.inside
    return elements * problem.element_bytes


def _moved_bytes(problem: Depthwise) -> int:
    """Return the bytes of the data and the results."""
    results = extent((*problem.batch, problem.lane))
    for axis in (*problem.outer, problem.positions):
        results *= axis.window.positions
    return _data_bytes(problem) + results * problem.element_bytes


def _packing_cycles(problem: Depthwise) -> float:
    """Return the cycles of packing weights that are not known before a run."""
    if not problem.packs_weights or problem.right.ahead:
        return 0.0
    return CPU_COSTS.packed_element * extent(problem.weight_axes)
