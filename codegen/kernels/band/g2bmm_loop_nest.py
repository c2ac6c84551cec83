"""The loop nest of a band product whose result is the band: `target[q, n - q - low] = Σ_k left[q, k]·right[n, k]` (design §10).

    for each batch, and block of rows
      copy the rows of the right operand that the block meets into vectors across them
      for each group of as many rows as a vector has elements
        for each chunk of vectors
          for each tile of the group's rows: sum rows x vectors in registers over k, and store what is inside the band

The vectors of a group begin where the band of its first row begins, so that all groups meet whole vectors of the copy. A tile at the
edge of the band is stored element by element; chunks that meet no row of the right operand are 0 and cost no sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from codegen.hardware.cpu import CpuModel
from codegen.ir.builder import LANE, LoopBuilder, minimum, maximum
from codegen.ir.nodes import Apply, Bound, Buf, MinMax, Number, Prefetch, Ref, Store, Transpose
from codegen.kernels.band.problem import BandProduct, step_cycles
from codegen.kernels.contraction.cost_model import even_tiles
from codegen.kernels.strided_axes import extent, offset
from einalg.language.index.affine import Affine, Index, floordiv
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import numpy_dtype

BLOCK, GROUP, CHUNK, TILE, ROW, TAP = (
    Index(name) for name in ("block", "group", "chunk", "tile", "row", "tap")
)
PANEL, PART, I, VECTOR = (Index(name) for name in ("panel", "part", "i", "v"))
SHARES = 4  # blocks for each core, so that threads end together


@dataclass(frozen=True)
class G2bmmTile:
    """The numbers of a nest: elements of a vector, most rows of a tile, vectors of a chunk, groups of a block."""

    lanes: int
    rows: int
    vectors: int
    block: int

    def chunks(self, taps: int, rows: int) -> int:
        """Chunks that the band of so many rows takes."""
        return -(-(taps + rows - 1) // (self.lanes * self.vectors))


def choose_tile(band: BandProduct, machine: CpuModel) -> G2bmmTile:
    """The numbers that keep the machine's registers busiest."""
    lanes = machine.vector // numpy_dtype(band.dtype).itemsize
    group = min(lanes, band.rows.extent)
    most_vectors = -(-(band.taps.extent + group - 1) // lanes)
    pairs = (
        (rows, vectors) for vectors in range(1, most_vectors + 1) for rows in range(1, group + 1)
    )
    ways = [
        G2bmmTile(lanes, *pair, 1) for pair in pairs if (pair[0] + 1) * pair[1] < machine.registers
    ]
    best = min(ways, key=lambda way: _cycles(band, group, way))
    return replace(best, block=_block(band, machine, lanes))


def _cycles(band: BandProduct, group: int, way: G2bmmTile) -> float:
    """What one step of the sums of a group costs."""
    tiles = ((step_cycles(rows, way.vectors), count) for rows, count in even_tiles(group, way.rows))
    return way.chunks(band.taps.extent, group) * sum(count * step for step, count in tiles)


def _block(band: BandProduct, machine: CpuModel, lanes: int) -> int:
    """Groups of a block: what its rows meet fits half of the second cache; and threads find enough of them, if the band is not copied too often."""
    line = extent(band.inner) * numpy_dtype(band.dtype).itemsize
    groups = max(1, band.rows.extent // lanes)
    held = (machine.level2 // 2 // max(1, line) - band.taps.extent) // lanes
    wanted = (
        groups
        if machine.cores == 1
        else -(-groups * extent(band.batch) // (SHARES * machine.cores))
    )
    most_groups = min(groups, max(1, band.taps.extent // lanes, min(held, wanted)))
    return -(-groups // -(-groups // most_groups))  # blocks of one size


def write_g2bmm(w: LoopBuilder, band: BandProduct, machine: CpuModel, parallel: bool) -> None:
    """Write the nest; threads share batches and blocks where `parallel`."""
    _G2bmmNest(w, band, choose_tile(band, machine), parallel).write()


class _G2bmmNest:
    def __init__(self, w: LoopBuilder, band: BandProduct, numbers: G2bmmTile, parallel: bool):
        self.w, self.b, self.f, self.kind = w, band, numbers, "par" if parallel else "seq"
        self.depth = extent(band.inner)
        self.begin = {
            side: offset(band.batch, side) + getattr(band, side).offset
            for side in ("left", "right", "target")
        }

    def write(self) -> None:
        b, f = self.b, self.f
        groups, rest = divmod(b.rows.extent, f.lanes)
        blocks = -(-groups // f.block)
        with self.w.loops(b.batch, self.kind):
            if blocks == 1:
                self.block(affine(0), groups, affine(groups))
            elif blocks:
                with self.w.loop(BLOCK, blocks, kind=self.kind) as block:
                    number = minimum(
                        f.block, *((affine(groups) - block * f.block,) if groups % f.block else ())
                    )
                    self.block(block * (f.block * f.lanes), f.block, number)
        if rest:
            with self.w.loops(b.batch, self.kind):
                self.last(affine(groups * f.lanes), rest)

    def block(self, start: Affine, groups: int, number: Bound) -> None:
        """Groups of rows from row `start` on."""
        width = self.f.chunks(self.b.taps.extent, self.f.lanes) * self.f.vectors
        panels = self.w.local(
            "panels", ((groups - 1 + width) * self.depth * self.f.lanes,), self.b.dtype
        )
        self.copy(panels, start, _each(number, lambda n: n + (width - 1)), groups + width - 1)
        with self.w.loop(GROUP, number, known=(0, groups)) as group:
            self.group(panels, start + group * self.f.lanes, group, self.f.lanes)

    def last(self, start: Affine, rows: int) -> None:
        """The rows that fill no group."""
        width = self.f.chunks(self.b.taps.extent, rows) * self.f.vectors
        panels = self.w.local("panels", (width * self.depth * self.f.lanes,), self.b.dtype)
        self.copy(panels, start, affine(width), width)
        self.group(panels, start, affine(0), rows)

    # The right operand.

    def copy(self, panels: Buf, start: Affine, number: Bound, largest: int) -> None:
        """The rows of the right operand from where the band of row `start` begins: in each panel, a vector of rows for every k."""
        b, lanes = self.b, self.f.lanes
        with self.w.loop(PANEL, number, known=(0, largest)) as panel:
            first, begin = start + panel * lanes + b.low, panel * (self.depth * lanes)
            after = -first + b.across.extent  # rows from the first one on
            if (
                len(b.inner) != 1
                or b.inner[0].right != 1
                or self.depth % lanes
                or b.right.buf.dtype != b.dtype
                or lanes < 2
            ):
                return self.part_copied(panels, begin, first, after)
            with (
                self.w.where(Constraint(first, ">="), Constraint(after - lanes, ">=")),
                self.w.loop(PART, self.depth // lanes) as part,
            ):
                source = Ref(
                    b.right.flat, (self.begin["right"] + first * b.across.right + part * lanes,)
                )
                self.w.out.append(
                    Transpose(
                        source,
                        b.across.right,
                        lanes,
                        lanes,
                        Ref(panels, (begin + part * (lanes * lanes),)),
                    )
                )
            with self.w.otherwise():
                self.part_copied(panels, begin, first, after)

    def part_copied(self, panels: Buf, begin: Affine, first: Affine, after: Affine) -> None:
        """One panel whose first row is row `first`, element by element; 0 where there are no rows."""
        b, lanes = self.b, self.f.lanes
        for outside in (Constraint(-first - 1, ">="), Constraint(-after + (lanes - 1), ">=")):
            with self.w.where(outside), self.w.loop(LANE, self.depth * lanes, kind="vec") as lane:
                self.w.put(Ref(panels, (begin + lane,)), "=", Number(0, b.dtype))
        with (
            self.w.loop(LANE, minimum(lanes, after), maximum(0, -first), known=(0, lanes)) as lane,
            self.w.loops(b.inner),
        ):
            self.w.put(
                Ref(panels, (begin + self.place() * lanes + lane,)), "=", self.right(first + lane)
            )

    def right(self, row: Affine) -> Ref:
        b = self.b
        return Ref(
            b.right.flat, (self.begin["right"] + row * b.across.right + offset(b.inner, "right"),)
        )

    def place(self) -> Affine:
        """How many k came before."""
        before = affine(0)
        for axis in self.b.inner:
            before = before * axis.extent + affine(axis.index)
        return before

    # A group of rows.

    def group(self, panels: Buf, start: Affine, panel: Affine, rows: int) -> None:
        """Rows from row `start` on, whose vectors begin with the one of number `panel`."""
        f, b = self.f, self.b
        chunks, step, begin = f.chunks(b.taps.extent, rows), f.vectors * f.lanes, start + b.low
        first = maximum(0, minimum(chunks, floordiv(-begin, step)))  # chunks before it meet no row
        end = minimum(chunks, maximum(0, floordiv(-begin + (b.across.extent + step - 1), step)))
        with self.w.loop(CHUNK, end, first, known=(0, chunks)) as chunk:
            before = 0
            for size, count in even_tiles(rows, f.rows):
                with self.w.loop(TILE, count) as tile:
                    self.chunk(panels, start, tile * size + before, size, panel, chunk)
                before += size * count
        self.zeros(start, rows, first, end, step)

    def chunk(
        self, panels: Buf, start: Affine, first: Affine, rows: int, panel: Affine, chunk: Affine
    ) -> None:
        """Sum one register tile of so many rows from the group's row `first` on, and store what is inside the band."""
        w, b, f = self.w, self.b, self.f
        sums = w.local("sum", (rows, f.vectors, f.lanes), b.dtype, "vector")
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        every = (VECTOR, 0, f.vectors), (I, 0, rows)
        w.lanes(Store(here, "=", Number(0, b.dtype)), f.lanes, *every)
        row = first + affine(I)
        for i, vector in product(range(rows), range(f.vectors) if b.taps.target == 1 else ()):
            tap = chunk * (f.vectors * f.lanes) + vector * f.lanes - first - i
            w.out.append(Prefetch(self.target(start + first + i, tap), write=True))
        with w.loops(b.inner):
            left = Ref(
                b.left.flat,
                (self.begin["left"] + (start + row) * b.rows.left + offset(b.inner, "left"),),
            )
            number = panel + chunk * f.vectors + affine(VECTOR)
            right = Ref(panels, ((number * self.depth + self.place()) * f.lanes + affine(LANE),))
            w.lanes(Store(here, "+=", Apply("mul", (left, right), b.dtype)), f.lanes, *every)
        column, size = chunk * (f.vectors * f.lanes), f.vectors * f.lanes
        with w.where(
            Constraint(column - first - (rows - 1), ">="),
            Constraint(first - column + (b.taps.extent - size), ">="),
        ):
            place = column + affine(VECTOR) * f.lanes + affine(LANE)
            w.lanes(Store(self.target(start + row, place - row), "=", here), f.lanes, *every)
        with w.otherwise():
            self.part(here, start, first, rows, column)

    def part(self, here: Ref, start: Affine, first: Affine, rows: int, column: Affine) -> None:
        """Store what is inside the band of a tile that begins at a column."""
        w, f, size, taps = self.w, self.f, self.f.vectors * self.f.lanes, self.b.taps.extent
        spilled = w.local("edge", (rows * size,), self.b.dtype)
        at = (affine(I) * f.vectors + affine(VECTOR)) * f.lanes + affine(LANE)
        w.lanes(
            Store(Ref(spilled, (at,)), "=", here), f.lanes, (VECTOR, 0, f.vectors), (I, 0, rows)
        )
        with w.loop(ROW, rows) as row:
            low = column - first - row
            with w.loop(TAP, minimum(taps, low + size), maximum(0, low), "vec", known=(0, taps)) as tap:
                w.put(
                    self.target(start + first + row, tap),
                    "=",
                    Ref(spilled, (row * size + tap - low,)),
                )

    def zeros(self, start: Affine, rows: int, first: Bound, end: Bound, step: int) -> None:
        """What chunks that meet no row leave out."""
        taps = self.b.taps.extent
        with self.w.loop(ROW, rows) as row:
            before, after = (_each(bound, lambda u: u * step - row) for bound in (first, end))
            for low, high in ((affine(0), minimum(taps, before)), (maximum(0, after), affine(taps))):
                with self.w.loop(TAP, high, low, "vec", known=(0, taps)) as tap:
                    self.w.put(
                        self.target(start + row, tap), "=", Number(0, self.b.target.buf.dtype)
                    )

    def target(self, row: Affine, tap: Affine) -> Ref:
        b = self.b
        return Ref(
            b.target.flat, (self.begin["target"] + row * b.rows.target + tap * b.taps.target,)
        )


def _each(bound: Bound, change: Callable[[Affine], Affine]) -> Bound:
    """A bound with every part of it changed."""
    return (
        change(bound)
        if isinstance(bound, Affine)
        else MinMax(bound.op, tuple(_each(b, change) for b in bound.of))
    )
