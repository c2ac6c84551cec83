"""The loop nest of a contraction: panels of columns, tiles of rows, sums in registers (design §10).

    for each batch, block of rows, and steps of depth
      copy the left operand into tiles                        (where its order asks for it)
      for each panel of columns
        copy the right operand into a panel                   (the same)
        for each tile of rows
          sum rows x vectors in registers, and store them

What does not fill a vector is loaded and stored element by element of the same nest: there are no guards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod

from codegen.contraction import Axis, Border, Contraction, Operand, extent, merged, offset
from codegen.ir import Alloc, Apply, Bound, Buf, Extreme, For, Function, Holds, If, Number, Put, Ref, Statement, Value
from codegen.tiling import Tiling
from einalg.affine import Affine, Index, affine
from einalg.errors import CodegenError
from einalg.scope import Constraint

I, LINE, VECTOR, LANE = (Index(name) for name in ("i", "line", "v", "lane"))
ROW_TILE, PANEL, LINES, STEP, BLOCK, K = (Index(name) for name in ("tile", "panel", "lines", "step", "block", "k"))


def contract(contraction: Contraction, tiling: Tiling, comment: str = "", parallel: bool = False) -> Function:
    """The function that computes a contraction; threads share its blocks of rows, or its panels, where `parallel`.

    Raises `CodegenError` for a tiling that asks to walk rows or columns as one that are not.
    """
    if not tiling.fits(contraction):
        raise CodegenError(f"{tiling} does not fit the contraction {comment}\n  use one of codegen.tiling.tilings")
    nest = _Nest(contraction, tiling, parallel)
    nest.batches()
    operands = (contraction.left, contraction.right)
    inputs = {operand.buf.name: operand.buf for operand in operands}
    return Function(contraction.target.buf.name, tuple(inputs.values()), contraction.target.buf, tuple(nest.out), comment)


@dataclass(frozen=True)
class _Panel:
    """Some neighbouring columns: `lines` lines from `line` on, of `width` elements from `column` on."""

    line: Affine
    lines: int
    column: Affine
    width: int
    lanes: int

    @property
    def vectors(self) -> int:
        """Of each line; the last one may be filled in part."""
        return -(-self.width // self.lanes)

    @property
    def elements(self) -> int:
        return self.lines * self.vectors * self.lanes

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """First vector, number of vectors and elements of each: those that are full, then the last one."""
        full, rest = divmod(self.width, self.lanes)
        if full:
            yield 0, full, self.lanes
        if rest:
            yield full, 1, rest


@dataclass(frozen=True)
class _Tile:
    """Neighbouring rows: the tile's number, its first row and how many rows it has."""

    number: Affine
    first: Affine
    rows: int


class _Nest:
    """Writes the loops; `out` is the body that is being written."""

    def __init__(self, contraction: Contraction, tiling: Tiling, parallel: bool):
        self.c, self.t, self.parallel = contraction, tiling, parallel
        self.out: list[Statement] = []
        self.names = {b.buf.name: 1 for b in (contraction.left, contraction.right, contraction.target)}
        c, t = contraction, tiling
        cut = max(0, len(c.rows) - t.row_axes)
        self.outer_rows, self.rows = c.rows[:cut], c.rows[cut:]
        rest, self.columns = c.columns[: -t.column_axes], c.columns[-t.column_axes :]
        self.outer_columns, self.lines = (rest[:-1], rest[-1]) if t.lines > 1 else (rest, None)
        self.height, self.width = extent(self.rows), extent(self.columns)
        self.tiles = -(-self.height // t.rows)
        self.high = self.height - self.tiles * (t.rows - 1)  # tiles with all rows
        self.outer, self.inner = (c.depth[0], c.depth[1:]) if c.depth else (Axis(K, 1), ())
        self.steps = -(-self.outer.extent // t.depth)
        self.start = affine(STEP) * t.depth if self.steps > 1 else affine(0)
        self.most = t.depth * extent(self.inner)  # elements of depth in a panel
        self.left = self.right = (contraction.left.flat, affine(0))

    def named(self, name: str) -> str:
        """A name that no other buffer of the function has."""
        self.names[name] = number = self.names.get(name, 0) + 1
        return name if number == 1 else f"{name}{number}"

    # Loops.

    @contextmanager
    def loop(self, index: Index, high: Bound | int, low: Bound | int = 0, kind: str = "seq", most: int = 0) -> Iterator[None]:
        """A loop around all that is written inside."""
        before, self.out = self.out, []
        yield
        low, high = (affine(b) if isinstance(b, int) else b for b in (low, high))
        last = most or (high.const if isinstance(high, Affine) else 0)
        first = low.const if isinstance(low, Affine) and not low.terms else 0
        before.append(For(index, low, high, (first, last), tuple(self.out), kind))
        self.out = before

    @contextmanager
    def loops(self, axes: Sequence[Axis], kind: str = "seq") -> Iterator[None]:
        if not axes:
            yield
            return
        with self.loop(axes[0].index, axes[0].extent, kind=kind), self.loops(axes[1:], kind):
            yield

    def put(self, ref: Ref, op: str, value: Value) -> None:
        self.out.append(Put(ref, op, value))

    # From the outside inwards.

    def batches(self) -> None:
        c = self.c
        blocked = self.outer_rows[0].extent if self.outer_rows else self.tiles
        self.blocks = -(-blocked // self.t.block)
        shared = self.parallel and extent(c.batch) * (1 if c.left.borders or c.right.borders else self.blocks) > 1
        self.inner_parallel = self.parallel and not shared
        with self.loops(c.batch, "par" if shared else "seq"):
            self.left, self.right = (self.bordered(operand, side) for operand, side in ((c.left, "left"), (c.right, "right")))
            if self.blocks == 1:
                return self.block()
            with self.loop(BLOCK, self.blocks, kind="par" if shared and not (c.left.borders or c.right.borders) else "seq"):
                self.block()

    def block(self) -> None:
        """Some tiles of rows, or some of the outermost rows."""
        tiles = self.tiles if self.outer_rows else min(self.t.block, self.tiles)
        packed = Buf(self.named("tiles"), (tiles * self.most * self.t.rows,), self.c.dtype, "local")
        if self.t.pack_left:
            self.out.append(Alloc(packed))
        if self.steps == 1:
            return self.step(packed)
        with self.loop(STEP, self.steps):
            self.step(packed)

    def step(self, packed: Buf) -> None:
        """Some steps of depth."""
        if self.t.pack_left:
            self.pack_left(packed)
        with self.loops(self.outer_columns, "par" if self.inner_parallel else "seq"):
            for panel in self.panels():
                self.panel(panel, packed)

    def panels(self) -> Iterator[_Panel]:
        """Panels of equal form, each written inside the loop over them."""
        t = self.t
        kind = "par" if self.inner_parallel and not self.outer_columns else "seq"
        for line, lines in self.some(LINES, self.lines.extent if self.lines else 1, t.lines, kind):
            for column, width in self.some(PANEL, self.width, t.vectors * t.lanes, kind if t.lines == 1 else "seq"):
                yield _Panel(line, lines, column, width, t.lanes)

    def some(self, index: Index, size: int, step: int, kind: str) -> Iterator[tuple[Affine, int]]:
        """`size` in steps, and what is left: the first value and the number of values of each."""
        whole, rest = divmod(size, step)
        if whole == 1:
            yield affine(0), step
        elif whole:
            with self.loop(index, whole, kind=kind):
                yield affine(index) * step, step
        if rest:
            yield affine(whole * step), rest

    def panel(self, panel: _Panel, left: Buf) -> None:
        """All rows of a block with one panel."""
        packed = Buf(self.named("panel"), (self.most * panel.elements,), self.c.dtype, "local")
        direct = not self.t.pack_right and panel.width % self.t.lanes == 0
        if not direct:
            self.out.append(Alloc(packed))
            self.pack_right(panel, packed)
        first, *others = self.outer_rows or (None,)
        if first is None:
            return self.row_tiles(panel, left, None if direct else packed)
        low, high = self.part(first.extent)
        with self.loop(first.index, high, low, most=first.extent), self.loops(others):
            self.row_tiles(panel, left, None if direct else packed)

    def part(self, size: int) -> tuple[Affine, Bound]:
        """The part of a block of an axis that is blocked."""
        if self.blocks == 1:
            return affine(0), affine(size)
        low = affine(BLOCK) * self.t.block
        return low, _least(low + self.t.block, affine(size))

    def row_tiles(self, panel: _Panel, left: Buf, right: Buf | None) -> None:
        for tile in self.tiles_of_rows():
            self.tile(panel, tile, left, right)

    def tiles_of_rows(self) -> Iterator[_Tile]:
        """The tiles of a block, each written inside the loop over those of its size: with all rows, then with one fewer."""
        low, high = (affine(0), affine(self.tiles)) if self.outer_rows else self.part(self.tiles)
        for first, last, rows in ((0, self.high, self.t.rows), (self.high, self.tiles, self.t.rows - 1)):
            start, stop = _limited("max", low, first), _limited("min", high, last)
            number = affine(ROW_TILE) if last - first > 1 or self.blocks > 1 else affine(first)
            tile = _Tile(number, number * rows + (self.high if rows < self.t.rows else 0), rows)
            if first < last and not number.terms:
                yield tile
            elif first < last:
                with self.loop(ROW_TILE, stop, start, most=last):
                    yield tile

    # One register tile.

    def tile(self, panel: _Panel, tile: _Tile, left: Buf, right: Buf | None) -> None:
        sums = Buf(self.named("sum"), (tile.rows, panel.lines, panel.vectors, self.t.lanes), self.c.dtype, "vector")
        self.out.append(Alloc(sums))
        here = Ref(sums, (affine(I), affine(LINE), affine(VECTOR), affine(LANE)))
        self.out += _each(panel, tile.rows, Put(here, "=", Number(0, self.c.dtype)), whole=True)
        self.sums(panel, tile, left, right, here)
        target = self.target(panel, tile)
        first = _each(panel, tile.rows, Put(target, "=", here))
        if self.steps == 1:
            self.out += first
        else:
            more = _each(panel, tile.rows, Put(target, "=", Apply("add", (target, here), self.c.dtype)))
            self.out.append(If(Holds((Constraint(affine(STEP), "=="),)), tuple(first), tuple(more)))

    def sums(self, panel: _Panel, tile: _Tile, left: Buf, right: Buf | None, here: Ref) -> None:
        """The loops over depth around one product for each element of the tile."""
        moving = [side for side, direct in (("left", not self.t.pack_left), ("right", right is None)) if direct]
        axes = [replace(axis, index=Index(f"{K}{n}")) for n, axis in enumerate(merged((self.outer, *self.inner), *moving))]
        with self.depth(axes) as place:
            one = Ref(left, (self.in_tiles(tile, place),)) if self.t.pack_left else self.of_left(tile, axes)
            other = Ref(right, (self.in_panel(panel, place),)) if right else self.of_right(panel, self.column(panel), axes)
            self.out += _each(panel, tile.rows, Put(here, "+=", Apply("mul", (one, other), self.c.dtype)), whole=True)

    @contextmanager
    def depth(self, axes: Sequence[Axis]) -> Iterator[Affine]:
        """The loops over some steps of depth, and how many of its elements came before."""
        first, *others = axes
        inner = first.extent // self.outer.extent  # axes that are one with the outermost
        low, high = self.start * inner, affine(first.extent)
        before = affine(first.index) - low
        for axis in others:
            before = before * axis.extent + affine(axis.index)
        most = _least(low + self.t.depth * inner, high) if self.steps > 1 else high
        with self.loop(first.index, most, low, most=first.extent), self.loops(others):
            yield before

    # Copies.

    def bordered(self, operand: Operand, side: str) -> tuple[Buf, Affine]:
        """Where an operand is read in one batch; copied with its borders, if it has any."""
        begin = offset(self.c.batch, side) + operand.offset
        if not operand.borders:
            return operand.flat, begin
        copy = Buf(self.named("bordered"), (prod(b.whole for b in operand.borders),), operand.buf.dtype, "local")
        self.out.append(Alloc(copy))
        self.border(copy, operand.flat, operand.borders, affine(0), begin)
        return copy, affine(0)

    def border(self, copy: Buf, source: Buf, borders: Sequence[Border], at: Affine, begin: Affine, depth: int = 0) -> None:
        """Copy what is inside the borders, and write zeros before and after it."""
        if not borders:
            return self.put(Ref(copy, (at,)), "=", Ref(source, (begin,)))
        (border, *others), index = borders, Index(f"a{depth}")
        inner = prod(b.whole for b in others)
        self.zeros(copy, at, border.before * inner)
        kind = "par" if self.inner_parallel and not depth and others else "seq" if others else "vec"
        with self.loop(index, border.extent, kind=kind):
            self.border(copy, source, others, at + (affine(index) + border.before) * inner, begin + affine(index) * border.stride, depth + 1)
        self.zeros(copy, at + (border.before + border.extent) * inner, border.after * inner)

    def zeros(self, buf: Buf, at: Affine, number: int) -> None:
        if number:
            with self.loop(LANE, number, kind="vec"):
                self.put(Ref(buf, (at + affine(LANE),)), "=", Number(0, buf.dtype))

    def pack_left(self, packed: Buf) -> None:
        axes = (self.outer, *self.inner)
        for tile in self.tiles_of_rows():
            if self.rows and self.rows[-1].left == 1:
                with self.depth(axes) as place, self.loop(I, tile.rows, kind="vec"):
                    self.put(Ref(packed, (self.in_tiles(tile, place),)), "=", self.of_left(tile, axes))
            else:
                with self.loop(I, tile.rows), self.depth(axes) as place:
                    self.put(Ref(packed, (self.in_tiles(tile, place),)), "=", self.of_left(tile, axes))

    def pack_right(self, panel: _Panel, packed: Buf) -> None:
        axes, own = (self.outer, *self.inner), self.c.right.buf.dtype == self.c.dtype
        if own and len(self.columns) == 1 and self.columns[0].right == 1:
            with self.depth(axes) as place:
                to = Ref(packed, (self.in_panel(panel, place),))
                if panel.width % panel.lanes:
                    self.out += _each(panel, 1, Put(to, "=", Number(0, self.c.dtype)), whole=True)
                self.out += _each(panel, 1, Put(to, "=", self.of_right(panel, self.column(panel), axes)))
            return
        with self.loop(LINE, panel.lines):
            for low, high in ((0, panel.width), (panel.width, panel.vectors * panel.lanes)):
                if low == high:
                    continue
                with self.loop(LANE, high, low), self.depth(axes) as place:
                    to = Ref(packed, (place * panel.elements + affine(LINE) * (panel.vectors * panel.lanes) + affine(LANE),))
                    read = self.of_right(panel, panel.column + affine(LANE), axes)
                    self.put(to, "=", Number(0, self.c.dtype) if low else read)

    # Elements.

    def in_tiles(self, tile: _Tile, place: Affine) -> Affine:
        first = affine(BLOCK) * self.t.block if self.blocks > 1 else affine(0)
        return ((tile.number - first) * self.most + place) * self.t.rows + affine(I)

    def in_panel(self, panel: _Panel, place: Affine) -> Affine:
        return place * panel.elements + (affine(LINE) * panel.vectors + affine(VECTOR)) * self.t.lanes + affine(LANE)

    def column(self, panel: _Panel) -> Affine:
        return panel.column + affine(VECTOR) * self.t.lanes + affine(LANE)

    def of_left(self, tile: _Tile, depth: Sequence[Axis]) -> Ref:
        buf, begin = self.left
        row = _along(self.rows, tile.first + affine(I), "left")
        return Ref(buf, (begin + offset(self.outer_rows, "left") + row + offset(depth, "left"),))

    def of_right(self, panel: _Panel, column: Affine, depth: Sequence[Axis]) -> Ref:
        buf, begin = self.right
        return Ref(buf, (begin + self.line(panel, "right") + _along(self.columns, column, "right") + offset(depth, "right"),))

    def line(self, panel: _Panel, side: str) -> Affine:
        own = (panel.line + affine(LINE)) * getattr(self.lines, side) if self.lines else affine(0)
        return own + offset(self.outer_columns, side)

    def target(self, panel: _Panel, tile: _Tile) -> Ref:
        operand = self.c.target
        begin = offset((*self.c.batch, *self.outer_rows), "target") + operand.offset
        row = _along(self.rows, tile.first + affine(I), "target")
        return Ref(operand.flat, (begin + row + self.line(panel, "target") + _along(self.columns, self.column(panel), "target"),))


def _each(panel: _Panel, rows: int, put: Put, whole: bool = False) -> list[Statement]:
    """A statement for every vector of a tile; `whole` also where some of its elements do not count."""
    found: list[Statement] = []
    for first, number, lanes in [(0, panel.vectors, panel.lanes)] if whole else panel.parts():
        body: Statement = For(LANE, affine(0), affine(lanes), (0, lanes), (put,), "lanes")
        for index, low, high in ((VECTOR, first, first + number), (LINE, 0, panel.lines), (I, 0, rows)):
            body = For(index, affine(low), affine(high), (low, high), (body,), "unroll")
        found.append(body)
    return found


def _along(axes: Sequence[Axis], place: Affine, side: str) -> Affine:
    """Where the element at a place of several axes, walked as one, lies in an operand."""
    form, inner = affine(0), 1
    for number, axis in reversed(list(enumerate(joined := merged(axes, side)))):
        digit = place if len(joined) == 1 else place // inner if number == 0 else place // inner % axis.extent
        form = form + affine(digit) * getattr(axis, side)
        inner *= axis.extent
    return form


def _least(one: Affine, other: Affine) -> Bound:
    return Extreme("min", (one, other))


def _limited(op: str, bound: Bound, value: int) -> Bound:
    if isinstance(bound, Affine) and not bound.terms:
        return affine(max(bound.const, value) if op == "max" else min(bound.const, value))
    return Extreme(op, (bound, affine(value)))
