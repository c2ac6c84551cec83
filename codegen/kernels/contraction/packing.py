"""The copies that a contraction's loop nest reads: borders of zeros, tiles of rows, panels of columns (design §10).

Panels and tiles of an operand that is known ahead lie one after the other in a buffer of their own, which is filled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod

from codegen.ir.nodes import Alloc, Bound, Buf, Function, Number, Ref, Store
from codegen.kernels.contraction.builder import (
    LANE,
    LINE,
    VECTOR,
    ColumnPanel,
    I,
    Nest,
    RowTile,
    along,
    each,
    flat,
    least,
    limited,
)
from codegen.kernels.contraction.partition import Partition, Tiling
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.strided_axes import Border, Side, StridedAxis, StridedOperand, extent, offset
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

ROW_TILE, PANEL, GROUP, STEP, BLOCK = (
    Index(name) for name in ("tile", "panel", "group", "step", "block")
)


class Packing(Nest, Partition):
    """The copies of a contraction's loop nest; those made ahead are named after the `result`."""

    def __init__(self, contraction: Contraction, tiling: Tiling):
        Nest.__init__(self)
        Partition.__init__(self, contraction, tiling)
        c = contraction
        self.names = {operand.buf.name: 1 for operand in (c.left, c.right, c.target, *c.beside)}
        self.taken = frozenset(self.names)
        self.result = c.target.buf.name
        self.start = affine(STEP) * tiling.depth if self.steps > 1 else affine(0)
        self.left = self.right = (c.left.flat, affine(0))

    # What is kept.

    @property
    def block_elements(self) -> int:
        """The tiles of a block for some steps of depth."""
        return min(self.t.block, self.tiles) * self.most * self.t.rows

    @property
    def panel_elements(self) -> int:
        """A panel for some steps of depth."""
        width = min(self.t.vectors, -(-self.width // self.t.lanes)) * self.t.lanes
        return self.most * width * (min(self.t.lines, self.lines.extent) if self.lines else 1)

    def kept(self, side: str) -> Buf:
        """The buffer of an operand that is packed ahead."""
        operand = getattr(self.c, side)
        pieces = self.blocks * self.block_elements
        if side == "right":
            pieces = (
                extent(self.outer_columns) * (self.whole + bool(self.rest)) * self.panel_elements
            )
        name = f"{operand.buf.name}_for_{self.result}"
        while name in self.taken:
            name += "_"
        return Buf(name, (extent(self.moving(side)) * self.steps * pieces,), self.c.dtype)

    def moving(self, side: str) -> list[StridedAxis]:
        """The batch axes along which an operand moves."""
        return [axis for axis in self.c.batch if axis.step(side)]

    def kept_tiles(self) -> Affine:
        """Where the tiles of this block and step begin."""
        return (
            flat(
                [
                    *self.moving("left"),
                    *self._number(BLOCK, self.blocks),
                    *self._number(STEP, self.steps),
                ]
            )
        ) * self.block_elements

    def kept_panel(self, panel: ColumnPanel) -> Affine:
        """Where a panel of this step begins."""
        place = (
            flat([*self.moving("right"), *self.outer_columns]) * (self.whole + bool(self.rest))
            + panel.number
        )
        return (
            place * self.steps + (affine(STEP) if self.steps > 1 else affine(0))
        ) * self.panel_elements

    def _number(self, index: Index, count: int) -> list[StridedAxis]:
        return [StridedAxis(index, count)] if count > 1 else []

    def packed(self, side: str) -> Function:
        """The function that packs an operand ahead."""
        operand, kept = getattr(self.c, side), self.kept(side)
        self.left = self.right = (operand.flat, operand.offset + offset(self.c.batch, side))
        with self.loops(self.moving(side)), self.counted(STEP, self.steps):
            if side == "left":
                with self.counted(BLOCK, self.blocks):
                    self.pack_left(kept, self.kept_tiles())
            else:
                with self.loops(self.outer_columns):
                    for first, stop, _ in self.panels():
                        self.pack_right(first, stop, kept, self.kept_panel)
        return Function(
            kept.name,
            (operand.buf,),
            kept,
            tuple(self.out),
            f"{operand.buf.name}, packed for {self.result}",
        )

    # Walks.

    @contextmanager
    def counted(self, index: Index, count: int, kind: str = "seq") -> Iterator[None]:
        """A loop, where there is more than one step."""
        if count == 1:
            yield
        else:
            with self.loop(index, count, kind=kind):
                yield

    def panels(self) -> Iterator[tuple[Affine, Bound, int]]:
        """Panels of equal form: the first, where they end, and how many at most; in groups, each written inside the loop over them."""
        if self.whole:
            size = min(self.t.group, self.whole)
            first = affine(GROUP) * size if size < self.whole else affine(0)
            with self.counted(GROUP, self.groups, self.grouped):
                yield (
                    first,
                    least(first + size, affine(self.whole)) if self.whole % size else first + size,
                    size,
                )
        if self.rest:
            yield affine(self.whole), affine(self.whole + 1), 1

    grouped = "seq"  # how threads walk through groups

    @contextmanager
    def panel(self, first: Affine, stop: Bound) -> Iterator[ColumnPanel]:
        """One of some panels of equal form, inside the loop over them."""
        if isinstance(stop, Affine) and stop == first + 1:
            yield self.numbered(first, first)
        else:
            with self.loop(PANEL, stop, first, most=self.whole):
                yield self.numbered(affine(PANEL), first)

    def numbered(self, number: Affine, first: Affine) -> ColumnPanel:
        """The panel of a number, kept together with those from `first` on."""
        step = self.t.lines if self.lines else self.t.vectors * self.t.lanes
        size = self.rest if first == affine(self.whole) else step
        part = (
            (number * step, size, affine(0), self.width)
            if self.lines
            else (affine(0), 1, number * step, size)
        )
        return ColumnPanel(*part, self.t.lanes, number, number - first)

    def part(self, size: int) -> tuple[Affine, Bound]:
        """The part of a block of an axis that is blocked."""
        if self.blocks == 1:
            return affine(0), affine(size)
        low = affine(BLOCK) * self.t.block
        return low, least(low + self.t.block, affine(size))

    def tiles_of_rows(self, kind: str = "seq") -> Iterator[RowTile]:
        """The tiles of a block, each written inside the loop over those of its size: with all rows, then with one fewer."""
        low, high = (affine(0), affine(self.tiles)) if self.outer_rows else self.part(self.tiles)
        for first, last, rows in (
            (0, self.high, self.t.rows),
            (self.high, self.tiles, self.t.rows - 1),
        ):
            start, stop = limited("max", low, first), limited("min", high, last)
            number = affine(ROW_TILE) if last - first > 1 or self.blocks > 1 else affine(first)
            tile = RowTile(number, number * rows + (self.high if rows < self.t.rows else 0), rows)
            if first < last and not number.terms:
                yield tile
            elif first < last:
                with self.loop(ROW_TILE, stop, start, kind, last):
                    yield tile

    @contextmanager
    def depth(
        self,
        axes: Sequence[StridedAxis],
        kind: str = "seq",
        only: Mapping[Index, tuple[Affine, Affine]] | None = None,
    ) -> Iterator[Affine]:
        """The loops over some steps of depth, of some axes `only` what lies between these bounds; and how many of its elements came before."""
        first, *others = axes
        inner = first.extent // self.outer.extent  # axes that are one with the outermost
        low, high = self.start * inner, affine(first.extent)
        before = affine(first.index) - low
        for axis in others:
            before = before * axis.extent + affine(axis.index)
        most = least(low + self.t.depth * inner, high) if self.steps > 1 else high
        with ExitStack() as loops:
            for axis, start, stop in (
                (first, low, most),
                *((axis, affine(0), affine(axis.extent)) for axis in others),
            ):
                if only and axis.index in only:
                    begin, end = only[axis.index]
                    start, stop = limited("max", start, begin), limited("min", stop, end)
                loops.enter_context(self.loop(axis.index, stop, start, kind, axis.extent))
            yield before

    # Copies.

    def bordered(self, operand: StridedOperand, side: str, kind: str) -> tuple[Buf, Affine]:
        """Where an operand is read in one batch; copied with its borders, if it has any."""
        begin = offset(self.c.batch, side) + operand.offset
        if not operand.borders:
            return operand.flat, begin
        copy = Buf(
            self.named("bordered"),
            (prod(b.whole for b in operand.borders),),
            operand.buf.dtype,
            "local",
        )
        self.out.append(Alloc(copy))
        self.border(copy, operand.flat, operand.borders, affine(0), begin, kind)
        return copy, affine(0)

    def border(
        self,
        copy: Buf,
        source: Buf,
        borders: Sequence[Border],
        at: Affine,
        begin: Affine,
        kind: str,
        depth: int = 0,
    ) -> None:
        """Copy what is inside the borders, and write zeros before and after it."""
        if not borders:
            return self.put(Ref(copy, (at,)), "=", Ref(source, (begin,)))
        (border, *others), index = borders, Index(f"a{depth}")
        inner = prod(b.whole for b in others)
        self.zeros(copy, at, border.before * inner)
        with self.loop(index, border.extent, kind=kind if others else "vec"):
            place = at + (affine(index) + border.before) * inner
            self.border(
                copy, source, others, place, begin + affine(index) * border.stride, "seq", depth + 1
            )
        self.zeros(copy, at + (border.before + border.extent) * inner, border.after * inner)

    def zeros(self, buf: Buf, at: Affine, number: int) -> None:
        if number:
            with self.loop(LANE, number, kind="vec"):
                self.put(Ref(buf, (at + affine(LANE),)), "=", Number(0, buf.dtype))

    def pack_left(self, packed: Buf, begin: Affine) -> None:
        axes = (self.outer, *self.inner)
        for tile in self.tiles_of_rows():
            if self.rows and self.rows[-1].left == 1:
                with self.depth(axes) as place, self.loop(I, tile.rows, kind="vec"):
                    self.put(
                        Ref(packed, (begin + self.in_tiles(tile, place),)),
                        "=",
                        self.of_left(tile, axes),
                    )
            else:
                with self.loop(I, tile.rows), self.depth(axes) as place:
                    self.put(
                        Ref(packed, (begin + self.in_tiles(tile, place),)),
                        "=",
                        self.of_left(tile, axes),
                    )

    def pack_right(
        self, first: Affine, stop: Bound, packed: Buf, begin: Callable[[ColumnPanel], Affine]
    ) -> None:
        """Copy some panels of equal form, each to where it begins; those in order side by side, as they lie in memory, for each element of depth."""
        axes, own = (self.outer, *self.inner), self.c.right.buf.dtype == self.c.dtype
        if own and len(self.columns) == 1 and self.columns[0].right == 1:
            with self.depth(axes) as place, self.panel(first, stop) as panel:
                to = Ref(packed, (begin(panel) + self.in_panel(panel, place),))
                if panel.width % panel.lanes:
                    self.out += each(panel, 1, Store(to, "=", Number(0, self.c.dtype)), whole=True)
                self.out += each(
                    panel, 1, Store(to, "=", self.of_right(panel, self.column(panel), axes))
                )
            return
        with self.panel(first, stop) as panel, self.loop(LINE, panel.lines):
            for low, high in ((0, panel.width), (panel.width, panel.vectors * panel.lanes)):
                if low == high:
                    continue
                with self.loop(LANE, high, low), self.depth(axes) as place:
                    inside = (
                        place * panel.elements
                        + affine(LINE) * (panel.vectors * panel.lanes)
                        + affine(LANE)
                    )
                    read = self.of_right(panel, panel.column + affine(LANE), axes)
                    self.put(
                        Ref(packed, (begin(panel) + inside,)),
                        "=",
                        Number(0, self.c.dtype) if low else read,
                    )

    # Elements.

    def in_tiles(self, tile: RowTile, place: Affine) -> Affine:
        first = affine(BLOCK) * self.t.block if self.blocks > 1 else affine(0)
        return ((tile.number - first) * self.most + place) * self.t.rows + affine(I)

    def in_panel(self, panel: ColumnPanel, place: Affine) -> Affine:
        return (
            place * panel.elements
            + (affine(LINE) * panel.vectors + affine(VECTOR)) * self.t.lanes
            + affine(LANE)
        )

    def column(self, panel: ColumnPanel) -> Affine:
        return panel.column + affine(VECTOR) * self.t.lanes + affine(LANE)

    def of_left(self, tile: RowTile, depth: Sequence[StridedAxis]) -> Ref:
        buf, begin = self.left
        row = along(self.rows, tile.first + affine(I), "left")
        return Ref(buf, (begin + offset(self.outer_rows, "left") + row + offset(depth, "left"),))

    def of_right(self, panel: ColumnPanel, column: Affine, depth: Sequence[StridedAxis]) -> Ref:
        buf, begin = self.right
        return Ref(
            buf,
            (
                begin
                + self.line(panel, "right")
                + along(self.columns, column, "right")
                + offset(depth, "right"),
            ),
        )

    def line(self, panel: ColumnPanel, side: Side) -> Affine:
        own = (panel.line + affine(LINE)) * self.lines.step(side) if self.lines else affine(0)
        return own + offset(self.outer_columns, side)
