"""The loop nest of a depthwise convolution: vectors of channels by positions, in registers.

for each batch, and line of results
  for each tile of positions along the line, and block of channels
    ask for what the tile of the next line reads first, if that is in no cache
    for each tap across the line that reads data
      load the weights of its taps along the line
      for each element that the tile meets: load it once, and multiply it into all sums that meet it
    store the sums

Tiles at the ends of a line are written out by themselves, without the products with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from codegen.ir.builder import LANE, LoopBuilder, maximum, minimum
from codegen.ir.nodes import Apply, Buf, Function, Number, Prefetch, Ref, Store
from codegen.kernels.depthwise.problem import Depthwise, SpaceWindow
from codegen.kernels.depthwise.tile_choice import DepthwiseTile, TileRun, tile_runs
from codegen.kernels.epilogue import epilogue_value
from codegen.kernels.strided_axes import Side, offset
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

BLOCK, TILE, I, VECTOR, PLACE = (Index(n) for n in ("block", "tile", "i", "v", "x"))


def write_depthwise(w: LoopBuilder, problem: Depthwise, tile: DepthwiseTile, kind: str) -> None:
    """Write the nest; `kind` is that of the loops that threads may share."""
    _DepthwiseNest(w, problem, tile, kind).write()


def write_packing(w: LoopBuilder, problem: Depthwise, packed: Buf) -> None:
    """Write the copy of the weights to a buffer: tap after tap of all channels."""
    axes = problem.weight_axes
    place = affine(0)
    for axis in axes:
        place = place * axis.extent + affine(axis.index)
    element = offset(axes, "right") + problem.right.offset
    with w.loops(axes):
        w.put(Ref(packed, (place,)), "=", Ref(problem.right.flat, (element,)))


@dataclass(frozen=True)
class ChannelTile:
    """The results of a register tile: channels from `channel` on, positions from `first` on."""

    run: TileRun
    channel: Affine
    first: Affine


@dataclass(frozen=True)
class _DepthwiseNest:
    """Writes the nest; `kind` is that of the loops that threads may share."""

    w: LoopBuilder
    problem: Depthwise
    tile: DepthwiseTile
    kind: str

    def write(self) -> None:
        runs = tile_runs(self.problem.positions, self.tile.positions)
        with self.w.loops(self.problem.batch, self.kind), self.lines():
            for run in runs:
                with self.w.loop(TILE, run.count) as tile:
                    position = tile * run.positions + run.first
                    for first, count in self.blocks():
                        with self.w.loop(BLOCK, count) as block:
                            channel = block * self.tile.width + first
                            self.part(ChannelTile(run, channel, position))

    @contextmanager
    def lines(self) -> Iterator[None]:
        """Open loops over the lines of results; threads share the outermost."""
        with ExitStack() as loops:
            for number, axis in enumerate(self.problem.outer):
                kind = self.kind
                if number:
                    kind = "seq"
                window = axis.window
                loops.enter_context(self.w.loop(window.position, window.positions, kind=kind))
            yield

    def blocks(self) -> list[tuple[int, int]]:
        """Return the first channels of blocks, each with their number.

        A last block that would be cut begins earlier, and some channels are computed twice.
        """
        width, channels = self.tile.width, self.problem.lane.extent
        blocks = [(0, channels // width)]
        if channels % width:
            blocks.append((channels - width, 1))
        return blocks

    # One register tile.

    def part(self, part: ChannelTile) -> None:
        """Write a register tile."""
        w, f, dtype = self.w, self.tile, self.problem.dtype
        positions = part.run.positions
        sums = w.local("sum", (positions, f.vectors, f.lanes), dtype, "vector")
        zero = Store(self.row(sums, affine(I)), "=", Number(0, dtype))
        w.lanes(zero, f.lanes, (VECTOR, 0, f.vectors), (I, 0, positions))
        self.prefetch(part)
        with w.loops(self.problem.channels), self.taps_across():
            taps = self.problem.positions.window.taps
            for first in range(0, taps, f.taps):
                self.products(part, sums, range(first, min(taps, first + f.taps)))
        self.store(part, sums)

    def prefetch(self, part: ChannelTile) -> None:
        """Ask for what the tile of the next line is the first to read."""
        p, f = self.problem, self.tile
        if not p.outer or not f.prefetches:
            return
        window = p.outer[-1].window
        next_line = affine(window.position) + 1
        at = offset(p.batch, "left") + p.left.offset
        for axis in p.outer[:-1]:
            at = at + _element(axis, affine(axis.window.position), affine(0))
        at = at + _element(p.outer[-1], next_line, affine(window.taps - 1)) + part.channel
        first = _element(p.positions, part.first, affine(0))
        for element in range(part.run.positions * p.positions.window.stride):
            for vector in range(f.vectors):
                place = at + first + (element * p.positions.left + vector * f.lanes)
                self.w.out.append(Prefetch(Ref(p.left.flat, (place,)), level=2))

    @contextmanager
    def taps_across(self) -> Iterator[None]:
        """Open loops over the taps of the lines around, those that read data."""
        with ExitStack() as loops:
            for axis in self.problem.outer:
                window = axis.window
                position = affine(window.position)
                first, stop = window.nonzero_taps(position, position)
                low, high = maximum(0, first), minimum(window.taps, stop)
                known = (0, window.taps)
                loops.enter_context(self.w.loop(window.tap, high, low, known=known))
            yield

    def products(self, part: ChannelTile, sums: Buf, taps: range) -> None:
        """Write the products of some taps along the line with all elements that the tile meets."""
        w, f, dtype = self.w, self.tile, self.problem.dtype
        uses = part.run.uses(self.problem.positions, taps)
        if not uses:
            return
        weights = w.local("weight", (len(taps), f.vectors, f.lanes), dtype, "vector")
        read = w.local("read", (1, f.vectors, f.lanes), dtype, "vector")
        vectors = (VECTOR, 0, f.vectors)
        met_taps = sorted({tap for met in uses.values() for _, tap in met})
        for tap in met_taps:
            weight = self.weight(part, tap)
            row = self.row(weights, affine(tap - taps.start))
            w.lanes(Store(row, "=", weight), f.lanes, vectors)
        for element, met in uses.items():
            w.lanes(
                Store(self.row(read, affine(0)), "=", self.element(part, element)), f.lanes, vectors
            )
            for position, tap in met:
                weight = self.row(weights, affine(tap - taps.start))
                value = Apply("mul", (weight, self.row(read, affine(0))), dtype)
                w.lanes(Store(self.row(sums, affine(position)), "+=", value), f.lanes, vectors)

    def row(self, tile: Buf, number: Affine) -> Ref:
        """Return a row of a register tile, in `VECTOR` and `LANE`."""
        return Ref(tile, (number, affine(VECTOR), affine(LANE)))

    @property
    def lane(self) -> Affine:
        """The channel in a tile, in `VECTOR` and `LANE`."""
        return affine(VECTOR) * self.tile.lanes + affine(LANE)

    def weight(self, part: ChannelTile, tap: int) -> Ref:
        """Return the weights of a tap along the line."""
        p = self.problem
        at = offset((*p.batch, *p.channels), "right") + p.right.offset
        for axis in p.outer:
            at = at + affine(axis.window.tap) * axis.right
        at = at + part.channel + self.lane
        return Ref(p.right.flat, (at + tap * p.positions.right,))

    def element(self, part: ChannelTile, element: int) -> Ref:
        """Return the element of the data so many elements behind the first of a tile."""
        p = self.problem
        at = offset((*p.batch, *p.channels), "left") + p.left.offset
        for axis in p.outer:
            at = at + _element(axis, affine(axis.window.position), affine(axis.window.tap))
        first = _element(p.positions, part.first, affine(0))
        at = at + first + element * p.positions.left
        return Ref(p.left.flat, (at + part.channel + self.lane,))

    # Results.

    def store(self, part: ChannelTile, sums: Buf) -> None:
        """Store the sums, or what an epilogue computes from them, through memory."""
        w, f = self.w, self.tile
        loops = ((VECTOR, 0, f.vectors), (I, 0, part.run.positions))
        here = self.row(sums, affine(I))
        if self.problem.epilogue is None:
            target = self.stored(part, affine(I), self.lane)
            w.lanes(Store(target, "=", here), f.lanes, *loops)
            return
        spilled = w.local("edge", (part.run.positions * f.width,), self.problem.dtype)
        w.lanes(Store(Ref(spilled, (affine(I) * f.width + self.lane,)), "=", here), f.lanes, *loops)
        with (
            w.loop(I, part.run.positions) as position,
            w.loop(PLACE, f.width, kind="vec") as place,
        ):
            target, *others = (
                self.stored(part, position, place, side) for side in self.problem.stored_sides
            )
            read = Ref(spilled, (position * f.width + place,))
            w.put(target, "=", epilogue_value(self.problem.epilogue, read, others))

    def stored(
        self, part: ChannelTile, position: Affine, place: Affine, side: Side = "target"
    ) -> Ref:
        """Return a position and a channel of a tile in the result, or in what an epilogue reads."""
        p, operand, k = self.problem, self.problem.target, 0
        if isinstance(side, int):
            operand, k = p.epilogue_operands[side], side + 1
        at = offset(p.batch, side) + operand.offset
        for axis in p.outer:
            at = at + affine(axis.window.position) * axis.stored[k]
        at = at + (part.first + position) * p.positions.stored[k]
        return Ref(operand.flat, (at + (part.channel + place) * p.lane.step(side),))


def _element(axis: SpaceWindow, position: Affine, tap: Affine) -> Affine:
    """Return the place of the element that a tap of a position meets."""
    window = axis.window
    element = position * window.stride + tap * window.dilation - window.before
    return element * axis.left


def packing_function(problem: Depthwise, packed: Buf, names: Sequence[str]) -> Function:
    """Return the function that packs constant weights before the run."""
    w = LoopBuilder(names)
    write_packing(w, problem, packed)
    source = problem.right.buf
    comment = f"{source.name}, packed for {problem.target.buf.name}"
    return Function(packed.name, (source,), packed, tuple(w.out), comment)
