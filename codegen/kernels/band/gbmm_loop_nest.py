"""The loop nest of a band product whose left operand is the band (design §10).

    target[q, k] = Σ_n left[q, n - q - low]·right[n, k]

    for each batch
      copy the right operand into vectors along k          (unless it lies so, and is read seldom)
      for each tile of rows
        copy its part of the band
        for each panel of columns
          sum rows x vectors in registers over n, and store them

A tile of R rows meets `taps + R - 1` rows of the right operand. Its part of the band is copied as a
parallelogram, zeros on either side.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from codegen.hardware.cpu import CpuModel
from codegen.ir.builder import LANE, LoopBuilder, maximum, minimum
from codegen.ir.nodes import Apply, Buf, Number, Prefetch, Ref, Store
from codegen.kernels.band.problem import BandProduct, refused_sums, step_cycles
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.strided_axes import even_tiles, extent, offset
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import numpy_dtype
from einalg.text.wording import either_of

TILE, COLUMNS, I, VECTOR, ROW = (Index(name) for name in ("tile", "columns", "i", "v", "row"))
GAP_ELEMENTS = 16  # lines a power of two apart would displace one another from the cache
PREFETCHED_ROWS = 6  # of the right operand, for which the first cache is asked early
MIN_COPY_TILES = 8  # that read a row of the right operand, from which on it is copied: vectors
# across two lines of the cache take two loads
MIN_BATCHES_PER_CORE = 4  # from which on threads share batches alone


@dataclass(frozen=True)
class GbmmTile:
    """The numbers of a nest: elements of a vector, most rows of a tile, vectors of a panel."""

    lanes: int
    rows: int
    vectors: int


def choose_tile(band: BandProduct, machine: CpuModel) -> GbmmTile:
    """Return the numbers that keep the machine's registers busiest."""
    best, fewest_cycles = None, inf
    for lanes in machine.widths(numpy_dtype(band.dtype).itemsize):
        for vectors in range(1, -(-extent(band.inner) // lanes) + 1):
            for rows in range(1, min(band.rows.extent, machine.registers) + 1):
                tile = GbmmTile(lanes, rows, vectors)
                if fits(band, tile, machine):
                    cycles = _row_cycles(band, machine, tile)
                    if cycles < fewest_cycles:
                        best, fewest_cycles = tile, cycles
    assert best is not None
    return best


def fits(band: BandProduct, tile: GbmmTile, machine: CpuModel) -> bool:
    """Say whether a nest can have these numbers, and its sums are in registers."""
    return refusal(band, tile, machine) is None


def refusal(band: BandProduct, tile: GbmmTile, machine: CpuModel) -> str | None:
    """Say in words why a nest cannot have these numbers; None where it can."""
    if min(tile.rows, tile.vectors) < 1:
        return "each number is at least 1"
    if tile.rows > band.rows.extent:
        return f"there are {band.rows.extent} rows"
    widths = machine.widths(numpy_dtype(band.dtype).itemsize)
    if tile.lanes not in widths:
        return f"vectors have {either_of(sorted(widths))} elements here"
    return refused_sums(tile.rows, tile.vectors, machine)


def gbmm_cycles(band: BandProduct, tile: GbmmTile, machine: CpuModel) -> float:
    """Return the cycles of a nest: of its sums, of copying the band, and of its stores."""
    rows = band.rows.extent
    copies = rows * band.taps.extent * CPU_COSTS.copied_element
    stores = rows * -(-extent(band.inner) // tile.lanes) * CPU_COSTS.store
    return extent(band.batch) * (rows * _row_cycles(band, machine, tile) + copies + stores)


def _row_cycles(band: BandProduct, machine: CpuModel, tile: GbmmTile) -> float:
    """Return the cycles of the sums of all columns of a row."""
    whole, last = divmod(-(-extent(band.inner) // tile.lanes), tile.vectors)
    passes = machine.passes(tile.lanes, numpy_dtype(band.dtype).itemsize)
    steps: float = 0
    for _ in range(whole):
        steps += step_cycles(tile.rows, tile.vectors, passes)
    if last:
        steps += step_cycles(tile.rows, last, passes)
    return steps * (band.taps.extent + tile.rows) / tile.rows


def write_gbmm(
    w: LoopBuilder, band: BandProduct, tile: GbmmTile, machine: CpuModel, parallel: bool
) -> None:
    """Write the nest; threads share batches, or tiles of rows, where `parallel`."""
    batch_kind = row_kind = "seq"
    if parallel and _shares_batches(band, machine):
        batch_kind = "par"
    elif parallel:
        row_kind = "par"
    _GbmmNest(w, band, tile, batch_kind, row_kind).write()


def _shares_batches(band: BandProduct, machine: CpuModel) -> bool:
    """Whether threads share batches rather than tiles of rows."""
    least = MIN_BATCHES_PER_CORE * machine.cores
    return extent(band.batch) >= least or (len(band.batch) > 0 and band.rows.extent < least)


def _reads_in_place(band: BandProduct, tile: GbmmTile) -> bool:
    """Whether the right operand is read as it lies: in whole vectors along k, by few tiles."""
    if len(band.inner) != 1 or band.inner[0].right != 1 or band.right.buf.dtype != band.dtype:
        return False
    return extent(band.inner) % tile.lanes == 0 and band.taps.extent < MIN_COPY_TILES * tile.rows


class _GbmmNest:
    """Writes the nest; the kinds are those of the loops over batches, and over rows."""

    def __init__(
        self, w: LoopBuilder, band: BandProduct, tile: GbmmTile, batch_kind: str, row_kind: str
    ):
        self.w, self.b, self.f = w, band, tile
        self.batch_kind, self.row_kind = batch_kind, row_kind
        self.begin = band.begin()
        self.size = extent(band.inner)
        self.width = -(-self.size // tile.lanes)  # vectors
        self.reads_in_place = _reads_in_place(band, tile)

    def write(self) -> None:
        with self.w.loops(self.b.batch, self.batch_kind):
            right = self.right_operand()
            first = 0
            for rows, count in even_tiles(self.b.rows.extent, self.f.rows):
                with self.w.loop(TILE, count, kind=self.row_kind) as tile:
                    self.rows(right, tile * rows + first, rows)
                first += rows * count

    def right_operand(self) -> Buf:
        """Return the right operand in whole vectors along k, the last one filled up with zeros."""
        w, b, line = self.w, self.b, self.width * self.f.lanes
        if self.reads_in_place:
            return b.right.flat
        copy = w.local("lines", (b.across.extent * line,), b.dtype)
        with w.loop(b.across.index, b.across.extent, kind=self.row_kind) as n:
            with w.loops(b.inner):
                place = affine(0)
                for axis in b.inner:
                    place = place * axis.extent + affine(axis.index)
                at = self.begin["right"] + n * b.across.right + offset(b.inner, "right")
                w.put(Ref(copy, (n * line + place,)), "=", Ref(b.right.flat, (at,)))
            if self.size < line:
                with w.loop(LANE, line, self.size, "vec") as lane:
                    w.put(Ref(copy, (n * line + lane,)), "=", Number(0, b.dtype))
        return copy

    def rows(self, right: Buf, start: Affine, rows: int) -> None:
        """Write a tile of rows with all columns."""
        band = self.skewed_band(start, rows)
        vectors = self.f.vectors
        whole, rest = divmod(self.width, vectors)
        if not rest and self.size % self.f.lanes:  # the last panel is stored in part
            whole, rest = whole - 1, vectors
        if whole:
            with self.w.loop(COLUMNS, whole) as panel:
                tile = _TilePlace(start, rows, panel * vectors, vectors)
                self.tile(band, right, tile)
        if rest:
            last_lanes = self.size % self.f.lanes
            tile = _TilePlace(start, rows, affine(whole * vectors), rest, last_lanes)
            self.tile(band, right, tile)

    def skewed_band(self, start: Affine, rows: int) -> Buf:
        """Return the band's rows of a tile, each where it meets the rows of the right operand.

        All meet the same of these; 0 outside the band.
        """
        w, b, taps = self.w, self.b, self.b.taps.extent
        line = self.band_line(rows)
        band = w.local("band", (rows * line,), b.dtype)
        with w.loop(ROW, rows) as row:
            for low, high in ((affine(0), row), (row + taps, affine(line))):
                with w.loop(LANE, high, low, "vec", known=(0, line)) as lane:
                    w.put(Ref(band, (row * line + lane,)), "=", Number(0, b.dtype))
            with w.loop(LANE, taps, kind="vec") as lane:
                at = self.begin["left"] + (start + row) * b.rows.left + lane * b.taps.left
                w.put(Ref(band, (row * line + row + lane,)), "=", Ref(b.left.flat, (at,)))
        return band

    def band_line(self, rows: int) -> int:
        """Return how far the rows of a tile's band are apart: no power of two."""
        line = self.b.taps.extent + rows - 1
        return line + (GAP_ELEMENTS - line) % (2 * GAP_ELEMENTS)

    # One register tile.

    def tile(self, band: Buf, right: Buf, tile: _TilePlace) -> None:
        w, b, f = self.w, self.b, self.f
        sums = w.local("sum", (tile.rows, tile.vectors, f.lanes), b.dtype, "vector")
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        every = (VECTOR, 0, tile.vectors), (I, 0, tile.rows)
        w.lanes(Store(here, "=", Number(0, b.dtype)), f.lanes, *every)
        begin, line = tile.start + b.low, self.band_line(tile.rows)
        stop = minimum(b.across.extent, begin + (b.taps.extent + tile.rows - 1))
        known = (0, b.across.extent)
        with w.loop(b.across.index, stop, maximum(0, begin), known=known) as n:
            left = Ref(band, (affine(I) * line + n - begin,))
            product = Apply("mul", (left, self.right(right, n, tile)), b.dtype)
            w.lanes(Store(here, "+=", product), f.lanes, *every)
            w.out.append(Prefetch(self.next_band(tile, n - begin), level=2))
            self.prefetch_right(right, n, tile)
        self.store(here, tile)

    def prefetch_right(self, right: Buf, n: Affine, tile: _TilePlace) -> None:
        """Have the first cache fetch what a later step reads of the right operand."""
        later = self.right(right, n + PREFETCHED_ROWS, tile)
        for number in range(tile.vectors):
            place = {VECTOR: affine(number), LANE: affine(0)}
            subscripts = tuple(subscript.substitute(place) for subscript in later.subscripts)
            self.w.out.append(Prefetch(Ref(later.buf, subscripts)))

    def next_band(self, tile: _TilePlace, step: Affine) -> Ref:
        """Return an element of the band's rows of the next tile.

        All of their cache lines come in as many steps as a tile has.
        """
        b, rows = self.b, tile.rows
        if b.rows.left == b.taps.extent * b.taps.left:
            place = step * (rows * b.taps.left)
        else:
            near = 1 << (rows - 1).bit_length()  # a power of two needs no division
            place = affine(step % near) * b.rows.left + affine(step // near) * (near * b.taps.left)
        at = self.begin["left"] + (tile.start + rows) * b.rows.left + place
        return Ref(b.left.flat, (at,))

    def store(self, here: Ref, tile: _TilePlace) -> None:
        """Store the sums as they lie in the result; of the last vector, what counts."""
        lanes, last = self.f.lanes, tile.last_lanes
        column = (tile.vector + affine(VECTOR)) * lanes + affine(LANE)
        store = Store(self.target(tile.start + affine(I), column), "=", here)
        full = tile.vectors - bool(last)
        self.w.lanes(store, lanes, (VECTOR, 0, full), (I, 0, tile.rows))
        if last:
            self.w.lanes(store, last, (VECTOR, full, tile.vectors), (I, 0, tile.rows))

    def right(self, right: Buf, n: Affine, tile: _TilePlace) -> Ref:
        place = (tile.vector + affine(VECTOR)) * self.f.lanes + affine(LANE)
        if self.reads_in_place:
            return Ref(right, (self.begin["right"] + n * self.b.across.right + place,))
        return Ref(right, (n * (self.width * self.f.lanes) + place,))

    def target(self, row: Affine, column: Affine) -> Ref:
        b = self.b
        place, inner = affine(0), 1
        for number, axis in reversed(list(enumerate(b.inner))):
            digit = column
            if len(b.inner) > 1:
                digit = column // inner
                if number > 0:
                    digit = digit % axis.extent
            place = place + affine(digit) * axis.target
            inner *= axis.extent
        return Ref(b.target.flat, (self.begin["target"] + row * b.rows.target + place,))


@dataclass(frozen=True)
class _TilePlace:
    """Rows from `start` on, and vectors from `vector` on; `last_lanes` count of the last one.

    All elements of it count where that is 0.
    """

    start: Affine
    rows: int
    vector: Affine
    vectors: int
    last_lanes: int = 0
