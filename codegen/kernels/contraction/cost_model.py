"""The choice of a contraction's tiling: the one of least cost of all that fit (design §10).

The cost is a number of cycles, the sum of the terms in `codegen.kernels.contraction.cost_terms`
with the coefficients of `codegen.kernels.cpu_costs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from codegen.hardware.cpu import CpuModel, machine
from codegen.kernels.contraction.blocking import TilingPlan, blocked_tiling
from codegen.kernels.contraction.cost_terms import (
    copy_panel,
    copy_with_borders,
    pack_right_panel,
    read_left,
    tile_cycles,
)
from codegen.kernels.contraction.partition import Partition, Tiling
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.strided_axes import StridedAxis, even_tiles, extent, merged
from einalg.language.index.affine import Index
from einalg.language.ir.dtypes import numpy_dtype

PLANS = 4096  # of contractions, that are at hand: a program is compiled several times


def plan(
    contraction: Contraction, target: CpuModel | None = None
) -> tuple[Contraction, Tiling] | None:
    """Return the order of the operands and the tiling that cost least.

    None where no axis of columns can be laid side by side.

    >>> from codegen.ir.nodes import Buf
    >>> from codegen.kernels.strided_axes import StridedOperand
    >>> a, b, c = (StridedOperand(Buf(name, (64, 64), "f32"), 0) for name in "ABC")
    >>> m = StridedAxis(Index("m"), 64, 64, 0, 64)
    >>> n = StridedAxis(Index("n"), 64, 0, 1, 1)
    >>> k = StridedAxis(Index("k"), 64, 1, 64, 0)
    >>> plan(Contraction(a, b, c, (), (m,), (n,), (k,), "f32"), CpuModel(64, 32))[1].lanes
    16
    """
    return _best_plan(contraction, target or machine())


@lru_cache(PLANS)
def _best_plan(contraction: Contraction, target: CpuModel) -> tuple[Contraction, Tiling] | None:
    best = min(_plans(contraction, target), key=total_cycles, default=None)
    if best is None:
        return None
    return best.contraction, blocked_tiling(best)


def ranked(
    contraction: Contraction, target: CpuModel | None = None
) -> list[tuple[Contraction, Tiling]]:
    """Return every order of the operands with every tiling, the one of least cost first."""
    plans = sorted(_plans(contraction, target or machine()), key=total_cycles)
    return [(plan.contraction, blocked_tiling(plan)) for plan in plans]


def products_per_cycle(
    contraction: Contraction, tiling: Tiling, target: CpuModel | None = None
) -> float:
    """Return the speed that the model expects of a loop nest; a machine's best is two vectors."""
    plan = TilingPlan(contraction, tiling, target or machine(), is_blocked=True)
    return contraction.work / total_cycles(plan)


def _plans(contraction: Contraction, target: CpuModel) -> list[TilingPlan]:
    plans = []
    for order in orders(contraction):
        for tiling in tilings(order, target):
            plans.append(TilingPlan(order, tiling, target))
    return plans


# Orders of operands and axes.


def orders(contraction: Contraction) -> list[Contraction]:
    """Return the contraction in every order of its operands and axes.

    Axes of windows are merged with others, or stay as they are; the last order is the one without
    a written border, if there is one.
    """
    c = contraction
    if c.is_bare:
        return [ordered(c)]
    variants = [c]
    if c.windows:
        variants = [replace(c, windows=()), c]
    results = []
    for variant in variants:
        both = (ordered(variant), ordered(variant.swapped()))
        results += [each for each in both if not each.has_ranges_of_columns]
    if c.bare:
        results.append(ordered(c.bare))
    return results


def ordered(contraction: Contraction) -> Contraction:
    """Sort axes as they lie in memory, and merge those that lie like one.

    Those of windows and ranges stay as they are. Without a written border, positions of windows
    come first.
    """
    c = contraction
    window_axes = {index for window in c.windows for index in (window.position, window.tap)}
    kept = window_axes | c.bound_indices
    unwritten = {window.position for window in c.windows if not window.written}
    stored, left, right = c.stored_sides, c.left.sides("left"), c.right.sides("right")
    batch = _by_step(c.batch, "target", unwritten)
    rows = _by_step(c.rows, "target", unwritten)
    columns = _by_step(c.columns, "target", unwritten)
    depth = _by_step(c.depth, "left", unwritten)
    return replace(
        c,
        batch=merged(batch, *left, *right, *stored, but=c.bound_indices),
        rows=merged(rows, *left, *stored, but=kept),
        columns=merged(columns, *right, *stored, but=kept),
        depth=merged(depth, *left, *right, but=kept),
        bare=None,
    )


def _by_step(axes: Sequence[StridedAxis], side: str, first: Collection[Index]) -> list[StridedAxis]:
    """Sort axes by their steps in an operand, the longest outermost, after those in `first`."""

    def place(axis: StridedAxis) -> tuple[bool, int]:
        return axis.index not in first, -abs(axis.step(side))

    return sorted(axes, key=place)


# Tilings.


def tilings(c: Contraction, target: CpuModel) -> Iterator[Tiling]:
    """Yield every register tile that the registers of a machine allow."""
    if not c.columns:
        return
    for row_axes, pack_left in _row_variants(c):
        for column_axes, pack_right in _column_variants(c):
            usual = Tiling(
                lanes=1,
                rows=1,
                vectors=1,
                row_axes=row_axes,
                column_axes=column_axes,
                pack_left=pack_left,
                pack_right=pack_right,
            )
            for tiling in _register_tiles(c, target, usual):
                partition = Partition(c, tiling)
                if not (partition.reads_borders or partition.merges_ranges):
                    yield tiling


def _row_variants(c: Contraction) -> Iterator[tuple[int, bool]]:
    """Yield how many inner axes of rows are walked as one, and whether the operand is packed."""
    if c.is_in_place(c.left):
        yield 1, False
    if not c.is_bare:
        yield max(1, len(c.rows)), True


def _column_variants(c: Contraction) -> Iterator[tuple[int, bool]]:
    """Yield how many inner axes of columns are walked as one, and whether the operand is packed.

    Where packing makes no difference to the model, the packed one comes first.
    """
    yield 1, True
    inner = c.columns[-1]
    if inner.right == 1 and inner.target == 1 and c.is_in_place(c.right):
        yield 1, False
    for number in range(2, len(c.columns) + 1):
        if len(merged(c.columns[-number:], "target")) == 1:
            yield number, True


def _register_tiles(c: Contraction, target: CpuModel, usual: Tiling) -> Iterator[Tiling]:
    """Yield the tiles of all sizes that fit into the registers."""
    width = extent(c.columns[-usual.column_axes :])
    height = extent(c.rows[len(c.rows) - usual.row_axes :])
    registers = target.registers - c.held_registers
    for lanes in target.widths(numpy_dtype(c.dtype).itemsize):
        largest = registers // min(2, height)
        for vectors, lines in _panel_sizes(c, -(-width // lanes), usual.column_axes, largest):
            most_rows = max(1, registers // (vectors * lines) - 1)
            fewest_tiles = -(-height // most_rows)
            for rows in sorted({-(-height // fewest_tiles), -(-height // (fewest_tiles + 1))}):
                yield replace(usual, lanes=lanes, rows=rows, vectors=vectors, lines=lines)


def _panel_sizes(
    c: Contraction, vectors: int, column_axes: int, largest: int
) -> Iterator[tuple[int, int]]:
    """Yield the vectors of a line in a panel, and the lines of a panel."""
    for width in range(1, min(vectors, largest) + 1):
        yield width, 1
    if len(c.columns) > column_axes and vectors:
        lines = c.columns[-column_axes - 1].extent
        for number in range(2, min(lines, largest // vectors) + 1):
            yield vectors, number


# The sum of the terms.


def total_cycles(plan: TilingPlan) -> float:
    """Return the cost of the whole contraction, in cycles."""
    t = plan.tiling
    lines = -(-plan.lines // t.lines)
    panels = plan.outer_columns * lines * -(-plan.width_vectors // t.vectors)
    return extent(plan.contraction.batch) * (
        plan.outer_columns * _panels_cycles(plan)
        + read_left(plan, panels)
        + copy_with_borders(plan)
    )


def _panels_cycles(plan: TilingPlan) -> float:
    """Return the cycles of all panels between two outer columns."""
    t = plan.tiling
    full, last = divmod(plan.width_vectors, t.vectors)
    has_part = not t.pack_right and plan.partition.width % t.lanes
    total = 0.0
    for lines, line_count in ((t.lines, plan.lines // t.lines), (plan.lines % t.lines, 1)):
        if not lines * line_count:
            continue
        for vectors, count in ((t.vectors, full), (last, 1)):
            if vectors * count:
                total += line_count * count * _panel_cycles(plan, lines * vectors)
        if has_part:  # what fills no vector is copied all the same
            total += line_count * copy_panel(plan, lines * (last or t.vectors))
    return total


def _panel_cycles(plan: TilingPlan, vectors: int) -> float:
    """Return the cycles of a panel with all tiles of rows."""
    tiles: float = 0
    for rows, count in even_tiles(plan.partition.height, plan.tiling.rows):
        tiles += count * tile_cycles(plan, rows, vectors)
    return plan.needed_share * plan.outer_rows * tiles + pack_right_panel(plan, vectors)
