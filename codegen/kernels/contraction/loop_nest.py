"""The loop nest of a contraction: panels of columns, tiles of rows, sums in registers (design §10).

    for each batch, block of rows, and steps of depth
      copy the left operand into tiles                        (where its order asks for it)
      for each group of panels of columns
        copy the right operand into panels                    (the same)
        for each tile of rows, and each panel
          sum rows x vectors in registers, and store them

What does not fill a vector is loaded and stored element by element of the same nest: there are no guards. Operands that are
known ahead are copied by functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from codegen.ir.nodes import (
    Alloc,
    Apply,
    Bound,
    Buf,
    For,
    Function,
    If,
    Number,
    Predicate,
    Prefetch,
    Ref,
    Statement,
    Store,
    Transpose,
    Value,
)
from codegen.kernels.contraction.builder import (
    LANE,
    LINE,
    VECTOR,
    ColumnPanel,
    I,
    RowTile,
    along,
    each,
    flat,
)
from codegen.kernels.contraction.cost_model import FEW
from codegen.kernels.contraction.packing import BLOCK, GROUP, STEP, Packing
from codegen.kernels.contraction.partition import K, Tiling
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.epilogue import EpilogueLeaves
from codegen.kernels.strided_axes import Side, StridedAxis, StridedOperand, extent, merged, offset
from einalg.errors import CodegenError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import numpy_dtype

COLUMN = Index("column")
CYCLES, AHEAD = (
    200,
    8192,
)  # how long before its use a part of a panel is asked for, and bytes that are under way at most
LINE_BYTES = 64  # of the cache
UNSEEN = 512  # bytes between steps of depth from which on the processor does not see them coming
DEEP = 64  # products from which on a tile asks for its results first


def contraction_function(
    contraction: Contraction, tiling: Tiling, comment: str = "", parallel: bool = False
) -> Function:
    """The function that computes a contraction; threads share its blocks of rows, or its panels, where `parallel`.

    Raises `CodegenError` for a tiling that asks to walk rows or columns as one that are not.
    """
    if not tiling.fits(contraction):
        raise CodegenError(
            f"{tiling} does not fit the contraction {comment}\n  use one of codegen.kernels.contraction.cost_model.tilings"
        )
    nest = _ContractionNest(contraction, tiling, parallel)
    nest.batches()
    ahead = [side for side in ("left", "right") if nest.ahead(side)]
    packs = tuple(Packing(contraction, tiling).packed(side) for side in ahead)
    bufs = [
        nest.kept(side) if side in ahead else getattr(contraction, side).buf
        for side in ("left", "right")
    ]
    bufs += [operand.buf for operand in contraction.beside]
    target = contraction.target.buf
    return Function(
        target.name,
        tuple({b.name: b for b in bufs}.values()),
        target,
        tuple(nest.out),
        comment,
        packs,
    )


class _ContractionNest(Packing):
    """Writes the loops."""

    def __init__(self, contraction: Contraction, tiling: Tiling, parallel: bool):
        super().__init__(contraction, tiling)
        self.parallel, self.within, self.lined = parallel, False, "seq"

    def ahead(self, side: str) -> bool:
        """Whether an operand is packed by a function of its own."""
        return getattr(self.c, side).ahead and getattr(self.t, f"pack_{side}")

    # From the outside inwards.

    def batches(self) -> None:
        c, share = self.c, self.shared if self.parallel else ""
        blocks = share == "blocks"
        inner = self.within = bool(share) and not blocks
        self.lined, self.grouped = (
            ("par" if share == "columns" else "seq"),
            ("par" if share == "groups" else "seq"),
        )
        with self.loops(c.batch, "par" if blocks else "seq"):
            copied = "par" if inner else "seq"
            self.left, self.right = (
                self.bordered(getattr(c, side), side, copied) for side in ("left", "right")
            )
            if self.is_apart:
                return self.apart(copied)
            with (
                self.counted(BLOCK, self.blocks, "par" if blocks and self.split > 1 else "seq"),
                self.counted(STEP, self.steps),
            ):
                self.step()

    def apart(self, kind: str) -> None:
        """Every step of depth in a result of its own, which threads share; then the sum of these."""
        c, size = self.c, extent((*self.c.rows, *self.c.columns))
        sums = Buf(self.named("sums"), (self.steps * size,), c.dtype, "local")
        self.out.append(Alloc(sums))
        rows, columns = _dense(c.rows, extent(c.columns)), _dense(c.columns)
        batch = (
            *(replace(axis, target=0, beside=()) for axis in c.batch),
            StridedAxis(STEP, self.steps, target=size),
        )
        inner = _ContractionNest(
            replace(
                c,
                target=StridedOperand(sums, 0),
                batch=batch,
                rows=rows,
                columns=columns,
                epilogue=None,
            ),
            self.t,
            False,
        )
        inner.result, inner.taken, inner.names, inner.left, inner.right = (
            self.result,
            self.taken,
            self.names,
            self.left,
            self.right,
        )
        with inner.loop(STEP, self.steps, kind=kind), inner.counted(BLOCK, self.blocks):
            inner.step()
        self.out += inner.out
        with self.loop(STEP, self.steps, 1), self.loop(LANE, size, kind="vec"):
            self.put(
                Ref(sums, (affine(LANE),)), "+=", Ref(sums, (affine(STEP) * size + affine(LANE),))
            )
        self.added(sums, (*rows, *columns))

    def added(self, sums: Buf, axes: Sequence[StridedAxis]) -> None:
        """Sums that lie in order, written to the result."""
        own = (*self.c.rows, *self.c.columns)
        places = [
            Ref(o.flat, (offset((*self.c.batch, *own), side) + o.offset,))
            for side, o in zip(self.c.stored, (self.c.target, *self.c.beside))
        ]
        target, *beside = places
        found: Value = Ref(sums, (offset(axes, "target"),))
        if self.c.epilogue:
            found = EpilogueLeaves(self.c.epilogue, found, beside).value
        with self.loops(own[:-1]), self.loop(own[-1].index, own[-1].extent, kind="vec"):
            self.put(target, "=", found)

    def step(self) -> None:
        """Some steps of depth of a block of rows."""
        if self.ahead("left"):
            left, at = self.kept("left"), self.kept_tiles()
        else:
            left, at = Buf("tiles", (self.block_elements,), self.c.dtype, "local"), affine(0)
        if self.t.pack_left and not self.ahead("left"):
            left = replace(left, name=self.named("tiles"))
            self.out.append(Alloc(left))
            self.pack_left(left, at)
        with self.loops(self.outer_columns, self.lined):
            for first, stop, number in self.panels():
                self.group(first, stop, number, (left, at))

    def group(self, first: Affine, stop: Bound, number: int, left: tuple[Buf, Affine]) -> None:
        """All rows of a block with some panels."""
        panel = self.numbered(first, first)
        right = self.kept("right") if self.ahead("right") else None
        if right is None and (self.t.pack_right or panel.width % self.t.lanes):
            right = Buf(
                self.named("panels"), (number * self.most * panel.elements,), self.c.dtype, "local"
            )
            self.out.append(Alloc(right))
            self.pack_right(
                first, stop, right, lambda panel: panel.place * (self.most * panel.elements)
            )
        kind = (
            "par"
            if self.within and not self.outer_columns and GROUP not in first.indices
            else "seq"
        )  # where threads share no groups
        outer, *others = self.outer_rows or (None,)
        if outer is None:
            return self.row_tiles(first, stop, left, right, kind)
        low, high = self.part(outer.extent)
        with self.loop(outer.index, high, low, kind, outer.extent), self.loops(others):
            self.row_tiles(first, stop, left, right, "seq")

    def row_tiles(
        self, first: Affine, stop: Bound, left: tuple[Buf, Affine], right: Buf | None, kind: str
    ) -> None:
        for tile in self.tiles_of_rows(kind):
            with self.panel(first, stop) as panel:
                begin = (
                    self.kept_panel(panel)
                    if self.ahead("right")
                    else panel.place * (self.most * panel.elements)
                )
                self.tile(panel, tile, left, (right, begin))

    # One register tile.

    def tile(
        self,
        panel: ColumnPanel,
        tile: RowTile,
        left: tuple[Buf, Affine],
        right: tuple[Buf | None, Affine],
    ) -> None:
        sums = Buf(
            self.named("sum"),
            (tile.rows, panel.lines, panel.vectors, self.t.lanes),
            self.c.dtype,
            "vector",
        )
        self.out.append(Alloc(sums))
        here = Ref(sums, (affine(I), affine(LINE), affine(VECTOR), affine(LANE)))
        self.out += each(panel, tile.rows, Store(here, "=", Number(0, self.c.dtype)), whole=True)
        target = self.element(panel, tile, affine(I), self.column(panel))
        if self.most >= DEEP and self.columns[-1].target == 1:
            self.ask(panel, tile, target)
        self.sums(panel, tile, left, right, here)
        self.store(panel, tile, here)

    # What becomes of the sums.

    @property
    def once(self) -> bool:
        """Whether a result is stored by one step of depth alone."""
        return self.steps == 1 or self.is_apart

    def store(self, panel: ColumnPanel, tile: RowTile, sums: Ref) -> None:
        """The sums of a tile written to the result, or added to those of earlier steps of depth; the last step knows what an epilogue asks for."""
        target = self.element(panel, tile, affine(I), self.column(panel))
        turned = panel.lanes > 1 and self.columns[-1].target != 1
        plain = self.spilled(panel, tile, sums) if turned or self.c.epilogue else None
        if plain is None:
            self.stored(target, sums, lambda put: each(panel, tile.rows, put))
        elif turned:
            if self.c.epilogue:
                self.out += self.in_last_step(self.finished(panel, tile, plain, in_place=True))
            self.turned(panel, tile, plain)
        else:
            before, self.out = self.out, []
            self.stored(target, sums, lambda put: each(panel, tile.rows, put), last=False)
            earlier, self.out = tuple(self.out), before
            self.out += self.in_last_step(
                self.finished(panel, tile, plain, in_place=False), earlier
            )

    def in_last_step(
        self, last: Sequence[Statement], earlier: Sequence[Statement] = ()
    ) -> Sequence[Statement]:
        """Statements for the last step of depth, and for those before."""
        return (
            last
            if self.steps == 1
            else (
                If(
                    Predicate((Constraint(affine(STEP) - (self.steps - 1), "=="),)),
                    tuple(last),
                    tuple(earlier),
                ),
            )
        )

    def stored(
        self,
        target: Ref,
        value: Ref,
        written: Callable[[Store], Sequence[Statement]],
        last: bool = True,
    ) -> None:
        """Results written, or added to those of earlier steps; with an epilogue those of the `last` step are whole already."""
        first = tuple(written(Store(target, "=", value)))
        if self.once:
            self.out += first
            return
        more: Sequence[Statement] = written(
            Store(target, "=", Apply("add", (target, value), self.c.dtype))
        )
        if self.c.epilogue and last:
            more = self.in_last_step(first, more)
        self.out.append(If(Predicate((Constraint(affine(STEP), "=="),)), first, tuple(more)))

    def spilled(self, panel: ColumnPanel, tile: RowTile, sums: Ref) -> Buf:
        """The sums of a tile in memory, row after row."""
        plain = Buf(self.named("plain"), (tile.rows * panel.elements,), self.c.dtype, "local")
        inside = self.inside(panel, plain, affine(VECTOR) * self.t.lanes + affine(LANE))
        self.out += [Alloc(plain), *each(panel, tile.rows, Store(inside, "=", sums), whole=True)]
        return plain

    def inside(self, panel: ColumnPanel, plain: Buf, column: Affine) -> Ref:
        """A sum of row `I` and line `LINE` that was spilled."""
        return Ref(
            plain,
            (affine(I) * panel.elements + affine(LINE) * (panel.vectors * self.t.lanes) + column,),
        )

    def finished(
        self, panel: ColumnPanel, tile: RowTile, plain: Buf, in_place: bool
    ) -> Sequence[Statement]:
        """What an epilogue makes of the sums of a tile and those of earlier steps: in their place, or as results."""
        assert self.c.epilogue is not None
        row, column = affine(I), panel.column + affine(COLUMN)
        target, *beside = (self.element(panel, tile, row, column, side) for side in self.c.stored)
        here = self.inside(panel, plain, affine(COLUMN))
        whole = here if self.steps == 1 else Apply("add", (target, here), self.c.dtype)
        body: Statement = Store(
            here if in_place else target, "=", EpilogueLeaves(self.c.epilogue, whole, beside).value
        )
        for index, number, kind in (
            (COLUMN, panel.width, "vec"),
            (LINE, panel.lines, "seq"),
            (I, tile.rows, "seq"),
        ):
            body = For(index, affine(0), affine(number), (0, number), (body,), kind)
        return (body,)

    def turned(self, panel: ColumnPanel, tile: RowTile, plain: Buf) -> None:
        """The results of a tile whose columns are apart in memory: transposed in squares, and stored column by column."""
        size, width = self.t.lanes, panel.elements
        turned = Buf(self.named("turned"), (width * size,), self.c.dtype, "local")
        self.out.append(Alloc(turned))
        for first in range(0, tile.rows, size):
            rows = min(size, tile.rows - first)
            with self.loop(VECTOR, width // size):
                start = affine(VECTOR) * size
                self.out.append(
                    Transpose(
                        Ref(plain, (start + first * width,)),
                        width,
                        rows,
                        size,
                        Ref(turned, (start * size,)),
                    )
                )

            def lanes(put: Store, rows: int = rows) -> Sequence[Statement]:
                return (For(LANE, affine(0), affine(rows), (0, rows), (put,), "lanes"),)

            target = self.element(panel, tile, affine(LANE) + first, panel.column + affine(COLUMN))
            column = affine(LINE) * (panel.vectors * size) + affine(COLUMN)
            with self.loop(LINE, panel.lines), self.loop(COLUMN, panel.width):
                self.stored(target, Ref(turned, (column * size + affine(LANE),)), lanes)

    def ask(self, panel: ColumnPanel, tile: RowTile, target: Ref) -> None:
        """Have the cache ask for the results of a tile."""
        step = max(1, self.line_elements(target.dtype) // self.t.lanes)
        for row in range(tile.rows):
            for line in range(panel.lines):
                for vector in range(0, panel.vectors, step):
                    place = {
                        I: affine(row),
                        LINE: affine(line),
                        VECTOR: affine(vector),
                        LANE: affine(0),
                    }
                    self.out.append(
                        Prefetch(
                            Ref(target.buf, tuple(s.substitute(place) for s in target.subscripts)),
                            write=True,
                        )
                    )

    def sums(
        self,
        panel: ColumnPanel,
        tile: RowTile,
        left: tuple[Buf, Affine],
        right: tuple[Buf | None, Affine],
        here: Ref,
    ) -> None:
        """The loops over depth around one product for each element of the tile."""
        buf, begin = right
        moving = [
            side
            for side, direct in (("left", not self.t.pack_left), ("right", buf is None))
            if direct
        ]
        own = {
            window.tap: window.between(*self.span(window.position, panel, tile))
            for window, _ in self.windows
        }
        whole = merged((self.outer, *self.inner), *moving, but=own)
        axes = [replace(axis, index=Index(f"{K}{n}")) for n, axis in enumerate(whole)]
        only = {
            axis.index: own[before.index]
            for before, axis in zip(whole, axes)
            if before.index in own
        }
        read = Buf(
            self.named("read"), (panel.lines, panel.vectors, self.t.lanes), self.c.dtype, "vector"
        )
        kept = Ref(read, (affine(LINE), affine(VECTOR), affine(LANE)))
        if tile.rows > 1:
            self.out.append(Alloc(read))
        with self.depth(axes, "rolled", only) as place:
            if buf:
                self.look_ahead(buf, begin + place * panel.elements, panel, tile)
            if buf and self.ahead("right"):
                self.look_further(buf, begin, panel, self.visit(tile) * self.most + place)
            if not buf and self.visits < FEW:
                self.look_along(panel, tile, axes)
            one = (
                Ref(left[0], (left[1] + self.in_tiles(tile, place),))
                if self.t.pack_left
                else self.of_left(tile, axes)
            )
            other = (
                Ref(buf, (begin + self.in_panel(panel, place),))
                if buf
                else self.of_right(panel, self.column(panel), axes)
            )
            if tile.rows > 1:
                self.out += each(panel, 1, Store(kept, "=", other), whole=True)
                other = kept
            self.out += each(
                panel,
                tile.rows,
                Store(here, "+=", Apply("mul", (one, other), self.c.dtype)),
                whole=True,
            )

    def span(self, position: Index, panel: ColumnPanel, tile: RowTile) -> tuple[Affine, Affine]:
        """The first and the last value of an index of rows or columns in a tile."""
        if self.lines and self.lines.index == position:
            return panel.line, panel.line + panel.lines - 1
        if any(axis.index == position for axis in self.rows):
            return tile.first, tile.first + tile.rows - 1
        if any(axis.index == position for axis in self.columns):
            return panel.column, panel.column + panel.width - 1
        return affine(position), affine(position)

    def look_ahead(self, panels: Buf, at: Affine, panel: ColumnPanel, tile: RowTile) -> None:
        """Have the first cache ask for what a later step reads of a panel that is not in it."""
        size, line = numpy_dtype(self.c.dtype).itemsize, self.line_elements(self.c.dtype)
        if self.most * panel.elements * size <= AHEAD:
            return
        steps = self.steps_ahead(panel, tile)
        for element in range(0, panel.elements, line):
            self.out.append(Prefetch(Ref(panels, (at + steps * panel.elements + element,))))

    def look_along(self, panel: ColumnPanel, tile: RowTile, axes: Sequence[StridedAxis]) -> None:
        """Have the second cache ask for what a later step reads of an operand in place, whose steps the processor does not see coming.

        The first cache often has all of them in few of its sets.
        """
        inner, size, steps = (
            axes[-1],
            numpy_dtype(self.c.dtype).itemsize,
            self.steps_ahead(panel, tile),
        )
        if abs(inner.right) * size < UNSEEN or inner.extent <= 2 * steps:
            return
        for line in range(panel.lines):
            for element in range(0, panel.width, self.line_elements(self.c.dtype)):
                read = self.of_right(panel, panel.column + element, axes)
                place = read.subscripts[0].substitute({LINE: affine(line)}) + steps * inner.right
                self.out.append(Prefetch(replace(read, subscripts=(place,)), level=2))

    def steps_ahead(self, panel: ColumnPanel, tile: RowTile) -> int:
        """How many steps of depth before its use a part of a panel is asked for."""
        size = numpy_dtype(self.c.dtype).itemsize
        return min(
            -(-2 * CYCLES * self.t.lanes // (tile.rows * panel.elements)),
            max(1, AHEAD // (panel.elements * size)),
        )

    def look_further(self, panels: Buf, begin: Affine, panel: ColumnPanel, step: Affine) -> None:
        """Have the second cache ask for the panels that follow, evenly while few tiles of rows walk over these."""
        following = (
            self.t.group * self.steps if self.whole > self.t.group else 1 if self.steps > 1 else 0
        )
        if following and 1 < self.visits < FEW:
            part = -(-panel.elements // self.visits)
            for element in range(0, part, self.line_elements(self.c.dtype)):
                self.out.append(
                    Prefetch(
                        Ref(
                            panels,
                            (begin + following * self.panel_elements + step * part + element,),
                        ),
                        level=2,
                    )
                )

    def line_elements(self, dtype: str) -> int:
        return max(1, LINE_BYTES // numpy_dtype(dtype).itemsize)

    @property
    def visits(self) -> int:
        """How many tiles of a block read each panel."""
        return extent(self.outer_rows) * self.tiles // self.blocks

    def visit(self, tile: RowTile) -> Affine:
        """The number of a tile among these."""
        first = (
            affine(BLOCK) * self.t.block if self.blocks > 1 and not self.outer_rows else affine(0)
        )
        return flat(self.outer_rows) * self.tiles + tile.number - first

    def element(
        self, panel: ColumnPanel, tile: RowTile, row: Affine, column: Affine, side: Side = "target"
    ) -> Ref:
        """A result: of a row of a tile, in the line `LINE` of a panel; or what an epilogue reads there."""
        operand = self.c.beside[side] if isinstance(side, int) else self.c.target
        begin = offset((*self.c.batch, *self.outer_rows), side) + operand.offset
        place = along(self.rows, tile.first + row, side)
        return Ref(
            operand.flat,
            (begin + place + self.line(panel, side) + along(self.columns, column, side),),
        )


def _dense(axes: Sequence[StridedAxis], step: int = 1) -> tuple[StridedAxis, ...]:
    """Axes whose results lie one after the other, the innermost `step` elements apart."""
    found: list[StridedAxis] = []
    for axis in reversed(axes):
        found.insert(0, replace(axis, target=step, beside=()))
        step *= axis.extent
    return tuple(found)
