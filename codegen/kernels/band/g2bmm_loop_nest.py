"""The loop nest of a band product whose result is the band (design §10).

    target[q, n - q - low] = Σ_k left[q, k]·right[n, k]

    for each batch, and block of rows
      copy the rows of the right operand that the block meets into vectors across them
      for each group of as many rows as a vector has elements
        for each chunk of vectors
          for each tile of the group's rows
            sum rows x vectors in registers over k, and store what is inside the band

The vectors of a group begin where the band of its first row begins, so that all groups meet whole
vectors of the copy. A tile at the edge of the band is stored element by element; chunks that meet
no row of the right operand are 0 and cost no sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from math import inf

from codegen.hardware.cpu import CpuModel
from codegen.ir.builder import LANE, LoopBuilder, maximum, minimum
from codegen.ir.nodes import Apply, Bound, Buf, MinMax, Number, Prefetch, Ref, Store, Transpose
from codegen.kernels.band.problem import BandProduct, refused_sums, step_cycles
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.strided_axes import even_tiles, extent, offset
from einalg.language.index.affine import Affine, Index, floordiv
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import numpy_dtype

BLOCK, GROUP, CHUNK, TILE, ROW, TAP = (
    Index(name) for name in ("block", "group", "chunk", "tile", "row", "tap")
)
PANEL, PART, I, VECTOR = (Index(name) for name in ("panel", "part", "i", "v"))
BLOCKS_PER_CORE = 4  # so that threads end together


@dataclass(frozen=True)
class G2bmmTile:
    """The numbers of a nest.

    Elements of a vector, most rows of a tile, vectors of a chunk, groups of a block.
    """

    lanes: int
    rows: int
    vectors: int
    block: int

    @property
    def chunk(self) -> int:
        """Return the elements of a chunk."""
        return self.lanes * self.vectors

    def chunks(self, taps: int, rows: int) -> int:
        """Return the chunks that the band of so many rows takes."""
        return -(-(taps + rows - 1) // self.chunk)


def choose_tile(band: BandProduct, machine: CpuModel) -> G2bmmTile:
    """Return the numbers that keep the machine's registers busiest."""
    lanes = machine.vector // numpy_dtype(band.dtype).itemsize
    group = min(lanes, band.rows.extent)
    most_vectors = -(-(band.taps.extent + group - 1) // lanes)
    best, fewest_cycles = None, inf
    for vectors in range(1, most_vectors + 1):
        for rows in range(1, group + 1):
            tile = G2bmmTile(lanes, rows, vectors, 1)
            if fits(band, tile, machine):
                cycles = _step_cycles(band, group, tile, machine)
                if cycles < fewest_cycles:
                    best, fewest_cycles = tile, cycles
    assert best is not None
    return replace(best, block=_block_groups(band, machine, lanes))


def fits(band: BandProduct, tile: G2bmmTile, machine: CpuModel) -> bool:
    """Say whether a nest can have these numbers, and its sums are in registers."""
    return refusal(band, tile, machine) is None


def refusal(band: BandProduct, tile: G2bmmTile, machine: CpuModel) -> str | None:
    """Say in words why a nest cannot have these numbers; None where it can."""
    if min(tile.rows, tile.vectors, tile.block) < 1:
        return "each number is at least 1"
    lanes = machine.vector // numpy_dtype(band.dtype).itemsize
    if tile.lanes != lanes:
        return f"vectors have {lanes} elements here"
    if tile.rows > min(lanes, band.rows.extent):
        return f"a group has {min(lanes, band.rows.extent)} rows"
    return refused_sums(tile.rows, tile.vectors, machine)


def g2bmm_cycles(band: BandProduct, tile: G2bmmTile, machine: CpuModel) -> float:
    """Return the cycles of a nest: of its sums, of copying the right operand, and of its stores."""
    groups, rest = divmod(band.rows.extent, tile.lanes)
    depth, taps = extent(band.inner), band.taps.extent
    steps = groups * _step_cycles(band, tile.lanes, tile, machine)
    if rest:
        steps += _step_cycles(band, rest, tile, machine)
    blocks = max(1, -(-groups // tile.block))
    panels = groups + blocks * tile.chunks(taps, tile.lanes) * tile.vectors
    copies = panels * depth * tile.lanes * CPU_COSTS.copied_element
    stores = band.rows.extent * -(-taps // tile.lanes) * CPU_COSTS.store
    return extent(band.batch) * (steps * depth + copies + stores)


def _step_cycles(band: BandProduct, group: int, tile: G2bmmTile, machine: CpuModel) -> float:
    """Return the cycles of one step of the sums of a group.

    Where a tile is a single row, a compiler leaves out the vectors beyond the band.
    """
    cycles: float = 0
    passes = machine.passes(tile.lanes, numpy_dtype(band.dtype).itemsize)
    needed = -(-(band.taps.extent + group - 1) // tile.lanes)
    for rows, count in even_tiles(group, tile.rows):
        vectors = tile.vectors
        if rows == 1:
            vectors = min(vectors, needed)
        cycles += count * step_cycles(rows, vectors, passes)
    return tile.chunks(band.taps.extent, group) * cycles


def _block_groups(band: BandProduct, machine: CpuModel, lanes: int) -> int:
    """Return the groups of a block.

    What its rows meet fits half of the second cache; and threads find enough blocks, if the band
    is not copied too often for that.
    """
    row_bytes = extent(band.inner) * numpy_dtype(band.dtype).itemsize
    groups = max(1, band.rows.extent // lanes)
    cached = (machine.level2 // 2 // max(1, row_bytes) - band.taps.extent) // lanes
    wanted = groups
    if machine.cores > 1:
        wanted = -(-groups * extent(band.batch) // (BLOCKS_PER_CORE * machine.cores))
    most_groups = min(groups, max(1, band.taps.extent // lanes, min(cached, wanted)))
    return -(-groups // -(-groups // most_groups))  # blocks of one size


def write_g2bmm(w: LoopBuilder, band: BandProduct, tile: G2bmmTile, parallel: bool) -> None:
    """Write the nest; threads share batches and blocks where `parallel`."""
    kind = "seq"
    if parallel:
        kind = "par"
    _G2bmmNest(w, band, tile, kind).write()


class _G2bmmNest:
    """Writes the nest; `kind` is that of the loops that threads may share."""

    def __init__(self, w: LoopBuilder, band: BandProduct, tile: G2bmmTile, kind: str):
        self.w, self.b, self.f, self.kind = w, band, tile, kind
        self.depth = extent(band.inner)
        self.begin = band.begin()

    def write(self) -> None:
        b, f = self.b, self.f
        groups, rest = divmod(b.rows.extent, f.lanes)
        blocks = -(-groups // f.block)
        with self.w.loops(b.batch, self.kind):
            if blocks == 1:
                self.block(affine(0), groups, affine(groups))
            elif blocks:
                with self.w.loop(BLOCK, blocks, kind=self.kind) as block:
                    number: Bound = affine(f.block)
                    if groups % f.block:
                        number = minimum(f.block, affine(groups) - block * f.block)
                    self.block(block * (f.block * f.lanes), f.block, number)
        if rest:
            with self.w.loops(b.batch, self.kind):
                self.last(affine(groups * f.lanes), rest)

    def block(self, start: Affine, groups: int, number: Bound) -> None:
        """Write groups of rows from row `start` on."""
        width = self.f.chunks(self.b.taps.extent, self.f.lanes) * self.f.vectors
        panels = self.w.local(
            "panels", ((groups - 1 + width) * self.depth * self.f.lanes,), self.b.dtype
        )

        def last_panel(count: Affine) -> Affine:
            return count + (width - 1)

        self.copy(panels, start, _each(number, last_panel), groups + width - 1)
        with self.w.loop(GROUP, number, known=(0, groups)) as group:
            self.group(panels, start + group * self.f.lanes, group, self.f.lanes)

    def last(self, start: Affine, rows: int) -> None:
        """Write the rows that fill no group."""
        width = self.f.chunks(self.b.taps.extent, rows) * self.f.vectors
        panels = self.w.local("panels", (width * self.depth * self.f.lanes,), self.b.dtype)
        self.copy(panels, start, affine(width), width)
        self.group(panels, start, affine(0), rows)

    # The right operand.

    def copy(self, panels: Buf, start: Affine, number: Bound, largest: int) -> None:
        """Copy the rows of the right operand from where the band of row `start` begins.

        Each panel holds a vector of rows for every k.
        """
        b, lanes = self.b, self.f.lanes
        with self.w.loop(PANEL, number, known=(0, largest)) as panel:
            first, begin = start + panel * lanes + b.low, panel * (self.depth * lanes)
            after = -first + b.across.extent  # rows from the first one on
            if not self.copies_squares():
                self.copy_elements(panels, begin, first, after)
                return
            with (
                self.w.where(Constraint(first, ">="), Constraint(after - lanes, ">=")),
                self.w.loop(PART, self.depth // lanes) as part,
            ):
                place = self.begin["right"] + first * b.across.right + part * lanes
                source = Ref(b.right.flat, (place,))
                square = Ref(panels, (begin + part * (lanes * lanes),))
                self.w.out.append(Transpose(source, b.across.right, lanes, lanes, square, lanes))
            with self.w.otherwise():
                self.copy_elements(panels, begin, first, after)

    def copies_squares(self) -> bool:
        """Whether rows are transposed in registers, where there are as many as a vector holds."""
        b, lanes = self.b, self.f.lanes
        is_row = len(b.inner) == 1 and b.inner[0].right == 1
        return is_row and lanes >= 2 and self.depth % lanes == 0 and b.right.buf.dtype == b.dtype

    def copy_elements(self, panels: Buf, begin: Affine, first: Affine, after: Affine) -> None:
        """Copy one panel whose first row is row `first`; 0 where there are no rows."""
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
        """Return how many k came before."""
        before = affine(0)
        for axis in self.b.inner:
            before = before * axis.extent + affine(axis.index)
        return before

    # A group of rows.

    def group(self, panels: Buf, start: Affine, panel: Affine, rows: int) -> None:
        """Write rows from row `start` on, whose vectors begin with the one of number `panel`."""
        f, b = self.f, self.b
        chunks, step, begin = f.chunks(b.taps.extent, rows), f.chunk, start + b.low
        first = maximum(0, minimum(chunks, floordiv(-begin, step)))  # chunks before it meet no row
        end = minimum(chunks, maximum(0, floordiv(-begin + (b.across.extent + step - 1), step)))
        with self.w.loop(CHUNK, end, first, known=(0, chunks)) as chunk:
            before = 0
            for size, count in even_tiles(rows, f.rows):
                with self.w.loop(TILE, count) as tile:
                    self.chunk(panels, start, tile * size + before, size, panel, chunk)
                before += size * count
        self.zeros(start, rows, first, end)

    def chunk(
        self, panels: Buf, start: Affine, first: Affine, rows: int, panel: Affine, chunk: Affine
    ) -> None:
        """Sum one register tile, and store what is inside the band.

        It has so many rows, from the group's row `first` on.
        """
        w, b, f = self.w, self.b, self.f
        sums = w.local("sum", (rows, f.vectors, f.lanes), b.dtype, "vector")
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        every = (VECTOR, 0, f.vectors), (I, 0, rows)
        w.lanes(Store(here, "=", Number(0, b.dtype)), f.lanes, *every)
        row, column = first + affine(I), chunk * f.chunk
        if b.taps.target == 1:
            self.prefetch_results(start, first, rows, column)
        with w.loops(b.inner):
            place = (start + row) * b.rows.left + offset(b.inner, "left")
            left = Ref(b.left.flat, (self.begin["left"] + place,))
            number = panel + chunk * f.vectors + affine(VECTOR)
            right = Ref(panels, ((number * self.depth + self.place()) * f.lanes + affine(LANE),))
            w.lanes(Store(here, "+=", Apply("mul", (left, right), b.dtype)), f.lanes, *every)
        with w.where(
            Constraint(column - first - (rows - 1), ">="),
            Constraint(first - column + (b.taps.extent - f.chunk), ">="),
        ):
            place = column + affine(VECTOR) * f.lanes + affine(LANE)
            w.lanes(Store(self.target(start + row, place - row), "=", here), f.lanes, *every)
        with w.otherwise():
            self.store_inside(here, start, first, rows, column)

    def prefetch_results(self, start: Affine, first: Affine, rows: int, column: Affine) -> None:
        """Have the cache fetch the results of a tile."""
        for i, vector in product(range(rows), range(self.f.vectors)):
            tap = column + vector * self.f.lanes - first - i
            self.w.out.append(Prefetch(self.target(start + first + i, tap), write=True))

    def store_inside(
        self, here: Ref, start: Affine, first: Affine, rows: int, column: Affine
    ) -> None:
        """Store what is inside the band of a tile that begins at a column."""
        w, f, size, taps = self.w, self.f, self.f.chunk, self.b.taps.extent
        spilled = w.local("edge", (rows * size,), self.b.dtype)
        at = (affine(I) * f.vectors + affine(VECTOR)) * f.lanes + affine(LANE)
        spill = Store(Ref(spilled, (at,)), "=", here)
        w.lanes(spill, f.lanes, (VECTOR, 0, f.vectors), (I, 0, rows))
        with w.loop(ROW, rows) as row:
            low = column - first - row
            stop, begin = minimum(taps, low + size), maximum(0, low)
            with w.loop(TAP, stop, begin, "vec", known=(0, taps)) as tap:
                value = Ref(spilled, (row * size + tap - low,))
                w.put(self.target(start + first + row, tap), "=", value)

    def zeros(self, start: Affine, rows: int, first: Bound, end: Bound) -> None:
        """Write 0 where chunks that meet no row leave out results."""
        taps = self.b.taps.extent
        with self.w.loop(ROW, rows) as row:

            def first_tap(chunk: Affine) -> Affine:
                return chunk * self.f.chunk - row

            before, after = _each(first, first_tap), _each(end, first_tap)
            self.zero_taps(start + row, affine(0), minimum(taps, before))
            self.zero_taps(start + row, maximum(0, after), affine(taps))

    def zero_taps(self, row: Affine, low: Bound, high: Bound) -> None:
        zero = Number(0, self.b.target.buf.dtype)
        with self.w.loop(TAP, high, low, "vec", known=(0, self.b.taps.extent)) as tap:
            self.w.put(self.target(row, tap), "=", zero)

    def target(self, row: Affine, tap: Affine) -> Ref:
        b = self.b
        return Ref(
            b.target.flat, (self.begin["target"] + row * b.rows.target + tap * b.taps.target,)
        )


def _each(bound: Bound, change: Callable[[Affine], Affine]) -> Bound:
    """Return a bound with every part of it changed."""
    if isinstance(bound, Affine):
        return change(bound)
    return MinMax(bound.op, tuple(_each(part, change) for part in bound.of))
