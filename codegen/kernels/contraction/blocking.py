"""Blocking of a contraction for the second cache and for threads: steps of depth, blocks, groups.

A `TilingPlan` holds a register tile for a contraction on a machine; `blocked_tiling` adds the
numbers of the loops around it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from codegen.hardware.cpu import CpuModel
from codegen.kernels.contraction.partition import Partition, Tiling
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.contraction.ranges import share_in_range
from codegen.kernels.cpu_costs import CPU_COSTS, CpuCostModel
from codegen.kernels.strided_axes import extent, used_tap_fraction


@dataclass(frozen=True)
class TilingPlan:
    """A register tile for a contraction on a machine, with the sizes that its cost depends on.

    Where it `is_blocked`, the loops around the tile are those of the tiling; else those that
    `blocked_tiling` is going to choose.
    """

    contraction: Contraction
    tiling: Tiling
    target: CpuModel
    costs: CpuCostModel = CPU_COSTS
    is_blocked: bool = False

    @cached_property
    def partition(self) -> Partition:
        return Partition(self.contraction, self.tiling)

    @cached_property
    def element_bytes(self) -> int:
        return self.contraction.element_bytes

    @cached_property
    def passes(self) -> int:
        """Return the passes of a vector through the units of the machine."""
        return self.target.passes(self.tiling.lanes, self.element_bytes)

    @cached_property
    def depth(self) -> int:
        """Return the products of a result."""
        return self.outer_depth * self.inner_depth

    @cached_property
    def outer_depth(self) -> int:
        """Return the extent of the summed axis that is cut into steps."""
        return self.contraction.outer_depth_extent

    @cached_property
    def inner_depth(self) -> int:
        return self.contraction.inner_depth_extent

    @cached_property
    def used_depth(self) -> float:
        """Return the products of a result that tiles compute, without what they leave out."""
        used = 1.0
        for window, positions in self.partition.windows:
            used *= used_tap_fraction(window, positions)
        c = self.contraction
        axes = (*c.batch, *c.rows, *c.columns, *c.depth)
        for within in c.ranges:
            used *= share_in_range(within, axes)
        return used * self.depth

    def single_row_steps(self, rows: int) -> float:
        """Return the products that single rows of a tile sum beside what all of its rows do."""
        steps = 0.0
        for within in self.contraction.ranges:
            for bound in (*within.lows, *within.highs):
                moved = sum(abs(bound.form.coefficient(axis.index)) for axis in self.partition.rows)
                steps += moved / bound.divisor * rows * (rows - 1) / 2
        return steps * self.depth / self.outer_depth

    @cached_property
    def needed_share(self) -> float:
        """Return the part of the results that tiles compute, without what nothing reads."""
        within, c = self.partition.needed_columns, self.contraction
        if within is None:
            return 1.0
        return share_in_range(within, (*c.batch, *c.rows, *c.columns))

    @cached_property
    def outer_rows(self) -> int:
        """Return the rows that are not walked as one."""
        return extent(self.partition.outer_rows)

    @property
    def row_tiles(self) -> int:
        """Return the tiles of rows, which all read each panel."""
        return self.outer_rows * self.partition.tiles

    @cached_property
    def outer_columns(self) -> int:
        """Return the columns that are walked one by one."""
        return extent(self.partition.outer_columns)

    @property
    def lines(self) -> int:
        """Return the columns that are walked in lines."""
        if self.partition.lines is None:
            return 1
        return self.partition.lines.extent

    @cached_property
    def width_vectors(self) -> int:
        """Return the vectors of a line of columns."""
        return -(-self.partition.width // self.tiling.lanes)


def blocked_tiling(plan: TilingPlan) -> Tiling:
    """Return the tiling with a group of panels in one half of the second cache, for some depth.

    The other half holds a block of rows.
    """
    t, cache = plan.tiling, plan.target.level2
    depth = -(-plan.outer_depth // depth_parts(plan, t.vectors * t.lines))
    lane_bytes = depth * plan.inner_depth * plan.element_bytes
    group = cache // _group_shares(plan) // (t.vectors * t.lines * t.lanes * lane_bytes)
    tiles = _blocked_tiles(plan)
    block = tiles
    if t.pack_left and not plan.contraction.left.ahead:
        block = cache // 2 // (t.rows * lane_bytes)
    usual = replace(
        t,
        depth=depth,
        block=max(1, min(block, tiles)),
        group=balanced_group(plan.outer_columns * _row_panels(plan), group, plan.target.cores),
    )
    return _with_separate_sums(plan, usual) or usual


def _row_panels(plan: TilingPlan) -> int:
    """Return the panels between two outer columns."""
    t = plan.tiling
    if t.lines > 1:
        return plan.lines // t.lines
    return -(-plan.partition.width // (t.vectors * t.lanes))


def _blocked_tiles(plan: TilingPlan) -> int:
    """Return how many tiles, or rows around them, blocks may be made of."""
    if plan.outer_rows == 1:
        return plan.partition.tiles
    return plan.contraction.rows[0].extent


def _group_shares(plan: TilingPlan) -> int:
    """Return the part of the second cache for a group: half, or less where the next is fetched."""
    if plan.contraction.right.ahead and plan.row_tiles < plan.costs.few_row_tiles:
        return 4
    return 2


def _with_separate_sums(plan: TilingPlan, usual: Tiling) -> Tiling | None:
    """Return a tiling whose steps of depth threads share.

    That pays where long sums have few results, which keep the cores less busy; None elsewhere.
    """
    c, target, costs = plan.contraction, plan.target, plan.costs
    cores = target.cores
    steps = -(-max(2 * cores, -(-plan.outer_depth // usual.depth)) // cores) * cores
    separate = replace(usual, depth=-(-plan.outer_depth // steps), apart=True)
    sum_bytes = extent((*c.rows, *c.columns)) * steps * plan.element_bytes
    if cores == 1 or sum_bytes > target.level2 // 2:
        return None
    if separate.depth * plan.inner_depth < costs.min_shared_products:
        return None
    utilization = Partition(c, separate).core_utilization(cores)
    if utilization > costs.min_sharing_gain * Partition(c, usual).core_utilization(cores):
        return separate
    return None


def depth_parts(plan: TilingPlan, vectors: int) -> int:
    """Return the parts of depth with which least moves between the second cache and memory.

    Every part reads and writes the results; `vectors` are those of a panel. One where sums cannot
    be kept in the result.
    """
    c = plan.contraction
    if not c.depth or c.target.buf.dtype != c.dtype:
        return 1
    panel_bytes = plan.depth * vectors * plan.tiling.lanes * plan.element_bytes
    smallest = -(-panel_bytes // (plan.target.level2 // 4))
    if smallest >= plan.outer_depth:
        return plan.outer_depth
    traffic = _memory_traffic(plan)
    if smallest <= 1 and traffic.width_bytes * plan.depth <= traffic.half_cache:
        return 1  # all columns stay in the cache: nothing moves twice

    def moved(parts: int) -> int:
        return traffic.elements(-(-plan.outer_depth // parts) * plan.inner_depth, parts)

    return min(range(smallest, 2 * smallest + 2), key=moved)


@dataclass(frozen=True)
class _MemoryTraffic:
    """Return the traffic between the second cache and memory: of the left operand, and of results.

    Results move so many times for each part of depth but one; the left operand once for as many
    columns, of `width_bytes` for each step of depth, as half of the cache holds.
    """

    left: int
    results: int
    result_moves: int
    width_bytes: int
    half_cache: int

    def elements(self, depth: int, parts: int) -> int:
        """Return the elements that move where parts of so much depth are summed one by one."""
        left_moves = -(-self.width_bytes * depth // self.half_cache)
        return self.left * left_moves + self.result_moves * self.results * (parts - 1)


def _memory_traffic(plan: TilingPlan) -> _MemoryTraffic:
    c = plan.contraction
    rows, width = c.batch_rows, c.columns_extent
    result_moves = plan.tiling.lanes  # results are transposed each time
    if c.columns[-1].target == 1:
        result_moves = 2
    left = min(rows * plan.depth, c.left_elements)
    width_bytes = width * plan.element_bytes
    return _MemoryTraffic(left, rows * width, result_moves, width_bytes, plan.target.level2 // 2)


def balanced_group(panels: int, largest: int, cores: int) -> int:
    """Return the panels of a group with which all cores are done soonest: the largest of these.

    >>> balanced_group(16, 12, 2), balanced_group(10, 2, 2), balanced_group(3, 8, 1)
    (8, 1, 3)
    """

    def cost(group: int) -> tuple[int, int]:
        return ceil(ceil(panels / group) / cores) * group, -group

    return min(range(1, max(1, min(largest, panels)) + 1), key=cost)
