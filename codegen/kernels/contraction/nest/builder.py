"""Walks over a contraction: panels of columns, tiles of rows, steps of depth (design §10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from codegen.ir.builder import LANE, LoopBuilder
from codegen.ir.nodes import Bound, Buf, For, MinMax, Ref, Statement, Store, Value
from codegen.ir.scalars.elements import ElementLeaves
from codegen.kernels.contraction.partition import Partition
from codegen.kernels.strided_axes import Prologue, Side, StridedAxis, merged, offset
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.tensor import Access

I, LINE, VECTOR = (Index(name) for name in ("i", "line", "v"))
ROW_TILE, PANEL, GROUP, STEP, BLOCK = (
    Index(name) for name in ("tile", "panel", "group", "step", "block")
)


@dataclass(frozen=True)
class Source:
    """A buffer, and the element of it where what is read begins.

    `others` are those of what a prologue reads besides.
    """

    buf: Buf
    begin: Affine
    others: tuple[Source, ...] = ()


@dataclass(frozen=True)
class ColumnPanel:
    """Neighbouring columns: `lines` lines from `line` on, of `width` elements from `column` on.

    `number` counts the panels, and `place` those that are kept at the same time.
    """

    line: Affine
    lines: int
    column: Affine
    width: int
    lanes: int
    number: Affine
    place: Affine

    @property
    def vectors(self) -> int:
        """Return the vectors of each line; the last one may be filled in part."""
        return -(-self.width // self.lanes)

    @property
    def elements(self) -> int:
        return self.lines * self.vectors * self.lanes

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield full vectors, then the last one, as (first vector, vectors, elements of each)."""
        full, rest = divmod(self.width, self.lanes)
        if full:
            yield 0, full, self.lanes
        if rest:
            yield full, 1, rest


@dataclass(frozen=True)
class RowTile:
    """Neighbouring rows: the tile's number, its first row and how many rows it has."""

    number: Affine
    first: Affine
    rows: int


def valid_vectors(panel: ColumnPanel, rows: int, store: Store) -> list[Statement]:
    """Return a statement for every element of a tile."""
    statements = []
    for first, count, lanes in panel.parts():
        statements.append(_unrolled(panel, range(rows), store, (first, first + count), lanes))
    return statements


def whole_vectors(panel: ColumnPanel, rows: int, store: Store) -> list[Statement]:
    """Return a statement for every vector of a tile, also for elements beyond its width."""
    return row_vectors(panel, range(rows), store)


def row_vectors(panel: ColumnPanel, rows: range, store: Store) -> list[Statement]:
    """Return a statement for every vector of some rows of a tile."""
    return [_unrolled(panel, rows, store, (0, panel.vectors), panel.lanes)]


def _unrolled(
    panel: ColumnPanel, rows: range, store: Store, vectors: tuple[int, int], lanes: int
) -> Statement:
    body: Statement = For(LANE, affine(0), affine(lanes), (0, lanes), (store,), "lanes")
    row_ends = (rows.start, rows.stop)
    for index, low, high in ((VECTOR, *vectors), (LINE, 0, panel.lines), (I, *row_ends)):
        body = For(index, affine(low), affine(high), (low, high), (body,), "unroll")
    return body


def along(axes: Sequence[StridedAxis], place: Affine, side: Side) -> Affine:
    """Return the element of an operand at a place of several axes that are walked as one."""
    form, inner = affine(0), 1
    axes = merged(axes, side)
    for number, axis in reversed(list(enumerate(axes))):
        digit = place
        if len(axes) > 1:
            digit = place // inner
            if number > 0:
                digit = digit % axis.extent
        form = form + affine(digit) * axis.step(side)
        inner *= axis.extent
    return form


def place_number(axes: Sequence[StridedAxis]) -> Affine:
    """Return the number of a place of some axes, counted in their order."""
    form = affine(0)
    for axis in axes:
        form = form * axis.extent + affine(axis.index)
    return form


def prologue_value(prologue: Prologue | None, elements: Sequence[Ref]) -> Value:
    """Return what a prologue computes from what is read, or the one element."""
    first, *others = elements
    if prologue is None:
        return first
    read: dict[Access, Value] = {prologue.first: first}
    read.update(zip(prologue.others, others, strict=True))
    return ElementLeaves(prologue.body, read).value


def smaller(one: Affine, other: Affine) -> Bound:
    """Return the smaller of two bounds, one of which depends on outer loops."""
    return MinMax("min", (one, other))


def limited(op: str, bound: Bound, other: Bound | int) -> Bound:
    """Return the `max` or `min` of a bound and another one."""
    if isinstance(other, int):
        other = affine(other)
    if isinstance(bound, Affine) and isinstance(other, Affine):
        pick = {"max": max, "min": min}[op]
        if not bound.terms and not other.terms:
            return affine(pick(bound.const, other.const))
    return MinMax(op, (bound, other))


def divided(bound: Bound, count: int, up: bool = False) -> Bound:
    """Return how many runs of so many elements lie before a bound, with one in part for `up`."""
    if isinstance(bound, MinMax):
        return MinMax(bound.op, tuple(divided(one, count, up) for one in bound.of))
    if up:
        return (bound + (count - 1)) // count
    return bound // count


def _range(low: Bound, high: int) -> tuple[int, int]:
    """Return numbers that enclose the values of a loop whose end is at most `high`."""
    if isinstance(low, Affine) and not low.terms:
        return low.const, high
    return 0, high


class PartitionWalk:
    """Loops over the parts of a contraction, and the elements of its operands there."""

    def __init__(self, w: LoopBuilder, partition: Partition, group_kind: str = "seq"):
        self.w, self.p = w, partition
        self.c, self.t = partition.contraction, partition.tiling
        self.group_kind = group_kind  # of the loop over groups of panels

    # Loops.

    @contextmanager
    def optional_loop(self, index: Index, count: int, kind: str = "seq") -> Iterator[None]:
        """Open a loop, where there is more than one step."""
        if count == 1:
            yield
        else:
            with self.w.loop(index, count, kind=kind):
                yield

    def panel_runs(self) -> Iterator[tuple[Affine, Bound, int]]:
        """Yield panels of equal form: the first, where they end, and how many at most.

        Whole panels come in groups, inside the loop over these.
        """
        whole = self.p.whole_panels
        if whole:
            size = min(self.t.group, whole)
            first = affine(0)
            if size < whole:
                first = affine(GROUP) * size
            with self.optional_loop(GROUP, self.p.groups, self.group_kind):
                stop: Bound = first + size
                if whole % size:
                    stop = smaller(first + size, affine(whole))
                yield first, stop, size
        if self.p.last_panel:
            yield affine(whole), affine(whole + 1), 1

    @contextmanager
    def panel(
        self, first: Affine, stop: Bound, needed: tuple[Bound, Bound] | None = None
    ) -> Iterator[ColumnPanel]:
        """Yield one of some panels of equal form, inside the loop over them.

        Of these it walks those between the bounds in `needed`.
        """
        if needed is None and isinstance(stop, Affine) and stop == first + 1:
            yield self.numbered_panel(first, first)
            return
        low: Bound = first
        if needed is not None:
            low, stop = limited("max", first, needed[0]), limited("min", stop, needed[1])
        known = _range(first, self.p.panels)
        with self.w.loop(PANEL, stop, low, known=known) as number:
            yield self.numbered_panel(number, first)

    def numbered_panel(self, number: Affine, first: Affine) -> ColumnPanel:
        """Return the panel of a number, kept together with those from `first` on."""
        step = self.t.vectors * self.t.lanes
        if self.p.lines:
            step = self.t.lines
        size = step
        if first == affine(self.p.whole_panels):
            size = self.p.last_panel
        place = number - first
        lanes = self.t.lanes
        if self.p.lines:
            width = self.p.width
            return ColumnPanel(number * step, size, affine(0), width, lanes, number, place)
        return ColumnPanel(affine(0), 1, number * step, size, lanes, number, place)

    def block_range(self, size: int) -> tuple[Affine, Bound]:
        """Return the part of an axis of blocks, so many elements long, that a block walks."""
        if self.p.blocks == 1:
            return affine(0), affine(size)
        low = affine(BLOCK) * self.t.block
        return low, smaller(low + self.t.block, affine(size))

    def row_tiles(self, kind: str = "seq") -> Iterator[RowTile]:
        """Yield the tiles of a block with all rows, then those with one fewer.

        Each is yielded inside the loop over those of its size.
        """
        p = self.p
        low, high = affine(0), affine(p.tiles)
        if not p.outer_rows:
            low, high = self.block_range(p.tiles)
        full, rows = p.full_tiles, self.t.rows
        sizes = ((0, full, 0, rows), (full, p.tiles, full, rows - 1))
        for first, last, shift, tile_rows in sizes:
            if first >= last:
                continue
            if last - first == 1 and p.blocks == 1:
                yield RowTile(affine(first), affine(first) * tile_rows + shift, tile_rows)
                continue
            start, stop = limited("max", low, first), limited("min", high, last)
            known = _range(start, last)
            with self.w.loop(ROW_TILE, stop, start, kind, known) as number:
                yield RowTile(number, number * tile_rows + shift, tile_rows)

    @contextmanager
    def depth(
        self,
        axes: Sequence[StridedAxis],
        kind: str = "seq",
        ranges: Mapping[Index, tuple[Bound, Bound]] | None = None,
        run: int = 1,
    ) -> Iterator[Affine]:
        """Open the loops over one step of depth, and yield how many of its elements came before.

        Some axes walk only what lies between the bounds in `ranges`. The index of the innermost one
        counts its runs of `run` elements; those that fill none are left out.
        """
        first, *others = axes
        inner = first.extent // self.p.outer_depth.extent  # axes merged with the outermost
        low = self.step_start * inner
        begins = {axis.index: affine(axis.index) for axis in axes}
        begins[axes[-1].index] *= run
        before = begins[first.index] - low
        for axis in others:
            before = before * axis.extent + begins[axis.index]
        high: Bound = affine(first.extent)
        if self.p.steps > 1:
            high = smaller(low + self.t.depth * inner, affine(first.extent))
        bounds: list[tuple[StridedAxis, Bound, Bound]] = [(first, low, high)]
        bounds += [(axis, affine(0), affine(axis.extent)) for axis in others]
        with ExitStack() as loops:
            for axis, start, stop in bounds:
                if ranges and axis.index in ranges:
                    begin, end = ranges[axis.index]
                    start, stop = limited("max", start, begin), limited("min", stop, end)
                if run > 1 and axis is axes[-1]:
                    start, stop = divided(start, run), divided(stop, run)
                known = _range(start, axis.extent)
                loops.enter_context(self.w.loop(axis.index, stop, start, kind, known))
            yield before

    @property
    def step_start(self) -> Affine:
        """Return the first value of the outermost summed axis in a step of depth."""
        if self.p.steps > 1:
            return affine(STEP) * self.t.depth
        return affine(0)

    # Elements.

    def first_tile(self) -> Affine:
        """Return the number of the first tile of a block."""
        if self.p.blocks > 1:
            return affine(BLOCK) * self.t.block
        return affine(0)

    def in_tiles(self, tile: RowTile, place: Affine) -> Affine:
        """Return the element of packed tiles of rows at a place of depth, in row `I`."""
        number = tile.number - self.first_tile()
        return (number * self.p.step_depth + place) * self.t.rows + affine(I)

    def in_panel(self, panel: ColumnPanel, place: Affine) -> Affine:
        """Return the element of a packed panel at a place of depth, in `LINE`, `VECTOR`, `LANE`."""
        vector = affine(LINE) * panel.vectors + affine(VECTOR)
        return place * panel.elements + vector * self.t.lanes + affine(LANE)

    def column(self, panel: ColumnPanel) -> Affine:
        """Return the column of `VECTOR` and `LANE` in a panel."""
        return panel.column + affine(VECTOR) * self.t.lanes + affine(LANE)

    def left_element(
        self, left: Source, tile: RowTile, depth: Sequence[StridedAxis], side: Side = "left"
    ) -> Ref:
        """Return what is read of the left operand, in row `I` of a tile."""
        row = along(self.p.rows, tile.first + affine(I), side)
        place = offset(self.p.outer_rows, side) + row + offset(depth, side)
        return Ref(left.buf, (left.begin + place,))

    def left_value(self, left: Source, tile: RowTile, depth: Sequence[StridedAxis]) -> Value:
        """Return an element of the left operand, in row `I` of a tile."""
        sides = zip((left, *left.others), self.c.left.sides("left"), strict=True)
        read = [self.left_element(source, tile, depth, side) for source, side in sides]
        return prologue_value(self.c.left.prologue, read)

    def right_element(
        self,
        right: Source,
        panel: ColumnPanel,
        column: Affine,
        depth: Sequence[StridedAxis],
        side: Side = "right",
    ) -> Ref:
        """Return what is read of the right operand, in `LINE` of a panel."""
        place = self.line_offset(panel, side) + along(self.p.columns, column, side)
        return Ref(right.buf, (right.begin + place + offset(depth, side),))

    def right_value(
        self, right: Source, panel: ColumnPanel, column: Affine, depth: Sequence[StridedAxis]
    ) -> Value:
        """Return an element of the right operand, in `LINE` of a panel."""
        sides = zip((right, *right.others), self.c.right.sides("right"), strict=True)
        read = [self.right_element(source, panel, column, depth, side) for source, side in sides]
        return prologue_value(self.c.right.prologue, read)

    def result(
        self, panel: ColumnPanel, tile: RowTile, row: Affine, column: Affine, side: Side = "target"
    ) -> Ref:
        """Return a result, in `LINE` of a panel; or what an epilogue reads beside it."""
        operand = self.c.target
        if isinstance(side, int):
            operand = self.c.epilogue_operands[side]
        begin = offset((*self.c.batch, *self.p.outer_rows), side) + operand.offset
        row_offset = along(self.p.rows, tile.first + row, side)
        column_offset = self.line_offset(panel, side) + along(self.p.columns, column, side)
        return Ref(operand.flat, (begin + row_offset + column_offset,))

    def line_offset(self, panel: ColumnPanel, side: Side) -> Affine:
        """Return where `LINE` of a panel and the columns around panels lead in an operand."""
        outer = offset(self.p.outer_columns, side)
        if self.p.lines is None:
            return outer
        return (panel.line + affine(LINE)) * self.p.lines.step(side) + outer
