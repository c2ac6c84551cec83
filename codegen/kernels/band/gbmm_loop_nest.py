"""The loop nest of a band product whose left operand is the band: `target[q, k] = Σ_n left[q, n - q - low]·right[n, k]` (design §10).

    for each batch
      copy the right operand into vectors along k          (where it does not lie so, or is read often)
      for each tile of rows
        copy its part of the band
        for each panel of columns
          sum rows x vectors in registers over n, and store them

A tile of R rows meets `taps + R - 1` rows of the right operand. Its part of the band is copied as a parallelogram, zeros on either side.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.hardware.cpu import CpuModel
from codegen.ir.builder import LANE, LoopBuilder, minimum, maximum
from codegen.ir.nodes import Apply, Buf, Number, Prefetch, Ref, Store
from codegen.kernels.band.problem import BandProduct, step_cycles
from codegen.kernels.contraction.cost_model import even_tiles
from codegen.kernels.strided_axes import extent, offset
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import numpy_dtype

TILE, COLUMNS, I, VECTOR, ROW = (Index(name) for name in ("tile", "columns", "i", "v", "row"))
GAP = 16
AHEAD = 6  # rows of the right operand for which the first cache is asked early
OFTEN = 8  # tiles that read a row of the right operand, from which on it is copied: vectors across two lines of the cache take two loads
BATCHES = 4  # for each core, from which on threads share these alone


@dataclass(frozen=True)
class GbmmTile:
    """The numbers of a nest: elements of a vector, most rows of a tile, vectors of a panel."""

    lanes: int
    rows: int
    vectors: int


def choose_tile(band: BandProduct, machine: CpuModel) -> GbmmTile:
    """The numbers that keep the machine's registers busiest."""
    size, most, rows, taps = (
        numpy_dtype(band.dtype).itemsize,
        machine.registers,
        band.rows.extent,
        band.taps.extent,
    )

    def width(lanes: int) -> int:
        return -(-extent(band.inner) // lanes)

    def cycles(way: GbmmTile) -> float:
        """What the sums of all columns of a row cost."""
        whole, last = divmod(width(way.lanes), way.vectors)
        steps = [
            step_cycles(way.rows, v) for v in (*[way.vectors] * whole, *([last] if last else []))
        ]
        return machine.passes(way.lanes, size) * sum(steps) * (taps + way.rows) / way.rows

    ways = (
        GbmmTile(lanes, n, v)
        for lanes in machine.widths(size)
        for v in range(1, width(lanes) + 1)
        for n in range(1, min(rows, most) + 1)
    )
    return min((way for way in ways if (way.rows + 1) * way.vectors < most), key=cycles)


def write_gbmm(w: LoopBuilder, band: BandProduct, machine: CpuModel, parallel: bool) -> None:
    """Write the nest; threads share batches, or tiles of rows, where `parallel`."""
    _GbmmNest(w, band, choose_tile(band, machine), machine, parallel).write()


class _GbmmNest:
    def __init__(
        self,
        w: LoopBuilder,
        band: BandProduct,
        numbers: GbmmTile,
        machine: CpuModel,
        parallel: bool,
    ):
        self.w, self.b, self.f = w, band, numbers
        self.begin = {
            side: offset(band.batch, side) + getattr(band, side).offset
            for side in ("left", "right", "target")
        }
        batched = (
            extent(band.batch) >= BATCHES * machine.cores
            or len(band.batch)
            and band.rows.extent < BATCHES * machine.cores
        )
        self.kinds = (
            ("par", "seq")
            if parallel and batched
            else ("seq", "par")
            if parallel
            else ("seq", "seq")
        )
        self.size = extent(band.inner)
        self.width = -(-self.size // numbers.lanes)  # vectors
        axis = band.inner[-1] if band.inner else None
        alone = len(band.inner) == 1 and axis is not None and axis.right == 1
        seldom = band.taps.extent < OFTEN * numbers.rows
        self.direct = (
            alone
            and seldom
            and self.size % numbers.lanes == 0
            and band.right.buf.dtype == band.dtype
        )

    def write(self) -> None:
        with self.w.loops(self.b.batch, self.kinds[0]):
            right, first = self.b.right.flat if self.direct else self.copied(), 0
            for rows, count in even_tiles(self.b.rows.extent, self.f.rows):
                with self.w.loop(TILE, count, kind=self.kinds[1]) as tile:
                    self.rows(right, tile * rows + first, rows)
                first += rows * count

    def copied(self) -> Buf:
        """The right operand in whole vectors along k, the last one filled up with zeros."""
        w, b, line = self.w, self.b, self.width * self.f.lanes
        copy = w.local("lines", (b.across.extent * line,), b.dtype)
        with w.loop(b.across.index, b.across.extent, kind=self.kinds[1]) as n:
            with w.loops(b.inner):
                place = affine(0)
                for axis in b.inner:
                    place = place * axis.extent + affine(axis.index)
                read = Ref(
                    b.right.flat,
                    (self.begin["right"] + n * b.across.right + offset(b.inner, "right"),),
                )
                w.put(Ref(copy, (n * line + place,)), "=", read)
            if self.size < line:
                with w.loop(LANE, line, self.size, "vec") as lane:
                    w.put(Ref(copy, (n * line + lane,)), "=", Number(0, b.dtype))
        return copy

    def rows(self, right: Buf, start: Affine, rows: int) -> None:
        """A tile of rows with all columns."""
        band, line = self.skewed(start, rows)
        whole, rest = divmod(self.width, self.f.vectors)
        if not rest and self.size % self.f.lanes:  # the last panel is stored in part
            whole, rest = whole - 1, self.f.vectors
        if whole:
            with self.w.loop(COLUMNS, whole) as panel:
                self.tile(
                    band, line, right, start, rows, panel * self.f.vectors, self.f.vectors, False
                )
        if rest:
            self.tile(band, line, right, start, rows, affine(whole * self.f.vectors), rest, True)

    # One register tile.

    def tile(
        self,
        band: Buf,
        line: int,
        right: Buf,
        start: Affine,
        rows: int,
        vector: Affine,
        vectors: int,
        last: bool,
    ) -> None:
        w, b, lanes = self.w, self.b, self.f.lanes
        sums = w.local("sum", (rows, vectors, lanes), b.dtype, "vector")
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        w.lanes(Store(here, "=", Number(0, b.dtype)), lanes, (VECTOR, 0, vectors), (I, 0, rows))
        begin = start + b.low
        with w.loop(
            b.across.index,
            minimum(b.across.extent, begin + (b.taps.extent + rows - 1)),
            maximum(0, begin),
            known=(0, b.across.extent),
        ) as n:
            left = Ref(band, (affine(I) * line + n - begin,))
            w.lanes(
                Store(here, "+=", Apply("mul", (left, self.right(right, n, vector)), b.dtype)),
                lanes,
                (VECTOR, 0, vectors),
                (I, 0, rows),
            )
            w.out.append(Prefetch(self.ahead(start + rows, rows, n - begin), level=2))
            for number in range(vectors):
                ref = self.right(right, n + AHEAD, vector)
                place = {VECTOR: affine(number), LANE: affine(0)}
                w.out.append(
                    Prefetch(
                        Ref(
                            ref.buf,
                            tuple(subscript.substitute(place) for subscript in ref.subscripts),
                        )
                    )
                )
        self.store(here, start, rows, vector, vectors, last)

    def skewed(self, start: Affine, rows: int) -> tuple[Buf, int]:
        """The band's rows of a tile, each where it meets the same rows of the right operand as the others; 0 outside the band."""
        w, b, taps = self.w, self.b, self.b.taps.extent
        line = taps + rows - 1
        line += (GAP - line) % (
            2 * GAP
        )  # lines that lie a power of two apart would displace one another from the cache
        band = w.local("band", (rows * line,), b.dtype)
        with w.loop(ROW, rows) as row:
            for low, high in ((affine(0), row), (row + taps, affine(line))):
                with w.loop(LANE, high, low, "vec", known=(0, line)) as lane:
                    w.put(Ref(band, (row * line + lane,)), "=", Number(0, b.dtype))
            with w.loop(LANE, taps, kind="vec") as lane:
                read = Ref(
                    b.left.flat,
                    (self.begin["left"] + (start + row) * b.rows.left + lane * b.taps.left,),
                )
                w.put(Ref(band, (row * line + row + lane,)), "=", read)
        return band, line

    def ahead(self, start: Affine, rows: int, step: Affine) -> Ref:
        """An element of the band's rows of the next tile; all of their cache lines in as many steps as a tile has."""
        b = self.b
        if b.rows.left == b.taps.extent * b.taps.left:
            place = step * (rows * b.taps.left)
        else:
            near = (
                1 << (rows - 1).bit_length()
            )  # a power of two, by which nothing has to be divided
            place = affine(step % near) * b.rows.left + affine(step // near) * (near * b.taps.left)
        return Ref(b.left.flat, (self.begin["left"] + start * b.rows.left + place,))

    def store(
        self, here: Ref, start: Affine, rows: int, vector: Affine, vectors: int, last: bool
    ) -> None:
        """The sums as they lie in the result; of the last vector, what counts."""
        rest = self.size % self.f.lanes if last else 0
        for low, high, lanes in (
            (0, vectors - bool(rest), self.f.lanes),
            (vectors - 1, vectors if rest else 0, rest),
        ):
            column = (vector + affine(VECTOR)) * self.f.lanes + affine(LANE)
            self.w.lanes(
                Store(self.target(start + affine(I), column), "=", here),
                lanes,
                (VECTOR, low, high),
                (I, 0, rows),
            )

    def right(self, right: Buf, n: Affine, vector: Affine) -> Ref:
        place = (vector + affine(VECTOR)) * self.f.lanes + affine(LANE)
        if self.direct:
            return Ref(right, (self.begin["right"] + n * self.b.across.right + place,))
        return Ref(right, (n * (self.width * self.f.lanes) + place,))

    def target(self, row: Affine, column: Affine) -> Ref:
        b, at, inner = self.b, affine(0), 1
        for number, axis in reversed(list(enumerate(b.inner))):
            digit = (
                column
                if len(b.inner) == 1
                else column // inner
                if number == 0
                else column // inner % axis.extent
            )
            at, inner = at + affine(digit) * axis.target, inner * axis.extent
        return Ref(b.target.flat, (self.begin["target"] + row * b.rows.target + at,))
