"""Prefetches of a contraction: what later steps read, and a tile's results (design §10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from codegen.ir.builder import LANE
from codegen.ir.nodes import Prefetch, Ref
from codegen.kernels.contraction.nest.builder import (
    BLOCK,
    LINE,
    VECTOR,
    ColumnPanel,
    I,
    PartitionWalk,
    RowTile,
    Source,
    place_number,
)
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.strided_axes import StridedAxis, extent, merged
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import numpy_dtype


@dataclass(frozen=True)
class PrefetchPolicy:
    """When and how far ahead the caches are asked for what is used later."""

    lead_cycles: int = 200  # between a prefetch and its use
    pending_bytes: int = 8192  # that are under way at most, and that the first cache surely keeps
    unpredicted_stride_bytes: int = 512  # between steps, from which on no hardware sees them coming
    min_tile_depth: int = 64  # products of a result, from which on a tile asks for its results
    large_result_bytes: int = 1 << 22  # of all results, from which on it always does
    streamed_bytes: int = 1 << 20  # of an operand, from which on it comes from memory
    few_panels: int = 8  # that a tile meets, beyond which it seldom waits for its rows
    max_row_bytes: int = 2048  # of rows that end before a processor sees them coming


PREFETCH = PrefetchPolicy()


@dataclass(frozen=True)
class TilePrefetch:
    """Writes the prefetches of one register tile."""

    walk: PartitionWalk
    panel: ColumnPanel
    tile: RowTile

    @property
    def _element_bytes(self) -> int:
        return numpy_dtype(self.walk.c.dtype).itemsize

    def results(self, target: Ref) -> None:
        """Have the cache fetch the results of the tile, where its sums take long enough.

        Where all results are more than caches hold, nothing else asks for them in time.
        """
        p = self.walk.p
        result_bytes = prod(target.buf.shape) * numpy_dtype(target.dtype).itemsize
        is_large = result_bytes >= PREFETCH.large_result_bytes
        if p.columns[-1].target != 1 or (p.step_depth < PREFETCH.min_tile_depth and not is_large):
            return
        line_vectors = max(1, _line_elements(target.dtype) // self.walk.t.lanes)
        for row in range(self.tile.rows):
            for line in range(self.panel.lines):
                for vector in range(0, self.panel.vectors, line_vectors):
                    self._result(target, row, line, vector)

    def _result(self, target: Ref, row: int, line: int, vector: int) -> None:
        place = {I: affine(row), LINE: affine(line), VECTOR: affine(vector), LANE: affine(0)}
        subscripts = tuple(subscript.substitute(place) for subscript in target.subscripts)
        self.walk.w.out.append(Prefetch(Ref(target.buf, subscripts), write=True))

    def packed_panel(self, panel: Source, place: Affine) -> None:
        """Have the first cache fetch what a later step reads of a panel that is not in it."""
        elements = self.panel.elements
        if self.walk.p.step_depth * elements * self._element_bytes <= PREFETCH.pending_bytes:
            return
        begin = panel.begin + place * elements
        later = begin + self._lead_steps() * elements
        for element in range(0, elements, _line_elements(self.walk.c.dtype)):
            self.walk.w.out.append(Prefetch(Ref(panel.buf, (later + element,))))

    def next_panels(self, panel: Source, place: Affine, panel_elements: int) -> None:
        """Have the second cache fetch the next panels, while few tiles walk over this one."""
        p, t = self.walk.p, self.walk.t
        if p.whole_panels > t.group:
            following = t.group * p.steps
        elif p.steps > 1:
            following = 1
        else:
            return
        visits = self._visits()
        if not 1 < visits < CPU_COSTS.few_row_tiles:
            return
        step = self._visit() * p.step_depth + place
        part = -(-self.panel.elements // visits)
        begin = panel.begin + following * panel_elements + step * part
        for element in range(0, part, _line_elements(self.walk.c.dtype)):
            self.walk.w.out.append(Prefetch(Ref(panel.buf, (begin + element,)), level=2))

    def columns_in_place(self, right: Source, axes: Sequence[StridedAxis]) -> None:
        """Have the second cache fetch what a later step reads of an operand in place.

        That pays where few tiles read it, in steps that the processor does not see coming. The
        first cache often has all of them in few of its sets.
        """
        inner, steps = axes[-1], self._lead_steps()
        if self._visits() >= CPU_COSTS.few_row_tiles or inner.extent <= 2 * steps:
            return
        if abs(inner.right) * self._element_bytes < PREFETCH.unpredicted_stride_bytes:
            return
        for line in range(self.panel.lines):
            for element in range(0, self.panel.width, _line_elements(self.walk.c.dtype)):
                column = self.panel.column + element
                read = self.walk.right_element(right, self.panel, column, axes)
                place = read.subscripts[0].substitute({LINE: affine(line)}) + steps * inner.right
                self.walk.w.out.append(Prefetch(replace(read, subscripts=(place,)), level=2))

    def next_rows(self, left: Source, axes: Sequence[StridedAxis]) -> None:
        """Have a cache fetch the rows of the next tile, where they come from memory in short runs.

        Each step of depth asks for as many elements as it reads, row after row.
        """
        walk, p, size = self.walk, self.walk.p, self._element_bytes
        depth = p.step_depth
        if len(axes) > 1 or axes[0].left != 1 or p.steps > 1 or len(merged(p.rows, "left")) != 1:
            return
        operand_bytes = walk.c.left_elements * size
        if operand_bytes < PREFETCH.streamed_bytes or depth * size > PREFETCH.max_row_bytes:
            return
        if min(walk.t.group, p.panels) > PREFETCH.few_panels:
            return
        level = 1
        if self.tile.rows * depth * size > PREFETCH.pending_bytes:
            level = 2
        line = _line_elements(walk.c.dtype)
        read = walk.left_element(left, self.tile, axes)
        for element in range(0, self.tile.rows, line):
            later = affine(axes[0].index) * self.tile.rows + element
            at = {I: later // depth + self.tile.rows, axes[0].index: later % depth}
            place = tuple(subscript.substitute(at) for subscript in read.subscripts)
            walk.w.out.append(Prefetch(Ref(read.buf, place), level=level))

    def _lead_steps(self) -> int:
        """Return how many steps of depth before its use a part of a panel is fetched."""
        elements = self.panel.elements
        lead = -(-2 * PREFETCH.lead_cycles * self.walk.t.lanes // (self.tile.rows * elements))
        return min(lead, max(1, PREFETCH.pending_bytes // (elements * self._element_bytes)))

    def _visits(self) -> int:
        """Return how many tiles of a block read each panel."""
        p = self.walk.p
        return extent(p.outer_rows) * p.tiles // p.blocks

    def _visit(self) -> Affine:
        """Return the number of the tile among these."""
        p, first = self.walk.p, affine(0)
        if p.blocks > 1 and not p.outer_rows:
            first = affine(BLOCK) * self.walk.t.block
        return place_number(p.outer_rows) * p.tiles + self.tile.number - first


def _line_elements(dtype: str) -> int:
    """Return the elements of a line of the cache."""
    return max(1, CPU_COSTS.line_bytes // numpy_dtype(dtype).itemsize)
