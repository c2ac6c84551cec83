"""The loop nest of a stencil: tiles of lines by vectors of positions, in registers (design §10).

for each batch, and block of tiles of lines
  copy the lines of the data that the block meets, with zeros around, the phases of a stride apart
  for each tile of lines, and panel of vectors of positions
    for each channel, and tap along the line
      for each line of data: load its vectors once, and multiply them into all filters and lines of
        the tile that meet them
    store the sums
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import product

from codegen.ir.builder import LANE, LoopBuilder, maximum, minimum
from codegen.ir.nodes import Apply, Bound, Buf, Number, Ref, Store, Transpose
from codegen.kernels.epilogue import epilogue_value
from codegen.kernels.stencil.problem import Phase, PhaseGroup, Stencil, TapRun, tap_runs
from codegen.kernels.stencil.tile_choice import StencilTile
from codegen.kernels.strided_axes import (
    Side,
    StridedAxis,
    StridedOperand,
    even_tiles,
    extent,
    offset,
)
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

BLOCK, TILE, PANEL, LINE, PLACE = (Index(n) for n in ("block", "tile", "panel", "line", "x"))
TAP, FILTER, NUMBER, I, VECTOR = (Index(n) for n in ("tap", "filter", "number", "i", "v"))
CHANNEL_BLOCK = Index("channels")


@dataclass(frozen=True)
class TilePart:
    """The part of the result that a register tile computes, of some phases and filters.

    So many lines, those of a tile of the block from line `start` on, on a panel of positions.
    """

    above: Phase
    along: PhaseGroup
    start: Affine
    tile: Affine
    lines: int
    panel: Affine
    filter: Affine
    filters: int

    def sum(self, phase: int, number: int, line: int) -> int:
        """Return where the sums of a phase and a filter at a line are."""
        return (phase * self.filters + number) * self.lines + line

    @property
    def sums(self) -> int:
        """Return how many lines of sums there are."""
        return len(self.along.phases) * self.filters * self.lines


def write_stencil(w: LoopBuilder, stencil: Stencil, tile: StencilTile, parallel: bool) -> None:
    """Write the nest; threads share batches and blocks where `parallel`."""
    kind = "seq"
    if parallel:
        kind = "par"
    _StencilNest(w, stencil, tile, kind).write()


@dataclass(frozen=True)
class _LineCopy:
    """The layout of a line of data in the copy: each phase of a stride by itself."""

    phases: tuple[int, ...]
    width: int  # elements of a phase

    @property
    def elements(self) -> int:
        return self.width * len(self.phases)

    def begin(self, phase: int) -> int:
        """Return where a phase begins in a line."""
        return self.phases.index(phase) * self.width


def _line_copy(stencil: Stencil, tile: StencilTile) -> _LineCopy:
    """Return the layout that all panels of a line and their taps need."""
    runs = list(tap_runs(stencil.positions, stencil.along))
    last_tap = max((run.first + max(0, run.step * (run.count - 1)) for run in runs), default=0)
    panels = tile.panels(stencil.positions.extent)
    phases = tuple(sorted({run.phase for run in runs}))
    return _LineCopy(phases, panels * tile.width + last_tap)


def _begins(stencil: Stencil) -> dict[Side, Affine]:
    """Return where each operand begins in a batch."""
    operands: dict[Side, StridedOperand] = {
        "left": stencil.left,
        "right": stencil.right,
        "target": stencil.target,
        **dict(enumerate(stencil.epilogue_operands)),
    }
    begins: dict[Side, Affine] = {}
    for side, operand in operands.items():
        begins[side] = offset(stencil.batch, side) + operand.offset
    return begins


class _StencilNest:
    """Writes the nest; `kind` is that of the loops that threads may share."""

    def __init__(self, w: LoopBuilder, stencil: Stencil, tile: StencilTile, kind: str):
        self.w, self.s, self.f, self.kind = w, stencil, tile, kind
        self.begin = _begins(stencil)
        self.panels = tile.panels(stencil.positions.extent)
        self.line = _line_copy(stencil, tile)

    def write(self) -> None:
        first = 0
        for lines, count in even_tiles(self.s.lines.extent, self.f.lines):
            tiles = min(self.f.block, count)
            blocks = -(-count // tiles)
            with (
                self.w.loops(self.s.batch, self.kind),
                self.w.loop(BLOCK, blocks, kind=self.kind) as block,
            ):
                number: Bound = affine(tiles)
                if count % tiles:
                    number = minimum(tiles, affine(count) - block * tiles)
                self.block(block * (tiles * lines) + first, lines, tiles, number)
            first += lines * count

    def block(self, start: Affine, lines: int, tiles: int, number: Bound) -> None:
        """Write some tiles of so many lines each, from line `start` on."""
        axis = self.s.lines
        rows = max(0, (tiles * lines - 1) * axis.step + axis.reach)
        size = max(1, extent(self.s.channels) * rows * self.line.elements)
        copy = _BlockCopy(self.w.local("lines", (size,), self.s.dtype), rows)
        if self.line.phases:
            self.copy(copy, start * axis.step + axis.low)
        for above, along in self.s.parts(self.f.phases):
            with self.w.loop(TILE, number, known=(0, tiles)) as tile, self.w.loops(along.axes):
                part = TilePart(above, along, start, tile, lines, affine(PANEL), affine(FILTER), 1)
                self.filters(copy, part)

    def filters(self, copy: _BlockCopy, part: TilePart) -> None:
        """Write all filters and positions of a tile of lines."""
        before = 0
        for filters, count in even_tiles(self.s.filters.extent, self.f.filters):
            with self.w.loop(FILTER, count) as group, self.w.loop(PANEL, self.panels):
                first = group * filters + before
                self.tile(copy, replace(part, filter=first, filters=filters))
            before += filters * count

    # The copy.

    def copy(self, copy: _BlockCopy, first: Affine) -> None:
        """Copy the lines of data from line `first` on, each channel's together; 0 outside."""
        axis, rows = self.s.lines, copy.rows
        low, high = maximum(0, -first), minimum(rows, -first + axis.data)
        order = sorted((*self.s.channels, StridedAxis(LINE, rows, axis.left)), key=_left_step)
        self.zero_lines(copy, order, affine(0), minimum(rows, low))
        if self.transposes_channels:
            with self.w.loop(LINE, high, low, known=(0, rows)) as line:
                self.transposed_line(copy, line * self.line.elements, first + line)
        else:
            with self.channel_lines(copy, order, low, high):
                self.copy_line(copy, first + affine(LINE))
        self.zero_lines(copy, order, maximum(0, high), affine(rows))

    @contextmanager
    def channel_lines(
        self, copy: _BlockCopy, axes: Sequence[StridedAxis], low: Bound, high: Bound
    ) -> Iterator[None]:
        """Open loops over channels and some lines, in some order."""
        with ExitStack() as loops:
            for axis in axes:
                if axis.index == LINE:
                    loops.enter_context(self.w.loop(LINE, high, low, known=(0, copy.rows)))
                else:
                    loops.enter_context(self.w.loop(axis.index, axis.extent))
            yield

    def line_begin(self, copy: _BlockCopy) -> Affine:
        """Return where the line `LINE` of a channel begins in the copy."""
        return (self.channel() * copy.rows + affine(LINE)) * self.line.elements

    def zero_lines(
        self, copy: _BlockCopy, axes: Sequence[StridedAxis], low: Bound, high: Bound
    ) -> None:
        """Write lines that lie outside of the data."""
        with self.channel_lines(copy, axes, low, high):
            self.zeros(copy, self.line_begin(copy), 0, self.line.elements)

    def copy_line(self, copy: _BlockCopy, line: Affine) -> None:
        """Copy one line, each phase of its elements by itself."""
        channel = offset(self.s.channels, "left")
        for phase in self.line.phases:
            begin = self.line_begin(copy) + self.line.begin(phase)
            low, high = self.inside(phase)
            self.zeros(copy, begin, 0, low)
            if low < high:
                with self.w.loop(PLACE, high, low, "vec") as place:
                    value = self.element(line, phase, place, channel)
                    self.w.put(Ref(copy.buf, (begin + place,)), "=", value)
            self.zeros(copy, begin, high, self.line.width)

    def inside(self, phase: int) -> tuple[int, int]:
        """Return the places of a phase in the copy that lie inside the data."""
        axis, width = self.s.positions, self.line.width
        begin = axis.low + phase
        low = min(width, max(0, -(begin // axis.step)))
        return low, max(low, min(width, -(-(axis.data - begin) // axis.step)))

    def element(self, line: Affine, phase: int, place: Affine, channel: Affine) -> Ref:
        """Return the element of the data at a place of a line in the copy."""
        axis = self.s.positions
        column = place * axis.step + axis.low + phase
        at = column * axis.left + line * self.s.lines.left + channel
        return Ref(self.s.left.flat, (self.begin["left"] + at,))

    @property
    def transposes_channels(self) -> bool:
        """Whether channels are neighbours in memory.

        Lines are then put together of squares of channels and positions.
        """
        s = self.s
        if s.left.buf.dtype != s.dtype or s.positions.left == 1 or len(s.channels) != 1:
            return False
        return s.channels[0].left == 1 and s.channels[0].extent >= self.f.lanes

    def transposed_line(self, copy: _BlockCopy, at: Affine, line: Affine) -> None:
        """Copy one line of all channels, to `at` and on for the first of them."""
        (channel,), size = self.s.channels, self.f.lanes
        distance = copy.rows * self.line.elements  # from channel to channel
        whole, rest = divmod(channel.extent, size)
        for phase in self.line.phases:
            base, (low, high) = at + self.line.begin(phase), self.inside(phase)
            with self.w.loop(channel.index, channel.extent) as here:
                self.zeros(copy, base + here * distance, 0, low)
                self.zeros(copy, base + here * distance, high, self.line.width)
            for first, blocks in ((0, whole), (channel.extent - size, bool(rest))):
                for begin, squares, height in _squares(low, high, size):
                    if not blocks * squares * height:
                        continue
                    with (
                        self.w.loop(CHANNEL_BLOCK, int(blocks)) as block,
                        self.w.loop(PLACE, squares) as square,
                    ):
                        start, place = block * size + first, square * size + begin
                        source = self.element(line, phase, place, start)
                        to = Ref(copy.buf, (base + start * distance + place,))
                        self.square(source, height, to, distance)

    def square(self, source: Ref, height: int, to: Ref, distance: int) -> None:
        """Copy neighbouring channels of so many positions, `distance` from channel to channel."""
        size, axis, (at,) = self.f.lanes, self.s.positions, to.subscripts
        square = self.w.local("square", (size * size,), self.s.dtype)
        transposed = Ref(square, (affine(0),))
        step = axis.step * axis.left
        self.w.out.append(Transpose(source, step, height, size, transposed, size))
        with self.w.loop(NUMBER, size) as number:
            target = Ref(to.buf, (at + number * distance + affine(LANE),))
            value = Ref(square, (number * size + affine(LANE),))
            self.w.lanes(Store(target, "=", value), height)

    def zeros(self, copy: _BlockCopy, at: Affine, low: int, high: int) -> None:
        if low < high:
            with self.w.loop(PLACE, high, low, "vec") as place:
                self.w.put(Ref(copy.buf, (at + place,)), "=", Number(0, self.s.dtype))

    # One register tile.

    def tile(self, copy: _BlockCopy, part: TilePart) -> None:
        w, f, dtype = self.w, self.f, self.s.dtype
        sums = w.local("sum", (part.sums, f.vectors, f.lanes), dtype, "vector")
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        zero = Store(here, "=", Number(0, dtype))
        w.lanes(zero, f.lanes, (VECTOR, 0, f.vectors), (I, 0, part.sums))
        if part.above.taps and any(phase.taps for phase in part.along.phases):
            buf = w.local("read", (1, f.vectors, f.lanes), dtype, "vector")
            read = Ref(buf, (affine(0), affine(VECTOR), affine(LANE)))
            with w.loops(self.s.channels):
                for run in tap_runs(self.s.positions, part.along.phases):
                    with w.loop(TAP, run.count) as tap:
                        self.tap(copy, part, run, tap, read, sums)
        self.store(sums, part)

    def tap(
        self, copy: _BlockCopy, part: TilePart, run: TapRun, tap: Affine, read: Ref, sums: Buf
    ) -> None:
        """Write the products of one channel and one tap along the line."""
        w, s, f = self.w, self.s, self.f
        row = self.channel() * copy.rows + part.tile * (part.lines * s.lines.step)
        first = row * self.line.elements + self.line.begin(run.phase)
        position = part.panel * f.width + run.first + tap * run.step
        column = position + affine(VECTOR) * f.lanes + affine(LANE)
        for line, uses in self.met_lines(part):
            value = Ref(copy.buf, (first + line * self.line.elements + column,))
            w.lanes(Store(read, "=", value), f.lanes, (VECTOR, 0, f.vectors))
            self.products(part, run, tap, uses, read, sums)

    def products(
        self,
        part: TilePart,
        run: TapRun,
        tap: Affine,
        uses: Sequence[tuple[int, int]],
        read: Ref,
        sums: Buf,
    ) -> None:
        """Multiply vectors of a line of data into all sums that meet it."""
        w, s, f = self.w, self.s, self.f
        weights = self.begin["right"] + offset((*s.channels, *part.along.axes), "right")
        for (line, at), (phase, begin, step), number in product(
            uses, run.weights, range(part.filters)
        ):
            place = at + begin + tap * step + (part.filter + number) * s.filters.right
            weight = Ref(s.right.flat, (weights + place,))
            sum_number = affine(part.sum(phase, number, line))
            here = Ref(sums, (sum_number, affine(VECTOR), affine(LANE)))
            value = Apply("mul", (weight, read), s.dtype)
            w.lanes(Store(here, "+=", value), f.lanes, (VECTOR, 0, f.vectors))

    def met_lines(self, part: TilePart) -> list[tuple[int, list[tuple[int, int]]]]:
        """Return the lines of data that a tile meets, and what for.

        That is: a line of the tile, and where its weight lies.
        """
        axis = self.s.lines
        uses: dict[int, list[tuple[int, int]]] = {}
        for line, (shift, weight) in product(range(part.lines), part.above.taps):
            uses.setdefault(axis.step * line + shift - axis.low, []).append((line, weight))
        return sorted(uses.items())

    def channel(self) -> Affine:
        """Return the number of a channel."""
        place = affine(0)
        for axis in self.s.channels:
            place = place * axis.extent + affine(axis.index)
        return place

    # Results.

    def store(self, sums: Buf, part: TilePart) -> None:
        """Store the sums as they lie in the result; of the last panel, what counts."""
        positions = self.s.positions
        if self.s.epilogue or positions.target != 1:
            self.store_elements(sums, part)
        elif positions.extent % self.f.width == 0:
            self.store_vectors(sums, part)
        elif self.panels == 1:
            self.store_elements(sums, part)
        else:
            with self.w.where(Constraint(-part.panel + (self.panels - 2), ">=")):
                self.store_vectors(sums, part)
            with self.w.otherwise():
                self.store_elements(sums, part)

    def store_vectors(self, sums: Buf, part: TilePart) -> None:
        """Store vectors of the result, whose positions have one phase."""
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        place = affine(VECTOR) * self.f.lanes + affine(LANE)
        for number in range(part.filters):
            low = part.sum(0, number, 0)
            to = self.stored(part, 0, affine(number), affine(I) - low, place)
            lines = (I, low, low + part.lines)
            self.w.lanes(Store(to, "=", here), self.f.lanes, (VECTOR, 0, self.f.vectors), lines)

    def store_elements(self, sums: Buf, part: TilePart) -> None:
        """Store elements of the result, or what an epilogue computes from them, through memory.

        Those of all phases of a position together.
        """
        w, f, width, positions = self.w, self.f, self.f.width, self.s.positions.extent
        spilled = w.local("edge", (part.sums * width,), self.s.dtype)
        at = affine(I) * width + affine(VECTOR) * f.lanes + affine(LANE)
        here = Ref(sums, (affine(I), affine(VECTOR), affine(LANE)))
        spill = Store(Ref(spilled, (at,)), "=", here)
        w.lanes(spill, f.lanes, (VECTOR, 0, f.vectors), (I, 0, part.sums))
        count: Bound = affine(width)
        if positions % width:
            count = minimum(width, -part.panel * width + positions)
        with (
            w.loop(NUMBER, part.filters) as number,
            w.loop(LINE, part.lines) as line,
            w.loop(PLACE, count, kind="vec", known=(0, width)) as place,
        ):
            for phase in range(len(part.along.phases)):
                sum_number = number * part.lines + line + part.sum(phase, 0, 0)
                read = Ref(spilled, (sum_number * width + place,))
                target, *others = (
                    self.stored(part, phase, number, line, place, side)
                    for side in self.s.stored_sides
                )
                w.put(target, "=", epilogue_value(self.s.epilogue, read, others))

    def stored(
        self,
        part: TilePart,
        phase: int,
        number: Affine,
        line: Affine,
        place: Affine,
        side: Side = "target",
    ) -> Ref:
        """Return a phase, filter, line and position of a part, in the result.

        Or in what an epilogue reads there.
        """
        s, operand, k = self.s, self.s.target, 0
        if isinstance(side, int):
            operand, k = s.epilogue_operands[side], side + 1
        phase_begin = part.above.begin[k] + part.along.phases[phase].begin[k]
        at = self.begin[side] + phase_begin + offset(part.along.axes, side)
        at = at + (part.filter + number) * s.filters.step(side)
        at = at + (part.start + part.tile * part.lines + line) * s.lines.stored[k]
        position = part.panel * self.f.width + place
        return Ref(operand.flat, (at + position * s.positions.stored[k],))


@dataclass(frozen=True)
class _BlockCopy:
    """The copy of the data of a block: so many rows of each channel."""

    buf: Buf
    rows: int


def _left_step(axis: StridedAxis) -> int:
    """Return the place of an axis among others, the longest step outermost."""
    return -abs(axis.left)


def _squares(low: int, high: int, size: int) -> tuple[tuple[int, int, int], ...]:
    """Return squares between two places as (begin, count, height), then a lower last one."""
    count, rest = divmod(high - low, size)
    return (low, count, size), (high - rest, 1, rest)
