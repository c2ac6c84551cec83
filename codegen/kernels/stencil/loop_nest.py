"""The loop nest of a stencil: tiles of lines by vectors of positions, in registers (design §10).

for each batch, and block of tiles of lines
  copy the lines of the data that the block meets, with zeros around, the phases of a stride apart
  for each tile of lines, and panel of vectors of positions
    for each channel, and tap along the line
      for each line of data: load its vectors once, and multiply them into all filters and lines of the tile that meet them
    store the sums
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from codegen.hardware.cpu import CpuModel
from codegen.ir.builder import LANE, LoopBuilder, minimum, maximum
from codegen.ir.nodes import Apply, Bound, Buf, Number, Ref, Store, Transpose
from codegen.kernels.band.problem import WAITING
from codegen.kernels.contraction.cost_model import LATENCY, PRODUCTS, even_tiles
from codegen.kernels.epilogue import EpilogueLeaves
from codegen.kernels.stencil.problem import Phase, PhaseGroup, Stencil, TapRun, tap_runs
from codegen.kernels.strided_axes import Side, StridedAxis, StridedOperand, extent, offset
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import numpy_dtype

BLOCK, TILE, PANEL, LINE, PLACE, TAP, FILTER, NUMBER, I, VECTOR, BLOCK_OF_CHANNELS = (
    Index(n)
    for n in (
        "block",
        "tile",
        "panel",
        "line",
        "x",
        "tap",
        "filter",
        "number",
        "i",
        "v",
        "channels",
    )
)
SPARE = 5  # registers for what is read and for weights
LARGEST = 256  # products of vectors that are written out in the innermost loop
FETCHED, LINE_BYTES = 0.75, 64  # cycles for a line of the second cache, and its bytes


@dataclass(frozen=True)
class StencilTile:
    """The numbers of a nest: elements of a vector; phases of positions, filters, lines and vectors of a tile; and tiles of a block."""

    lanes: int
    phases: int
    filters: int
    lines: int
    vectors: int
    block: int = 1

    @property
    def sums(self) -> int:
        """Vectors of sums of a tile."""
        return self.phases * self.filters * self.lines * self.vectors

    def panels(self, positions: int) -> int:
        return -(-positions // (self.lanes * self.vectors))


@dataclass(frozen=True)
class TilePart:
    """What a register tile computes, of some phases and filters: so many lines, those of a tile of the block from line `start` on, on a panel."""

    above: Phase
    along: PhaseGroup
    start: Affine
    tile: Affine
    lines: int
    panel: Affine
    filter: Affine
    filters: int

    def sum(self, phase: int, number: int, line: int) -> int:
        """Where the sums of a phase and a filter at a line are."""
        return (phase * self.filters + number) * self.lines + line


def choose_tile(stencil: Stencil, machine: CpuModel) -> tuple[StencilTile, float]:
    """The numbers that keep the machine's registers busiest, and what the nest costs, in cycles."""
    blocked = [_blocked(stencil, way, machine) for way in _ways(stencil, machine)]
    return min(((way, _cycles(stencil, way, machine)) for way in blocked), key=lambda pair: pair[1])


def _ways(stencil: Stencil, machine: CpuModel) -> list[StencilTile]:
    """What fits into the registers."""
    widths, room = (
        machine.widths(numpy_dtype(stencil.dtype).itemsize),
        max(1, machine.registers - SPARE),
    )
    written = max((1, *(len(phase.taps) for phase in stencil.above)))
    ways = [
        StencilTile(lanes, phases, filters, lines, vectors)
        for lanes in widths
        for phases in _shares(len(stencil.along), room)
        for filters in _shares(stencil.filters.extent, room // phases)
        for vectors in range(
            1, min(-(-stencil.positions.extent // lanes), room // (phases * filters)) + 1
        )
        for lines in range(1, min(stencil.lines.extent, room // (phases * filters * vectors)) + 1)
    ]
    return [way for way in ways if way.sums * written <= LARGEST] or [
        StencilTile(widths[0], 1, 1, 1, 1)
    ]


def _shares(number: int, most: int) -> list[int]:
    """The largest shares, at most so large, of all ways to share a number out evenly.

    >>> _shares(10, 6)
    [1, 2, 3, 4, 5]
    """
    return sorted({share for n in range(1, number + 1) if (share := -(-number // n)) <= most})


def _blocked(stencil: Stencil, way: StencilTile, machine: CpuModel) -> StencilTile:
    """As many tiles of lines as have their data in a quarter of the second cache."""
    lines, size = stencil.lines, numpy_dtype(stencil.dtype).itemsize
    line = (
        extent(stencil.channels)
        * way.panels(stencil.positions.extent)
        * way.vectors
        * way.lanes
        * size
        * stencil.positions.step
    )
    held = (machine.level2 // 4 // max(1, line) - lines.reach) // (way.lines * lines.step)
    tiles = -(-lines.extent // way.lines)
    shares = max(1, tiles * extent(stencil.batch) // (4 * machine.cores))
    return replace(way, block=max(1, min(held, tiles, shares)))


def _cycles(stencil: Stencil, way: StencilTile, machine: CpuModel) -> float:
    """What the sums and the copies cost."""
    lines, panels = stencil.lines, way.panels(stencil.positions.extent)
    filters, channels, dtype = (
        -(-stencil.filters.extent // way.filters),
        extent(stencil.channels),
        numpy_dtype(stencil.dtype).itemsize,
    )
    turns = machine.passes(way.lanes, dtype)
    parts = [
        (above, along, list(tap_runs(stencil.positions, along.phases)))
        for above, along in stencil.parts(way.phases)
    ]
    total = 0.0
    for size, count in even_tiles(lines.extent, way.lines):
        met = (size - 1) * lines.step + lines.reach
        missing = max(
            0.0,
            1
            - machine.level1
            / (channels * met * panels * way.vectors * way.lanes * stencil.positions.step * dtype),
        )
        fetched = (
            FETCHED * missing * channels * met * (1 + way.vectors * way.lanes * dtype / LINE_BYTES)
        )
        for above, along, taps in parts:
            reads = (
                len({lines.step * line + shift for line in range(size) for shift, _ in above.taps})
                * way.vectors
            )
            summed = 0.0
            for run in taps:
                products = len(run.weights) * way.filters * size * way.vectors * len(above.taps)
                summed += run.count * (
                    max(turns * products / PRODUCTS, LATENCY * len(above.taps))
                    + turns * WAITING * (2 * reads + products)
                )
            stored = (
                len(along.phases)
                * way.filters
                * size
                * way.vectors
                * (3 if stencil.positions.target == len(along.phases) else 2 * way.lanes)
            )
            total += (
                count
                * panels
                * filters
                * extent(along.axes)
                * (summed * channels + turns * stored + fetched)
            )
        rows = -(-count // way.block) * max(0, (way.block * size - 1) * lines.step + lines.reach)
        copied = rows * channels * stencil.positions.data
        total += copied * (
            0.2 if stencil.positions.left == 1 and stencil.positions.step == 1 else 1.0
        )
    return total * extent(stencil.batch)


def write_stencil(w: LoopBuilder, stencil: Stencil, numbers: StencilTile, parallel: bool) -> None:
    """Write the nest; threads share batches and blocks where `parallel`."""
    _StencilNest(w, stencil, numbers, parallel).write()


class _StencilNest:
    def __init__(self, w: LoopBuilder, stencil: Stencil, numbers: StencilTile, parallel: bool):
        self.w, self.s, self.f, self.kind = w, stencil, numbers, "par" if parallel else "seq"
        operands: dict[Side, StridedOperand] = {
            "left": stencil.left,
            "right": stencil.right,
            "target": stencil.target,
            **dict(enumerate(stencil.beside)),
        }
        self.begin = {
            side: offset(stencil.batch, side) + operand.offset for side, operand in operands.items()
        }
        found = list(tap_runs(stencil.positions, stencil.along))
        self.phases = sorted({run.phase for run in found})
        ends = [run.first + max(0, run.step * (run.count - 1)) for run in found]
        self.panels = numbers.panels(stencil.positions.extent)
        self.width = self.panels * numbers.vectors * numbers.lanes + max(
            ends, default=0
        )  # of a line in the copy, for one phase
        self.line = self.width * len(self.phases)

    def write(self) -> None:
        first = 0
        for lines, count in even_tiles(self.s.lines.extent, self.f.lines):
            tiles = min(self.f.block, count)
            blocks = -(-count // tiles)
            with (
                self.w.loops(self.s.batch, self.kind),
                self.w.loop(BLOCK, blocks, kind=self.kind) as block,
            ):
                number = minimum(tiles, *((affine(count) - block * tiles,) if count % tiles else ()))
                self.block(block * (tiles * lines) + first, lines, tiles, number)
            first += lines * count

    def block(self, start: Affine, lines: int, tiles: int, number: Bound) -> None:
        """Some tiles of so many lines each, from line `start` on."""
        span = self.s.lines
        rows = max(0, (tiles * lines - 1) * span.step + span.reach)
        copy = self.w.local(
            "lines", (max(1, extent(self.s.channels) * rows * self.line),), self.s.dtype
        )
        if self.phases:
            self.copy(copy, start * span.step + span.low, rows)
        for above, along in self.s.parts(self.f.phases):
            with self.w.loop(TILE, number, known=(0, tiles)) as tile, self.w.loops(along.axes):
                self.filters(
                    copy,
                    rows,
                    TilePart(above, along, start, tile, lines, affine(PANEL), affine(FILTER), 1),
                )

    def filters(self, copy: Buf, rows: int, part: TilePart) -> None:
        """All filters and positions of a tile of lines."""
        before = 0
        for some, count in even_tiles(self.s.filters.extent, self.f.filters):
            with self.w.loop(FILTER, count) as group, self.w.loop(PANEL, self.panels):
                self.tile(copy, rows, replace(part, filter=group * some + before, filters=some))
            before += some * count

    # The copy.

    def copy(self, copy: Buf, first: Affine, rows: int) -> None:
        """The lines of data from line `first` on, each channel's together; 0 where there are none."""
        span = self.s.lines
        low, high = maximum(0, -first), minimum(rows, -first + span.data)
        for start, end, inside in (
            (affine(0), minimum(rows, low), False),
            (low, high, True),
            (maximum(0, high), affine(rows), False),
        ):
            if inside and self.is_turned:
                with self.w.loop(LINE, end, start, known=(0, rows)):
                    self.turned(copy, affine(LINE) * self.line, rows, first + affine(LINE))
                continue
            order = sorted(
                (*self.s.channels, StridedAxis(LINE, rows, span.left)),
                key=lambda axis: -abs(axis.left),
            )
            self.rows(copy, order, start, end, first, rows, inside)

    def rows(
        self,
        copy: Buf,
        axes: list[StridedAxis],
        low: Bound,
        high: Bound,
        first: Affine,
        rows: int,
        inside: bool,
    ) -> None:
        """Loops over channels and some lines."""
        if not axes:
            return self.row(
                copy,
                (self.channel() * rows + affine(LINE)) * self.line,
                first + affine(LINE),
                inside,
            )
        axis, *others = axes
        if axis.index == LINE:
            with self.w.loop(LINE, high, low, known=(0, rows)):
                self.rows(copy, others, low, high, first, rows, inside)
        else:
            with self.w.loop(axis.index, axis.extent):
                self.rows(copy, others, low, high, first, rows, inside)

    def row(self, copy: Buf, at: Affine, line: Affine, inside: bool) -> None:
        """One line, each phase of its elements by itself."""
        s = self.s
        if not inside:
            return self.zeros(copy, at, 0, self.line)
        for number, phase in enumerate(self.phases):
            base, (low, high) = at + number * self.width, self.within(phase)
            self.zeros(copy, base, 0, low)
            if low < high:
                with self.w.loop(PLACE, high, low, "vec") as place:
                    self.w.put(
                        Ref(copy, (base + place,)),
                        "=",
                        self.element(line, phase, place, offset(s.channels, "left")),
                    )
            self.zeros(copy, base, high, self.width)

    def within(self, phase: int) -> tuple[int, int]:
        """The places of a line in the copy that lie inside the data."""
        span = self.s.positions
        begin = span.low + phase
        low = min(self.width, max(0, -(begin // span.step)))
        return low, max(low, min(self.width, -(-(span.data - begin) // span.step)))

    def element(self, line: Affine, phase: int, place: Affine, channel: Affine) -> Ref:
        """What a place of a line in the copy is read from."""
        span = self.s.positions
        at = (place * span.step + span.low + phase) * span.left + line * self.s.lines.left + channel
        return Ref(self.s.left.flat, (self.begin["left"] + at,))

    @property
    def is_turned(self) -> bool:
        """Whether channels are neighbours in memory: lines are then put together of squares of channels and positions."""
        s = self.s
        plain = s.left.buf.dtype == s.dtype and s.positions.left != 1
        return (
            plain
            and len(s.channels) == 1
            and s.channels[0].left == 1
            and s.channels[0].extent >= self.f.lanes
        )

    def turned(self, copy: Buf, at: Affine, rows: int, line: Affine) -> None:
        """One line of all channels, from `at` on for the first of them."""
        (channel,), size, apart = self.s.channels, self.f.lanes, rows * self.line
        whole, rest = divmod(channel.extent, size)
        for number, phase in enumerate(self.phases):
            base, (low, high) = at + number * self.width, self.within(phase)
            with self.w.loop(channel.index, channel.extent) as here:
                self.zeros(copy, base + here * apart, 0, low)
                self.zeros(copy, base + here * apart, high, self.width)
            for first, blocks in ((0, whole), (channel.extent - size, 1 if rest else 0)):
                for begin, squares, height in (
                    (low, (high - low) // size, size),
                    (high - (high - low) % size, 1, (high - low) % size),
                ):
                    if not blocks * squares * height:
                        continue
                    with (
                        self.w.loop(BLOCK_OF_CHANNELS, blocks) as block,
                        self.w.loop(PLACE, squares) as square,
                    ):
                        start, place = block * size + first, square * size + begin
                        self.square(
                            self.element(line, phase, place, start),
                            height,
                            copy,
                            base + start * apart + place,
                            apart,
                        )

    def square(self, source: Ref, height: int, copy: Buf, at: Affine, apart: int) -> None:
        """Some neighbouring channels of so many positions: those of each channel from `at` on, the channels `apart`."""
        size, span = self.f.lanes, self.s.positions
        square = self.w.local("square", (size * size,), self.s.dtype)
        self.w.out.append(
            Transpose(source, span.step * span.left, height, size, Ref(square, (affine(0),)))
        )
        with self.w.loop(NUMBER, size) as number:
            put = Store(
                Ref(copy, (at + number * apart + affine(LANE),)),
                "=",
                Ref(square, (number * size + affine(LANE),)),
            )
            self.w.lanes(put, height)

    def zeros(self, copy: Buf, at: Affine, low: int, high: int) -> None:
        if low < high:
            with self.w.loop(PLACE, high, low, "vec") as place:
                self.w.put(Ref(copy, (at + place,)), "=", Number(0, self.s.dtype))

    # One register tile.

    def tile(self, copy: Buf, rows: int, part: TilePart) -> None:
        w, f, dtype = self.w, self.f, self.s.dtype
        number = len(part.along.phases) * part.filters * part.lines
        sums = w.local("sum", (number, f.vectors, f.lanes), dtype, "vector")
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        w.lanes(Store(here, "=", Number(0, dtype)), f.lanes, (VECTOR, 0, f.vectors), (I, 0, number))
        if part.above.taps and any(phase.taps for phase in part.along.phases):
            read = w.local("read", (1, f.vectors, f.lanes), dtype, "vector")
            with w.loops(self.s.channels):
                for run in tap_runs(self.s.positions, part.along.phases):
                    with w.loop(TAP, run.count) as tap:
                        self.step(
                            copy,
                            rows,
                            part,
                            run,
                            tap,
                            Ref(read, (affine(0), affine(VECTOR), affine(LANE))),
                            sums,
                        )
        self.store(sums, part)

    def step(
        self, copy: Buf, rows: int, part: TilePart, run: TapRun, tap: Affine, read: Ref, sums: Buf
    ) -> None:
        """The products of one channel and one tap along the line."""
        w, s, f = self.w, self.s, self.f
        first = (
            self.channel() * rows + part.tile * (part.lines * s.lines.step)
        ) * self.line + self.phases.index(run.phase) * self.width
        column = (
            part.panel * (f.vectors * f.lanes)
            + run.first
            + tap * run.step
            + affine(VECTOR) * f.lanes
            + affine(LANE)
        )
        weights = self.begin["right"] + offset((*s.channels, *part.along.axes), "right")
        for row, uses in self.met(part):
            w.lanes(
                Store(read, "=", Ref(copy, (first + row * self.line + column,))),
                f.lanes,
                (VECTOR, 0, f.vectors),
            )
            for (line, at), (phase, begin, apart), number in product(
                uses, run.weights, range(part.filters)
            ):
                weight = Ref(
                    s.right.flat,
                    (
                        weights
                        + at
                        + begin
                        + tap * apart
                        + (part.filter + number) * s.filters.right,
                    ),
                )
                here = Ref(
                    sums, (affine(part.sum(phase, number, line)), affine(VECTOR), affine(LANE))
                )
                w.lanes(
                    Store(here, "+=", Apply("mul", (weight, read), s.dtype)),
                    f.lanes,
                    (VECTOR, 0, f.vectors),
                )

    def met(self, part: TilePart) -> list[tuple[int, list[tuple[int, int]]]]:
        """The lines of data that a tile meets, and what for: a line of the tile, and where its weight lies."""
        span, found = self.s.lines, dict[int, list[tuple[int, int]]]()
        for line, (shift, at) in product(range(part.lines), part.above.taps):
            found.setdefault(span.step * line + shift - span.low, []).append((line, at))
        return sorted(found.items())

    def channel(self) -> Affine:
        place = affine(0)
        for axis in self.s.channels:
            place = place * axis.extent + affine(axis.index)
        return place

    def store(self, sums: Buf, part: TilePart) -> None:
        """The sums as they lie in the result; of the last panel, what counts."""
        width, positions = self.f.vectors * self.f.lanes, self.s.positions
        if self.s.epilogue:
            return self.spread(sums, part)
        if positions.target == 1 and positions.extent % width == 0:
            return self.stored(sums, part)
        if positions.target != 1 or self.panels == 1:
            return self.spread(sums, part)
        with self.w.where(Constraint(-part.panel + (self.panels - 2), ">=")):
            self.stored(sums, part)
        with self.w.otherwise():
            self.spread(sums, part)

    def stored(self, sums: Buf, part: TilePart) -> None:
        """Vectors of the result, whose positions have one phase."""
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        for number in range(part.filters):
            low = part.sum(0, number, 0)
            to = self.stored_at(
                part,
                0,
                affine(number),
                affine(I) - low,
                affine(VECTOR) * self.f.lanes + affine(LANE),
            )
            self.w.lanes(
                Store(to, "=", here),
                self.f.lanes,
                (VECTOR, 0, self.f.vectors),
                (I, low, low + part.lines),
            )

    def spread(self, sums: Buf, part: TilePart) -> None:
        """Elements of the result, or what an epilogue makes of them, by way of memory; those of all phases of a position together."""
        w, f, width, phases = (
            self.w,
            self.f,
            self.f.vectors * self.f.lanes,
            range(len(part.along.phases)),
        )
        total = len(phases) * part.filters * part.lines
        spilled = w.local("edge", (total * width,), self.s.dtype)
        at = affine(I) * width + affine(VECTOR) * f.lanes + affine(LANE)
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        w.lanes(
            Store(Ref(spilled, (at,)), "=", here), f.lanes, (VECTOR, 0, f.vectors), (I, 0, total)
        )
        count = (
            minimum(width, -part.panel * width + self.s.positions.extent)
            if self.s.positions.extent % width
            else affine(width)
        )
        with (
            w.loop(NUMBER, part.filters) as number,
            w.loop(LINE, part.lines) as line,
            w.loop(PLACE, count, kind="vec", known=(0, width)) as place,
        ):
            for phase in phases:
                read = Ref(
                    spilled, ((number * part.lines + line + part.sum(phase, 0, 0)) * width + place,)
                )
                target, *beside = (
                    self.stored_at(part, phase, number, line, place, side) for side in self.s.stored
                )
                w.put(
                    target,
                    "=",
                    EpilogueLeaves(self.s.epilogue, read, beside).value if self.s.epilogue else read,
                )

    def stored_at(
        self,
        part: TilePart,
        phase: int,
        number: Affine,
        line: Affine,
        place: Affine,
        side: Side = "target",
    ) -> Ref:
        """A phase, filter, line and position of a part, in the result, or in what an epilogue reads there."""
        s, width = self.s, self.f.vectors * self.f.lanes
        operand, k = (s.beside[side], side + 1) if isinstance(side, int) else (s.target, 0)
        at = (
            self.begin[side]
            + part.above.begin[k]
            + part.along.phases[phase].begin[k]
            + offset(part.along.axes, side)
        )
        at = (
            at
            + (part.filter + number) * s.filters.step(side)
            + (part.start + part.tile * part.lines + line) * s.lines.stored[k]
        )
        return Ref(operand.flat, (at + (part.panel * width + place) * s.positions.stored[k],))
