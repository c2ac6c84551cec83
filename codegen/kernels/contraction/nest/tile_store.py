"""Stores of a register tile: in vectors, transposed, or through an epilogue (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.ir.builder import LANE
from codegen.ir.nodes import (
    Buf,
    For,
    If,
    Predicate,
    Ref,
    Statement,
    Store,
    Transpose,
    Value,
)
from codegen.kernels.contraction.nest.builder import (
    LINE,
    STEP,
    VECTOR,
    ColumnPanel,
    I,
    PartitionWalk,
    RowTile,
    valid_vectors,
    whole_vectors,
)
from codegen.kernels.epilogue import epilogue_value
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

COLUMN = Index("column")


@dataclass(frozen=True)
class TileStore:
    """Writes the sums of one register tile to the result, or adds them to those of earlier steps.

    The last step of depth knows what an epilogue asks for.
    """

    walk: PartitionWalk
    panel: ColumnPanel
    tile: RowTile

    def write(self, sums: Ref) -> None:
        """Store the sums, a register tile."""
        w, walk = self.walk.w, self.walk
        is_transposed = self.panel.lanes > 1 and walk.p.columns[-1].target != 1
        if is_transposed:
            plain = self._spill(sums)
            if walk.c.epilogue:
                w.out += self._in_last_step(self._apply_epilogue(plain, in_place=True))
            self._store_transposed(plain)
        elif walk.c.epilogue:
            with w.nested() as last:
                w.out += self._apply_epilogue(self._spill(sums), in_place=False)
            self._store(self.target(), sums, self._valid, last)
        else:
            self._store(self.target(), sums, self._valid)

    def target(self) -> Ref:
        """Return the results of the tile, in `I`, `LINE`, `VECTOR` and `LANE`."""
        return self.walk.result(self.panel, self.tile, affine(I), self.walk.column(self.panel))

    # Steps of depth.

    def _store(
        self,
        target: Ref,
        value: Ref,
        loops: Callable[[Store], Sequence[Statement]],
        last: Sequence[Statement] | None = None,
    ) -> None:
        """Write results in the first step of depth, and add to them in the others.

        In the last step `last` is done instead, if it is given.
        """
        walk = self.walk
        statements = loops(Store(target, "=", value))
        adding = walk.p.steps if last is None else walk.p.steps - 1
        if adding > 1 and not walk.p.has_separate_sums:
            total = walk.c.combined(target, value)
            statements = self._in_step(0, statements, loops(Store(target, "=", total)))
        if last is not None:
            statements = self._in_last_step(last, statements)
        walk.w.out += statements

    def _in_last_step(
        self, last: Sequence[Statement], earlier: Sequence[Statement] = ()
    ) -> Sequence[Statement]:
        """Return statements for the last step of depth, and for those before."""
        if self.walk.p.steps == 1:
            return last
        return self._in_step(self.walk.p.steps - 1, last, earlier)

    @staticmethod
    def _in_step(
        number: int, then: Sequence[Statement], otherwise: Sequence[Statement]
    ) -> Sequence[Statement]:
        """Return statements for a step of depth, and for the others."""
        if tuple(then) == tuple(otherwise):
            return then
        is_it = Predicate((Constraint(affine(STEP) - number, "=="),))
        return (If(is_it, tuple(then), tuple(otherwise)),)

    def _valid(self, store: Store) -> Sequence[Statement]:
        return valid_vectors(self.panel, self.tile.rows, store)

    # Through memory.

    def _spill(self, sums: Ref) -> Buf:
        """Write the sums to memory, row after row."""
        walk, size = self.walk, self.tile.rows * self.panel.elements
        plain = walk.w.local("plain", (size,), walk.c.dtype)
        place = self._spilled(plain, affine(VECTOR) * walk.t.lanes + affine(LANE))
        walk.w.out += whole_vectors(self.panel, self.tile.rows, Store(place, "=", sums))
        return plain

    def _spilled(self, plain: Buf, column: Affine) -> Ref:
        """Return a sum of row `I` and line `LINE` that was spilled."""
        line_elements = self.panel.vectors * self.walk.t.lanes
        place = affine(I) * self.panel.elements + affine(LINE) * line_elements + column
        return Ref(plain, (place,))

    def _apply_epilogue(self, plain: Buf, in_place: bool) -> Sequence[Statement]:
        """Return what computes an epilogue of the spilled sums and of those of earlier steps.

        It writes in the place of the sums, or to the result.
        """
        walk, panel = self.walk, self.panel
        column = panel.column + affine(COLUMN)
        target, *others = (
            walk.result(panel, self.tile, affine(I), column, side) for side in walk.c.stored_sides
        )
        here = self._spilled(plain, affine(COLUMN))
        total: Value = here
        if walk.p.steps > 1:
            total = walk.c.combined(target, here)
        if in_place:
            target = here
        value = epilogue_value(walk.c.epilogue, total, others)
        body: Statement = Store(target, "=", value)
        loops = ((COLUMN, panel.width, "vec"), (LINE, panel.lines, "seq"))
        for index, count, kind in (*loops, (I, self.tile.rows, "seq")):
            body = For(index, affine(0), affine(count), (0, count), (body,), kind)
        return (body,)

    # Transposed.

    def _store_transposed(self, plain: Buf) -> None:
        """Store results whose columns are apart in memory: in transposed squares, by columns."""
        w, size, width = self.walk.w, self.walk.t.lanes, self.panel.elements
        turned = w.local("turned", (width * size,), self.walk.c.dtype)
        for first in range(0, self.tile.rows, size):
            rows = min(size, self.tile.rows - first)
            with w.loop(VECTOR, width // size) as vector:
                start = vector * size
                square = Ref(plain, (start + first * width,))
                to = Ref(turned, (start * size,))
                w.out.append(Transpose(square, width, rows, size, to, size))
            self._store_columns(turned, first, rows)

    def _store_columns(self, turned: Buf, first: int, rows: int) -> None:
        """Store so many rows of all columns, from a row of the tile on."""
        walk, panel, size = self.walk, self.panel, self.walk.t.lanes

        def lanes(store: Store) -> Sequence[Statement]:
            return (For(LANE, affine(0), affine(rows), (0, rows), (store,), "lanes"),)

        row, column = affine(LANE) + first, panel.column + affine(COLUMN)
        target = walk.result(panel, self.tile, row, column)
        place = affine(LINE) * (panel.vectors * size) + affine(COLUMN)
        value = Ref(turned, (place * size + affine(LANE),))
        # With an epilogue applied, the results of the last step are whole already.
        last = lanes(Store(target, "=", value)) if walk.c.epilogue else None
        with walk.w.loop(LINE, panel.lines), walk.w.loop(COLUMN, panel.width):
            self._store(target, value, lanes, last)
