"""The loop nest of a contraction: panels of columns, tiles of rows, sums in registers (design §10).

    for each batch, block of rows, and steps of depth
      copy the left operand into tiles                        (where its order asks for it)
      for each group of panels of columns
        copy the right operand into panels                    (the same)
        for each tile of rows, and each panel
          sum rows x vectors in registers, and store them

What does not fill a vector is loaded and stored element by element of the same nest: there are no
guards. Operands that are compile-time constants are copied by functions of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.ir.builder import LANE, LoopBuilder
from codegen.ir.nodes import Alloc, Apply, Bound, Buf, Function, Ref, Store
from codegen.kernels.contraction.nest.builder import (
    BLOCK,
    GROUP,
    LINE,
    STEP,
    VECTOR,
    ColumnPanel,
    I,
    PartitionWalk,
    RowTile,
    Source,
    row_vectors,
    whole_vectors,
)
from codegen.kernels.contraction.nest.packing import (
    PackedLayout,
    buffer_names,
    inputs_and_packs,
    operand_source,
    pack_left,
    pack_right,
)
from codegen.kernels.contraction.nest.prefetch import TilePrefetch
from codegen.kernels.contraction.nest.tile_ranges import TileRange, needed_panels, summed_ranges
from codegen.kernels.contraction.nest.tile_store import TileStore
from codegen.kernels.contraction.partition import K, Partition, Tiling, has_index
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.epilogue import epilogue_value
from codegen.kernels.strided_axes import (
    StridedAxis,
    StridedOperand,
    extent,
    merged,
    offset,
)
from einalg.errors import CodegenError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

# Vectors of so many bytes are added to an element as that is read. What something is subtracted
# from is read before that: instead, the negative of the vector is held.
BROADCASTING_BYTES = 64


def contraction_function(
    contraction: Contraction, tiling: Tiling, comment: str = "", parallel: bool = False
) -> Function:
    """Return the function that computes a contraction.

    Threads share its blocks of rows, or its panels, where `parallel`. Raises `CodegenError` for a
    tiling that asks to walk rows or columns as one that are not.
    """
    return joint_function([(contraction, tiling)], comment, parallel)


def joint_function(
    parts: Sequence[tuple[Contraction, Tiling]], comment: str = "", parallel: bool = False
) -> Function:
    """Return the function that computes contractions which store parts of one result."""
    target = parts[0][0].target.buf
    names: dict[str, None] = {}
    for contraction, tiling in parts:
        if not tiling.fits(contraction):
            raise CodegenError(
                f"{tiling} does not fit the contraction {comment}\n"
                "  use one of codegen.kernels.contraction.cost_model.tilings"
            )
        names.update(dict.fromkeys(buffer_names(contraction)))
    w = LoopBuilder(names)
    bufs: list[Buf] = []
    packs: list[Function] = []
    for contraction, tiling in parts:
        partition = Partition(contraction, tiling)
        layout = PackedLayout(partition, target.name, tuple(names))
        _write_batches(w, layout, _loop_kinds(partition, parallel))
        given, own_packs = inputs_and_packs(layout)
        bufs += given
        packs += own_packs
        names.update(dict.fromkeys(pack.output.name for pack in own_packs))
    inputs = {buf.name: buf for buf in bufs}
    return Function(
        target.name, tuple(inputs.values()), target, tuple(w.out), comment, tuple(packs)
    )


# Threads.


@dataclass(frozen=True)
class LoopKinds:
    """The kinds of the loops of a nest, `par` for those that threads share, else `seq`.

    `steps` are those of depth with separate sums, `copies` the copies with borders, and `rows` the
    tiles of rows where the loops around these are not shared.
    """

    batches: str = "seq"
    blocks: str = "seq"
    copies: str = "seq"
    steps: str = "seq"
    columns: str = "seq"
    groups: str = "seq"
    rows: str = "seq"


def _loop_kinds(partition: Partition, parallel: bool) -> LoopKinds:
    if not parallel:
        return LoopKinds()
    shared = partition.shared
    if shared == "blocks":
        if partition.shared_blocks > 1:
            return LoopKinds(batches="par", blocks="par")
        return LoopKinds(batches="par")
    inner = LoopKinds(copies="par", rows="par")
    if shared == "depth":
        return replace(inner, steps="par")
    if shared == "columns":
        return replace(inner, columns="par")
    if shared == "groups":
        return replace(inner, groups="par")
    return inner


# From the outside inwards.


def _write_batches(w: LoopBuilder, layout: PackedLayout, kinds: LoopKinds) -> None:
    """Write the loops over batches."""
    with w.loops(layout.partition.contraction.batch, kinds.batches):
        write_batch(w, layout, kinds)


def write_batch(w: LoopBuilder, layout: PackedLayout, kinds: LoopKinds) -> None:
    """Write one batch: the copies with borders and the blocks of rows."""
    p = layout.partition
    c = p.contraction
    left = operand_source(w, c.left, "left", c.batch, kinds.copies)
    right = operand_source(w, c.right, "right", c.batch, kinds.copies)
    if p.has_separate_sums:
        _write_separate_sums(w, layout, left, right, kinds)
        return
    block = _Block(w, p, layout, left, right, kinds)
    with block.optional_loop(BLOCK, p.blocks, kinds.blocks), block.optional_loop(STEP, p.steps):
        block.write()


def _write_separate_sums(
    w: LoopBuilder, layout: PackedLayout, left: Source, right: Source, kinds: LoopKinds
) -> None:
    """Write every step of depth to a result of its own, which threads share; then their sum."""
    p = layout.partition
    c = p.contraction
    size = extent((*c.rows, *c.columns))
    sums = w.local("sums", (p.steps * size,), c.dtype)
    batch = [replace(axis, target=0, epilogue_steps=()) for axis in c.batch]
    step = StridedAxis(STEP, p.steps, target=size)
    separate = replace(
        c,
        target=StridedOperand(sums, 0),
        batch=(*batch, step),
        rows=_dense(c.rows, extent(c.columns)),
        columns=_dense(c.columns),
        epilogue=None,
    )
    block = _Block(w, Partition(separate, p.tiling), layout, left, right, LoopKinds())
    with w.loop(STEP, p.steps, kind=kinds.steps), block.optional_loop(BLOCK, p.blocks):
        block.write()
    with w.loop(STEP, p.steps, 1) as number, w.loop(LANE, size, kind="vec") as lane:
        w.put(Ref(sums, (lane,)), c.reduction, Ref(sums, (number * size + lane,)))
    _store_dense(w, c, Ref(sums, (offset((*separate.rows, *separate.columns), "target"),)))


def _dense(axes: Sequence[StridedAxis], step: int = 1) -> tuple[StridedAxis, ...]:
    """Return axes whose results lie one after the other, the innermost `step` elements apart."""
    results: list[StridedAxis] = []
    for axis in reversed(axes):
        results.insert(0, replace(axis, target=step, epilogue_steps=()))
        step *= axis.extent
    return tuple(results)


def _store_dense(w: LoopBuilder, c: Contraction, total: Ref) -> None:
    """Write sums that lie in order to the result."""
    axes = (*c.rows, *c.columns)
    places = []
    for side, operand in zip(c.stored_sides, (c.target, *c.epilogue_operands)):
        place = offset((*c.batch, *axes), side) + operand.offset
        places.append(Ref(operand.flat, (place,)))
    target, *others = places
    value = epilogue_value(c.epilogue, total, others)
    with w.loops(axes[:-1]), w.loop(axes[-1].index, axes[-1].extent, kind="vec"):
        w.put(target, "=", value)


class _Block(PartitionWalk):
    """Writes one step of depth of a block of rows."""

    def __init__(
        self,
        w: LoopBuilder,
        partition: Partition,
        layout: PackedLayout,
        left: Source,
        right: Source,
        kinds: LoopKinds,
    ):
        super().__init__(w, partition, kinds.groups)
        self.layout, self.left, self.right, self.kinds = layout, left, right, kinds

    def write(self) -> None:
        left = self._left_tiles()
        with self.w.loops(self.p.outer_columns, self.kinds.columns):
            for first, stop, count in self.panel_runs():
                self._panels(first, stop, count, left)

    def _left_tiles(self) -> Source | None:
        """Return where the tiles of rows are packed; None where they are read in place."""
        if self.layout.is_packed("left"):
            return Source(self.layout.buffer("left"), self.layout.tiles_begin())
        if not self.t.pack_left:
            return None
        buf = self.w.local("tiles", (self.layout.block_elements,), self.c.dtype)
        tiles = Source(buf, affine(0))
        pack_left(self, self.left, tiles)
        return tiles

    def _panels(self, first: Affine, stop: Bound, count: int, left: Source | None) -> None:
        """Write all rows of a block with some panels, at most `count`."""
        right = self._right_panels(first, stop, count)
        kind = "seq"
        if not self.p.outer_columns and GROUP not in first.indices:
            kind = self.kinds.rows  # threads share no groups
        if not self.p.outer_rows:
            self._row_tiles(first, stop, left, right, kind)
            return
        outer, *others = self.p.outer_rows
        low, high = self.block_range(outer.extent)
        low_value = 0
        if not low.terms:
            low_value = low.const
        known = low_value, outer.extent
        with self.w.loop(outer.index, high, low, kind, known), self.w.loops(others):
            self._row_tiles(first, stop, left, right, "seq")

    def _right_panels(self, first: Affine, stop: Bound, count: int) -> Buf | None:
        """Return the buffer where the panels are packed; None where they are read in place."""
        if self.layout.is_packed("right"):
            return self.layout.buffer("right")
        panel = self.numbered_panel(first, first)
        if not self.t.pack_right and panel.width % self.t.lanes == 0:
            return None
        size = count * self.p.step_depth * panel.elements
        buf = self.w.local("panels", (size,), self.c.dtype)
        pack_right(self, self.right, buf, (first, stop), self._panel_begin)
        return buf

    def _panel_begin(self, panel: ColumnPanel) -> Affine:
        """Return where a panel begins in the buffer of those that are packed here."""
        return panel.place * (self.p.step_depth * panel.elements)

    def _row_tiles(
        self, first: Affine, stop: Bound, left: Source | None, panels: Buf | None, kind: str
    ) -> None:
        for tile in self.row_tiles(kind):
            with self.panel(first, stop, needed_panels(self.p, tile)) as panel:
                right = None
                if panels and self.layout.is_packed("right"):
                    right = Source(panels, self.layout.panel_begin(panel))
                elif panels:
                    right = Source(panels, self._panel_begin(panel))
                _RegisterTile(self, panel, tile, left, right).write()


@dataclass(frozen=True)
class _RegisterTile:
    """Writes the sums of one register tile.

    `left` and `right` are its packed tile and panel; None where an operand is read in place.
    """

    block: _Block
    panel: ColumnPanel
    tile: RowTile
    left: Source | None
    right: Source | None

    def write(self) -> None:
        block, panel, rows = self.block, self.panel, self.tile.rows
        shape = (rows, panel.lines, panel.vectors, block.t.lanes)
        buf = block.w.local("sum", shape, block.c.dtype, "vector")
        sums = Ref(buf, (affine(I), affine(LINE), affine(VECTOR), affine(LANE)))
        nothing = Store(sums, "=", block.c.identity)
        block.w.out += whole_vectors(panel, rows, nothing)
        store = TileStore(block, panel, self.tile)
        TilePrefetch(block, panel, self.tile).results(store.target())
        self._sum(sums)
        store.write(sums)

    def _sum(self, sums: Ref) -> None:
        """Write the loops over depth around one term for each element of the tile."""
        block, panel = self.block, self.panel
        shape = (panel.lines, panel.vectors, block.t.lanes)
        buf = block.w.buffer("read", shape, block.c.dtype, "vector")
        keeps_right = self.tile.rows > 1
        c, negated = block.c, None
        if keeps_right:
            block.w.out.append(Alloc(buf))
            if block.t.lanes * c.element_bytes == BROADCASTING_BYTES:
                negated = c.negated
            c = negated or c
        axes, indices = self._depth_axes()
        for rows, ranges in self._runs(indices):
            with block.depth(axes, "rolled", ranges) as place:
                self._prefetch(place, axes)
                left, right = self._left_element(place, axes), self._right_element(place, axes)
                if keeps_right:
                    read = Ref(buf, (affine(LINE), affine(VECTOR), affine(LANE)))
                    if negated is not None:
                        right = Apply("neg", (right,), c.dtype)
                    block.w.out += whole_vectors(panel, 1, Store(read, "=", right))
                    right = read
                reduced = Store(sums, c.reduction, c.value(left, right))
                block.w.out += row_vectors(panel, rows, reduced)
        for within in summed_ranges(block.p, self.tile):
            self._sum_single_rows(sums, axes, within, indices[within.index])

    def _sum_single_rows(
        self, sums: Ref, axes: Sequence[StridedAxis], within: TileRange, index: Index
    ) -> None:
        """Write what a row sums before and after what all rows of the tile do."""
        block = self.block
        for row in range(self.tile.rows):
            for ends in within.apart(row):
                with block.depth(axes, "rolled", {index: ends}) as place:
                    left, right = self._left_element(place, axes), self._right_element(place, axes)
                    reduced = Store(sums, block.c.reduction, block.c.value(left, right))
                    block.w.out += row_vectors(self.panel, range(row, row + 1), reduced)

    def _depth_axes(self) -> tuple[list[StridedAxis], dict[Index, Index]]:
        """Return the summed axes, merged where operands allow it, and their indices by the old."""
        block = self.block
        sides = []
        if not block.t.pack_left:
            sides.append("left")
        if self.right is None:
            sides.append("right")
        kept = {window.tap for window, _ in block.p.windows}
        kept |= {within.index for within in block.c.ranges}
        axes: list[StridedAxis] = []
        indices: dict[Index, Index] = {}
        for number, axis in enumerate(merged(block.p.depth_axes, *sides, but=kept)):
            indices[axis.index] = Index(f"{K}{number}")
            axes.append(replace(axis, index=indices[axis.index]))
        return axes, indices

    def _runs(
        self, indices: Mapping[Index, Index]
    ) -> Iterator[tuple[range, dict[Index, tuple[Bound, Bound]]]]:
        """Yield rows that are summed together, and the ranges of depth over which they are."""
        ranges, window = self._ranges(indices), self.block.p.row_window
        if window is None:
            yield range(self.tile.rows), ranges
            return
        for taps, rows in window.tap_runs:
            yield rows, {**ranges, indices[window.tap]: (affine(taps.start), affine(taps.stop))}

    def _ranges(self, indices: Mapping[Index, Index]) -> dict[Index, tuple[Bound, Bound]]:
        """Return the ranges of depth that all rows of the tile sum, where these are not whole.

        Taps that read nothing but zeros are left out.
        """
        p = self.block.p
        ranges: dict[Index, tuple[Bound, Bound]] = {}
        for window, _ in p.windows:
            ranges[indices[window.tap]] = window.nonzero_taps(*self._span(window.position))
        for within in summed_ranges(p, self.tile):
            ranges[indices[within.index]] = within.common
        return ranges

    def _span(self, position: Index) -> tuple[Affine, Affine]:
        """Return the first and the last value of an index of rows or columns in the tile."""
        p, panel, tile = self.block.p, self.panel, self.tile
        if p.lines and p.lines.index == position:
            return panel.line, panel.line + panel.lines - 1
        if has_index(p.rows, position):
            return tile.first, tile.first + tile.rows - 1
        if has_index(p.columns, position):
            return panel.column, panel.column + panel.width - 1
        return affine(position), affine(position)

    def _prefetch(self, place: Affine, axes: Sequence[StridedAxis]) -> None:
        prefetch = TilePrefetch(self.block, self.panel, self.tile)
        if self.left is None:
            prefetch.next_rows(self.block.left, axes)
        if self.right is None:
            prefetch.columns_in_place(self.block.right, axes)
            return
        prefetch.packed_panel(self.right, place)
        layout = self.block.layout
        if layout.is_packed("right"):
            prefetch.next_panels(self.right, place, layout.panel_elements)

    def _left_element(self, place: Affine, axes: Sequence[StridedAxis]) -> Ref:
        if self.left is None:
            return self.block.left_element(self.block.left, self.tile, axes)
        at = self.left.begin + self.block.in_tiles(self.tile, place)
        return Ref(self.left.buf, (at,))

    def _right_element(self, place: Affine, axes: Sequence[StridedAxis]) -> Ref:
        if self.right is None:
            column = self.block.column(self.panel)
            return self.block.right_element(self.block.right, self.panel, column, axes)
        at = self.right.begin + self.block.in_panel(self.panel, place)
        return Ref(self.right.buf, (at,))
