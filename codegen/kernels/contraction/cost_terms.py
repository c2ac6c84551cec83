"""The terms of a contraction's cost: each a function with its unit, cycles where none is named.

The inner loop of a register tile computes `rows` × `vectors` products of vectors in each step of
depth. A core overlaps what `STEP_LIMITS` count, so the slowest of them counts; `STEP_STALLS` are
what it waits for besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, prod

from codegen.kernels.contraction.blocking import TilingPlan, depth_parts
from codegen.kernels.strided_axes import Border, extent


@dataclass(frozen=True)
class TileStep:
    """One step of depth of a register tile."""

    plan: TilingPlan
    rows: int
    vectors: int

    @property
    def products(self) -> int:
        """Return the products of vectors."""
        return self.rows * self.vectors

    @property
    def operations(self) -> float:
        """Return the operations on vectors; a product and its sum are one."""
        return self.products * self.plan.contraction.operations

    @property
    def right_loads(self) -> int:
        """Return the loads of vectors: two where one may lie across two lines of the cache."""
        if self.plan.tiling.pack_right:
            return self.vectors
        return self.vectors * 2

    @property
    def right_bytes(self) -> int:
        return self.vectors * self.plan.tiling.lanes * self.plan.element_bytes


# One step of depth.


def compute(step: TileStep) -> float:
    """Return the cycles of the units that multiply and add."""
    return step.plan.passes * step.operations / step.plan.costs.products_per_cycle


def load(step: TileStep) -> float:
    """Return the cycles of the units that load vectors, and one element for each row."""
    loads = step.plan.passes * step.right_loads + step.rows
    return loads / step.plan.costs.loads_per_cycle


def issue(step: TileStep) -> float:
    """Return the cycles in which all instructions of a step begin, two for the loop among them."""
    instructions = step.operations + (step.right_loads + step.rows) + 2
    return instructions / step.plan.costs.instructions_per_cycle


def latency(step: TileStep) -> float:
    """Return the cycles until the sums of the step before can be added to."""
    return step.plan.costs.product_latency


def level2(step: TileStep) -> float:
    """Return the cycles in which panels come that the first cache has no room for."""
    if _panel_bytes(step) <= step.plan.target.level1:
        return 0.0
    return step.right_bytes / step.plan.costs.level2_bytes_per_cycle


def _panel_bytes(step: TileStep) -> float:
    """Return the bytes of the panels that a tile of rows meets before the next tile does."""
    plan = step.plan
    if not plan.is_blocked:
        return plan.used_depth * step.right_bytes
    return plan.used_depth / plan.partition.steps * step.right_bytes * plan.tiling.group


STEP_LIMITS: tuple[Callable[[TileStep], float], ...] = (compute, load, issue, latency, level2)


def conflicts(step: TileStep, busy: float) -> float:
    """Return the cycles for rows read in place that displace one another from the first cache.

    Lines that are a page apart are of one set.
    """
    plan = step.plan
    if plan.tiling.pack_left or not plan.contraction.rows:
        return 0.0
    row_bytes = plan.contraction.rows[-1].left * plan.element_bytes
    if not row_bytes:
        return 0.0
    page, line = plan.costs.page_bytes, plan.costs.line_bytes
    set_lines = plan.target.level1 // page
    if step.rows <= set_lines:
        return 0.0
    lines_of_sets = Counter(row * row_bytes % page // line for row in range(step.rows))
    displaced = sum(max(0, lines - set_lines) for lines in lines_of_sets.values())
    return plan.costs.conflict_miss * displaced


def memory(step: TileStep, busy: float) -> float:
    """Return the cycles for which a step waits for a right operand that is read in place.

    Steps that are far apart are new pages, which the processor does not see coming, and of which
    the second cache keeps few where they lie in the same sets.
    """
    plan, costs, c = step.plan, step.plan.costs, step.plan.contraction
    if plan.tiling.pack_right or not c.depth:
        return 0.0
    step_bytes = abs(c.depth[-1].right) * plan.element_bytes
    pages = min(1.0, step_bytes / costs.page_bytes)
    operand_bytes = extent((*c.columns, *c.depth)) * plan.element_bytes
    if operand_bytes <= plan.target.level2 // 2:
        return max(0.0, costs.page_miss * pages - busy)
    lines = -(-step.right_bytes // costs.line_bytes)
    wait = max(0.0, costs.memory_page * pages + costs.memory_line * lines - busy)
    return wait / _level2_reuses(plan, step_bytes)


def _level2_reuses(plan: TilingPlan, step_bytes: int) -> int:
    """Return how many tiles read a panel in place before the second cache loses it."""
    t, costs = plan.tiling, plan.costs
    if step_bytes < costs.line_bytes:
        return plan.row_tiles
    way_bytes = plan.target.level2 // costs.level2_ways
    kept_steps = costs.level2_ways * (way_bytes // gcd(step_bytes, way_bytes))
    if plan.depth <= kept_steps * depth_parts(plan, t.vectors * t.lines):
        return plan.row_tiles
    return 1


STEP_STALLS: tuple[Callable[[TileStep, float], float], ...] = (conflicts, memory)


def step_cycles(step: TileStep) -> float:
    """Return the cycles of a step: the slowest limit, and all stalls."""
    busy = max([limit(step) for limit in STEP_LIMITS])
    total = busy
    for stall in STEP_STALLS:
        total += stall(step, busy)
    return total


# One register tile.


def store(step: TileStep) -> float:
    """Return the cycles of storing a tile, and of reading and writing it between parts of depth."""
    plan, costs = step.plan, step.plan.costs
    columns_lie_apart = plan.contraction.columns[-1].target != 1
    if not plan.is_blocked:
        moves = 2 * depth_parts(plan, step.vectors) - 1
        if columns_lie_apart:
            return moves * _store_transposed(step)
        return moves * plan.passes * step.products * costs.store
    moves = 2 * plan.partition.steps - 1
    if columns_lie_apart:
        return moves * (_move_columns(step) + _displaced_columns(step) * costs.displaced_line)
    # Sums are read and written while products are computed; nothing hides the last ones.
    return plan.passes * step.products * (costs.store + (moves - 1) * costs.kept_sum)


def _move_columns(step: TileStep) -> float:
    """Return the cycles of moving a tile whose columns lie apart: a single row by its elements."""
    if step.rows == 1:
        return step.plan.costs.apart_element * step.products * step.plan.tiling.lanes
    return _store_transposed(step)


def _displaced_columns(step: TileStep) -> float:
    """Return the lines of a tile whose columns lie apart that displace one another.

    Columns whose distance has a high power of 2 in it are of few sets of the first cache.
    """
    plan, costs = step.plan, step.plan.costs
    column_bytes = abs(plan.contraction.columns[-1].target) * plan.element_bytes
    sets = max(1, costs.page_bytes // gcd(column_bytes, costs.page_bytes))
    columns = step.vectors * plan.tiling.lanes
    if columns <= sets * (plan.target.level1 // costs.page_bytes):
        return 0.0
    return columns * max(1.0, step.rows * plan.element_bytes / costs.line_bytes)


def _store_transposed(step: TileStep) -> float:
    """Return the cycles of storing a tile by its columns, in squares of as many rows as lanes.

    Where rows do not lie side by side either, each element is stored alone.
    """
    plan, lanes = step.plan, step.plan.tiling.lanes
    squares = -(-step.rows // lanes) * step.vectors
    cycles = plan.costs.transposed_element * squares * lanes**2
    rows = plan.partition.rows
    if len(rows) > 1 or any(axis.target != 1 for axis in rows):
        cycles += plan.costs.scattered_element * step.products * lanes
    return cycles


def tile_cycles(plan: TilingPlan, rows: int, vectors: int) -> float:
    """Return the cycles of a register tile."""
    step = TileStep(plan, rows, vectors)
    return plan.used_depth * step_cycles(step) + store(step) + start(step)


def start(step: TileStep) -> float:
    """Return the cycles of the loops over depth besides their steps.

    A row that sums something by itself waits for its sums, and its loop ends where nothing tells.
    """
    costs, steps = step.plan.costs, step.plan.single_row_steps(step.rows)
    if not steps:
        return costs.tile_start
    alone = max(costs.product_latency, step.vectors * step.plan.passes / costs.products_per_cycle)
    loops = step.rows + 1
    if step.plan.is_blocked:
        loops *= step.plan.partition.steps
    return steps * alone + loops * costs.tile_start


# Copies.


def pack_right_panel(plan: TilingPlan, vectors: int) -> float:
    """Return the cycles of copying a panel, for each block of rows; none if before the run."""
    if not plan.tiling.pack_right or plan.contraction.right.ahead:
        return 0.0
    if plan.is_blocked:
        return plan.partition.blocks * copy_panel(plan, vectors)
    return copy_panel(plan, vectors)


def copy_panel(plan: TilingPlan, vectors: int) -> float:
    """Return the cycles of copying so many vectors of columns for all of depth.

    For a single row, squares wait for the operand, of which nothing is read a second time.
    """
    costs = plan.costs
    if plan.partition.packs_squares and plan.contraction.rows:
        return costs.turned_element * vectors * plan.tiling.lanes * plan.depth
    if plan.tiling.column_axes > 1 or plan.contraction.columns[-1].right != 1:
        return costs.packed_element * vectors * plan.tiling.lanes * plan.depth
    return costs.packed_vector * plan.passes * vectors * plan.depth


def read_left(plan: TilingPlan, panels: int) -> float:
    """Return the cycles of copying the left operand, or of reading it out of order."""
    c, costs = plan.contraction, plan.costs
    elements = plan.depth * (plan.outer_rows * plan.partition.height)
    misses = _left_misses(plan, elements)
    if plan.tiling.pack_left:
        if c.left.ahead:
            return misses
        return misses + costs.packed_element * elements
    if not c.depth or abs(c.depth[-1].left) <= 1:
        return misses
    return misses + elements * panels * costs.strided_element


def _left_misses(plan: TilingPlan, elements: int) -> float:
    """Return the cycles for lines of the left operand that nothing asks the memory for early."""
    left_bytes = min(elements, plan.contraction.left_elements) * plan.element_bytes
    if left_bytes <= plan.target.level2:
        return 0.0
    return plan.costs.unpredicted_line * left_bytes / plan.costs.line_bytes


def copy_with_borders(plan: TilingPlan) -> float:
    """Return the cycles of copying operands with their borders."""
    total = 0.0
    for operand in (plan.contraction.left, plan.contraction.right):
        if operand.borders:
            lines = _places(operand.borders[:-1])
            elements = _places(operand.borders)
            total += plan.costs.bordered_line * lines
            total += elements / plan.costs.bordered_elements_per_cycle
    return total


def _places(borders: tuple[Border, ...]) -> int:
    """Return the elements of a copy with borders."""
    return prod(border.whole for border in borders)
