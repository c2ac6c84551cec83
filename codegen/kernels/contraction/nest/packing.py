"""The copies that a contraction's loop nest reads (design §10).

These are borders of zeros, tiles of rows, and panels of columns. Panels and tiles of an operand
that is a compile-time constant lie one after the other in a buffer of their own, which is filled
once, before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from codegen.ir.builder import LANE, LoopBuilder
from codegen.ir.nodes import Bound, Buf, Function, Number, Ref, Store, Transpose
from codegen.kernels.contraction.nest.builder import (
    BLOCK,
    LINE,
    STEP,
    VECTOR,
    ColumnPanel,
    I,
    PartitionWalk,
    RowTile,
    Source,
    place_number,
    valid_vectors,
    whole_vectors,
)
from codegen.kernels.contraction.nest.tile_ranges import summed_ranges
from codegen.kernels.contraction.partition import Partition
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.strided_axes import Border, StridedAxis, StridedOperand, extent, offset
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine


def buffer_names(c: Contraction) -> list[str]:
    """Return the names of the buffers of a contraction that exist outside of its loop nest."""
    operands = (c.left, *c.left.others, c.right, *c.right.others, c.target, *c.epilogue_operands)
    return list(dict.fromkeys(operand.buf.name for operand in operands))


@dataclass(frozen=True)
class PackedLayout:
    """Where the pieces of operands that are packed before the run lie in their buffers.

    `result` is the name of the function's result, after which buffers are named; `names` are taken.
    """

    partition: Partition
    result: str
    names: tuple[str, ...]

    @property
    def block_elements(self) -> int:
        """Return the elements of the tiles of a block, for one step of depth."""
        p = self.partition
        return min(p.tiling.block, p.tiles) * p.step_depth * p.tiling.rows

    @property
    def panel_elements(self) -> int:
        """Return the elements of a panel, for one step of depth."""
        p, t = self.partition, self.partition.tiling
        width = min(t.vectors, -(-p.width // t.lanes)) * t.lanes
        if p.lines:
            width *= min(t.lines, p.lines.extent)
        return p.step_depth * width

    def is_packed(self, side: str) -> bool:
        """Whether an operand is packed before the run."""
        c, t = self.partition.contraction, self.partition.tiling
        if side == "left":
            return c.left.ahead and t.pack_left
        return c.right.ahead and t.pack_right

    def buffer(self, side: str) -> Buf:
        """Return the buffer of an operand that is packed before the run."""
        p = self.partition
        elements = p.blocks * self.block_elements
        if side == "right":
            elements = extent(p.outer_columns) * p.panels * self.panel_elements
        used_names = set(self.names)
        if side == "right" and self.is_packed("left"):
            used_names.add(self.buffer("left").name)
        name = f"{getattr(p.contraction, side).buf.name}_for_{self.result}"
        while name in used_names:
            name += "_"
        size = extent(self.batch_axes(side)) * p.steps * elements
        return Buf(name, (size,), p.contraction.dtype)

    def batch_axes(self, side: str) -> list[StridedAxis]:
        """Return the batch axes along which an operand moves."""
        return [axis for axis in self.partition.contraction.batch if axis.step(side)]

    def tiles_begin(self) -> Affine:
        """Return where the tiles of a block and a step of depth begin."""
        axes = self.batch_axes("left")
        for index, count in ((BLOCK, self.partition.blocks), (STEP, self.partition.steps)):
            if count > 1:
                axes.append(StridedAxis(index, count))
        return place_number(axes) * self.block_elements

    def panel_begin(self, panel: ColumnPanel) -> Affine:
        """Return where a panel of a step of depth begins."""
        p = self.partition
        outer = place_number([*self.batch_axes("right"), *p.outer_columns])
        place = (outer * p.panels + panel.number) * p.steps
        if p.steps > 1:
            place = place + affine(STEP)
        return place * self.panel_elements


# Copies with borders.


def operand_source(
    w: LoopBuilder, operand: StridedOperand, name: str, batch: Sequence[StridedAxis], kind: str
) -> Source:
    """Return where an operand of a name is read in one batch: in place, or in a copy with borders.

    `kind` is that of the outermost loop of the copy.
    """
    own, *others = _in_place(operand, name, batch)
    if not operand.borders:
        return replace(own, others=tuple(others))
    size = prod(border.whole for border in operand.borders)
    copy = w.local("bordered", (size,), operand.buf.dtype)
    _copy_with_borders(w, Source(copy, affine(0)), own, operand.borders, kind)
    return Source(copy, affine(0), tuple(others))


def _in_place(operand: StridedOperand, name: str, batch: Sequence[StridedAxis]) -> list[Source]:
    """Return where an operand of a name, and what its prologue reads besides, begin in a batch."""
    sources: list[Source] = []
    for side, read in zip(operand.sides(name), (operand, *operand.others)):
        sources.append(Source(read.flat, offset(batch, side) + read.offset))
    return sources


def _copy_with_borders(
    w: LoopBuilder,
    copy: Source,
    source: Source,
    borders: Sequence[Border],
    kind: str,
    depth: int = 0,
) -> None:
    """Copy what is inside the borders, and write zeros before and after it."""
    if not borders:
        w.put(Ref(copy.buf, (copy.begin,)), "=", Ref(source.buf, (source.begin,)))
        return
    border, *others = borders
    inner = prod(b.whole for b in others)
    _write_zeros(w, copy, border.before * inner)
    if not others:
        kind = "vec"
    with w.loop(Index(f"a{depth}"), border.extent, kind=kind) as index:
        to = Source(copy.buf, copy.begin + (index + border.before) * inner)
        read = Source(source.buf, source.begin + index * border.stride)
        _copy_with_borders(w, to, read, others, "seq", depth + 1)
    after = Source(copy.buf, copy.begin + (border.before + border.extent) * inner)
    _write_zeros(w, after, border.after * inner)


def _write_zeros(w: LoopBuilder, to: Source, count: int) -> None:
    if count:
        with w.loop(LANE, count, kind="vec") as lane:
            w.put(Ref(to.buf, (to.begin + lane,)), "=", Number(0, to.buf.dtype))


# Tiles and panels.


def pack_left(walk: PartitionWalk, left: Source, packed: Source) -> None:
    """Copy the tiles of rows of a block for one step of depth, as far as they are summed."""
    axes = walk.p.depth_axes

    def copy(tile: RowTile, place: Affine) -> None:
        to = Ref(packed.buf, (packed.begin + walk.in_tiles(tile, place),))
        walk.w.put(to, "=", walk.left_value(left, tile, axes))

    for tile in walk.row_tiles():
        ranges = {within.index: within.widest for within in summed_ranges(walk.p, tile)}
        if walk.p.rows and walk.p.rows[-1].left == 1:
            with walk.depth(axes, ranges=ranges) as place, walk.w.loop(I, tile.rows, kind="vec"):
                copy(tile, place)
        else:
            with walk.w.loop(I, tile.rows), walk.depth(axes, ranges=ranges) as place:
                copy(tile, place)


def pack_right(
    walk: PartitionWalk,
    right: Source,
    packed: Buf,
    panels: tuple[Affine, Bound],
    begin: Callable[[ColumnPanel], Affine],
) -> None:
    """Copy some panels of equal form, each to where it begins."""
    columns = walk.p.columns
    is_row = len(columns) == 1 and columns[0].right == 1
    is_copy = walk.c.right.prologue is None
    if is_row and is_copy and walk.c.right.buf.dtype == walk.c.dtype:
        _pack_vectors(walk, right, packed, panels, begin)
    elif walk.p.packs_squares:
        _pack_squares(walk, right, packed, panels, begin)
    elif is_row and not is_copy:
        _pack_rows(walk, right, packed, panels, begin)
    else:
        _pack_elements(walk, right, packed, panels, begin)


def _pack_vectors(
    walk: PartitionWalk,
    right: Source,
    packed: Buf,
    panels: tuple[Affine, Bound],
    begin: Callable[[ColumnPanel], Affine],
) -> None:
    """Copy columns that are neighbours in memory side by side, for each element of depth."""
    axes = walk.p.depth_axes
    with walk.depth(axes) as place, walk.panel(*panels) as panel:
        to = Ref(packed, (begin(panel) + walk.in_panel(panel, place),))
        if panel.width % panel.lanes:
            walk.w.out += whole_vectors(panel, 1, Store(to, "=", Number(0, walk.c.dtype)))
        read = walk.right_element(right, panel, walk.column(panel), axes)
        walk.w.out += valid_vectors(panel, 1, Store(to, "=", read))


def _pack_rows(
    walk: PartitionWalk,
    right: Source,
    packed: Buf,
    panels: tuple[Affine, Bound],
    begin: Callable[[ColumnPanel], Affine],
) -> None:
    """Compute columns that are neighbours in memory side by side, for each element of depth."""
    axes, w = walk.p.depth_axes, walk.w
    with walk.depth(axes) as place, walk.panel(*panels) as panel, w.loop(LINE, panel.lines) as line:
        line_elements = panel.vectors * panel.lanes
        start = begin(panel) + place * panel.elements + line * line_elements
        with w.loop(LANE, panel.width, kind="vec") as lane:
            read = walk.right_value(right, panel, panel.column + lane, axes)
            w.put(Ref(packed, (start + lane,)), "=", read)
        if panel.width < line_elements:
            with w.loop(LANE, line_elements, panel.width, kind="vec") as lane:
                w.put(Ref(packed, (start + lane,)), "=", Number(0, walk.c.dtype))


def _pack_squares(
    walk: PartitionWalk,
    right: Source,
    packed: Buf,
    panels: tuple[Affine, Bound],
    begin: Callable[[ColumnPanel], Affine],
) -> None:
    """Copy columns that lie apart, of which neighbours in memory are neighbours in depth."""
    axes, w, size = walk.p.depth_axes, walk.w, walk.t.lanes
    *outer, depth = axes
    runs = (*outer, replace(depth, right=depth.right * size))
    step = walk.p.columns[-1].right
    rest = depth.extent % size
    with walk.panel(*panels) as panel, w.loop(LINE, panel.lines) as line:
        for first, count, rows in panel.parts():
            with w.loop(VECTOR, first + count, first) as vector:
                column = panel.column + vector * size
                start = begin(panel) + (line * panel.vectors + vector) * size
                with walk.depth(runs, run=size) as place:
                    to = Ref(packed, (start + place * panel.elements,))
                    read = walk.right_element(right, panel, column, runs)
                    w.out.append(Transpose(read, step, rows, size, to, panel.elements))
                if not rest:
                    continue
                ends = {depth.index: (affine(depth.extent - rest), affine(depth.extent))}
                with walk.depth(axes, ranges=ends) as place:
                    to = Ref(packed, (start + place * panel.elements + affine(LANE),))
                    if rows < size:
                        w.lanes(Store(to, "=", Number(0, walk.c.dtype)), size)
                    with w.loop(LANE, rows) as lane:
                        read = walk.right_element(right, panel, column + lane, axes)
                        w.put(to, "=", read)


def _pack_elements(
    walk: PartitionWalk,
    right: Source,
    packed: Buf,
    panels: tuple[Affine, Bound],
    begin: Callable[[ColumnPanel], Affine],
) -> None:
    """Copy columns one by one, and zeros beyond the last one."""
    axes, w = walk.p.depth_axes, walk.w
    with walk.panel(*panels) as panel, w.loop(LINE, panel.lines) as line:
        line_elements = panel.vectors * panel.lanes
        for low, high in ((0, panel.width), (panel.width, line_elements)):
            if low == high:
                continue
            with w.loop(LANE, high, low) as lane, walk.depth(axes) as place:
                inside = place * panel.elements + line * line_elements + lane
                to = Ref(packed, (begin(panel) + inside,))
                if low:
                    w.put(to, "=", Number(0, walk.c.dtype))
                else:
                    read = walk.right_value(right, panel, panel.column + lane, axes)
                    w.put(to, "=", read)


# Functions that pack before the run.


def inputs_and_packs(layout: PackedLayout) -> tuple[list[Buf], list[Function]]:
    """Return the buffers that a loop nest reads, and the functions that pack some of them."""
    c = layout.partition.contraction
    inputs: list[Buf] = []
    packs: list[Function] = []
    for side, operand in (("left", c.left), ("right", c.right)):
        if layout.is_packed(side):
            inputs.append(layout.buffer(side))
            packs.append(packing_function(layout, side))
        else:
            inputs += [operand.buf, *(other.buf for other in operand.others)]
    inputs += [operand.buf for operand in c.epilogue_operands]
    return inputs, packs


def packing_function(layout: PackedLayout, side: str) -> Function:
    """Return the function that packs an operand before the run."""
    p = layout.partition
    c = p.contraction
    operand: StridedOperand = getattr(c, side)
    packed = layout.buffer(side)
    w = LoopBuilder(layout.names)
    walk = PartitionWalk(w, p)
    source = Source(operand.flat, operand.offset + offset(c.batch, side))  # has no others
    with w.loops(layout.batch_axes(side)), walk.optional_loop(STEP, p.steps):
        if side == "left":
            with walk.optional_loop(BLOCK, p.blocks):
                pack_left(walk, source, Source(packed, layout.tiles_begin()))
        else:
            with w.loops(p.outer_columns):
                for first, stop, _ in walk.panel_runs():
                    pack_right(walk, source, packed, (first, stop), layout.panel_begin)
    comment = f"{operand.buf.name}, packed for {layout.result}"
    return Function(packed.name, (operand.buf,), packed, tuple(w.out), comment)
