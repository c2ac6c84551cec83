"""A scope as a loop nest (design §10).

The output is walked in the order in which it lies in memory. Loops are cut where a padded read
enters or leaves its tensor, so that the inner parts need no guards. A small reduction is written
out point by point in the innermost loop; a large one sums a row of neighbouring outputs, or one
output at a time, whichever reads memory in order. A reduction stands outside the loops that it does
not depend on, and its loops run only where it has something to add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from codegen.ir.nodes import Bound, For, Function, Number, Statement, Store, walk
from codegen.ir.types import bytes_of
from codegen.lowering.block import Block, StatementSource, constant_bound
from codegen.lowering.guards import PHASES, Place, cuts, enclosure, extreme, narrowed
from codegen.lowering.loop_plan import LoopLevel, points
from codegen.lowering.reductions import (
    OutputRow,
    add_each,
    add_row,
    contributing,
    hoist,
    outermost_reductions,
    read_indices,
    value,
)
from codegen.lowering.schedule import (
    DEFAULT,
    MIN_VECTOR_TERMS,
    Schedule,
    bytes_of_terms,
    prefers_row,
)
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses


def lower(
    name: str,
    scope: Scope,
    statements: Mapping[str, Scope] | None = None,
    schedule: Schedule = DEFAULT,
    leaves_gaps: bool = False,
) -> Function:
    """Return the loop nest of the statement `name = scope`.

    Its body reads tensors and earlier statements only. `statements` are the scopes of the latter:
    those with conditions have no value at some points, which a padded read must know. The statement
    itself is 0 where it has no value, or anything if it `leaves_gaps`. Raises `CodegenError` for a
    function without code.

    >>> import einalg as ea
    >>> f = lower("O", ea.parse("O[i] = A[i] + 1", A=(9,)))
    >>> f.output.shape, f.body[0].extent, f.body[0].kind
    ((9,), 9, 'vec')
    """
    source = StatementSource(name, scope, statements or {}, schedule, leaves_gaps)
    place = Place(source.plan.ranges, source.plan.fixed)
    return _StatementNest(source, place).function()


class _StatementNest:
    """Writes the loops over the output."""

    def __init__(self, source: StatementSource, place: Place):
        self.source, self.schedule, self.place = source, source.schedule, place
        self.levels = [*source.plan.output, *source.plan.written]
        self.last = len(source.plan.output) - 1  # the innermost loop
        self.walked = {level.index for level in self.levels}
        self.conditions = (*source.cutting, *source.plan.conditions)
        self.threaded = _threaded_levels(source)
        self.uncut = self._uncut()

    def function(self) -> Function:
        source = self.source
        indices = (index.name for index in source.plan.ranges)
        block = Block(self.place, {source.name, *source.buffers, *indices})
        if prod(source.output.shape):
            self.nest(0, block)
        body = tuple(self._parallel(s, self.threaded) for s in block.statements)
        inputs = tuple(source.buffers.values())
        return Function(source.name, inputs, source.output, body, str(source.scope))

    def nest(self, depth: int, block: Block) -> None:
        """Write the loops over the output from `depth` inwards."""
        pending = block.place.undecided(self.source.scope.where)
        if pending is None:
            self.zeros(depth, block)
            return
        here = [c for c in pending if block.place.is_bound(c)]
        if here:
            inside, outside = block.inner(block.place.assuming(here)), block.inner()
            self.nest(depth, inside)
            self.zeros(depth, outside)
            block.branch(here, inside, outside)
        elif depth == len(self.levels):
            result = value(self.source, self.source.scope.body, block)
            block.put(self.source.target(block.place), "=", result)
        else:
            hoist(self.source, self.source.scope.body, block, bool(pending))
            self.loop(depth, block)

    def loop(self, depth: int, block: Block) -> None:
        """Write the loop at a depth, in parts where that spares guards."""
        level = self.levels[depth]
        if depth > self.last:
            self.steps(depth, block)
            return
        if depth == self.source.plan.repeated and self.sum_rows_first(depth, block):
            return
        parts = self.parts(level, block.place, depth == self.last)
        if depth == self.last:
            for low, high in parts:
                self.row(level, low, high, block)
        elif depth < self.threaded and len(parts) > 1:
            inside = block.inner(block.place.loop(level.index, *level.range))
            self.branches(level.index, parts, depth, inside)
            block.loop(level.index, parts[0][0], parts[-1][1], inside)
        else:
            for low, high in parts:
                self.part(level, low, high, block, depth)

    def part(self, level: LoopLevel, low: Bound, high: Bound, block: Block, depth: int) -> None:
        """Write one part of a loop, and all that is inside it."""
        place = _inside(block.place, level, low, high)
        if level.index in place.fixed:
            self.nest(depth + 1, block.at(place))
            return
        inside = block.inner(place)
        self.nest(depth + 1, inside)
        block.loop(level.index, low, high, inside)

    def steps(self, depth: int, block: Block) -> None:
        """Write out the steps of a loop, where their number is known."""
        level = self.levels[depth]
        low, high = block.place.bounded(level.low), block.place.bounded(level.high)
        first, last = constant_bound(low), constant_bound(high)
        if first is None or last is None:
            self.part(level, low, high, block, depth)
            return
        for step in range(first, last):
            self.nest(depth + 1, block.at(block.place.fix(level.index, step)))

    def branches(
        self, index: Index, parts: Sequence[tuple[Bound, Bound]], depth: int, block: Block
    ) -> None:
        """Write the parts of a loop that threads share as one loop with a branch for each part."""
        (low, high), *others = parts
        first, last = constant_bound(low), constant_bound(high)
        assert first is not None and last is not None
        place = block.place.within(index, first, last)
        if not others:
            self.nest(depth + 1, block.at(place))
            return
        inside, outside = block.inner(place), block.inner()
        self.nest(depth + 1, inside)
        self.branches(index, others, depth, outside)
        block.branch((Constraint(affine(last - 1) - affine(index), ">="),), inside, outside)

    def parts(self, level: LoopLevel, place: Place, innermost: bool) -> list[tuple[Bound, Bound]]:
        """Return where a loop is cut.

        An innermost loop of a few steps is cut everywhere, so that the one around it can use vector
        registers.
        """
        low, high = place.bounded(level.low), place.bounded(level.high)
        first, last = constant_bound(low), constant_bound(high)
        if first is None or last is None or level.index in self.uncut:
            return [(low, high)]
        if innermost and last - first <= PHASES:
            ends = list(range(first, last + 1))
        else:
            ends = [first, *cuts(place, level.index, first, last, self.conditions), last]
        return [(affine(a), affine(b)) for a, b in pairwise(ends)]

    def zeros(self, depth: int, block: Block) -> None:
        """Write 0 to points of the output outside the conditions of the scope, if they are read."""
        if self.source.leaves_gaps:
            return
        if depth == len(self.levels):
            zero = Number(0, self.source.output.dtype)
            block.put(self.source.target(block.place), "=", zero)
            return
        level = self.levels[depth]
        inside = block.inner(block.place.loop(level.index, *level.range))
        self.zeros(depth + 1, inside)
        low, high = block.place.bounded(level.low), block.place.bounded(level.high)
        block.loop(level.index, low, high, inside)

    # The innermost loop, over outputs that are neighbours in memory.

    def row(self, level: LoopLevel, low: Bound, high: Bound, block: Block) -> None:
        """Write one part of the innermost loop, in rows of accumulators where that pays."""
        place = _inside(block.place, level, low, high)
        if level.index in place.fixed:
            self.nest(self.last + 1, block.at(place))
            return
        first, last = constant_bound(low), constant_bound(high)
        if first is not None and last is not None:
            large = self.large_reductions(place, block)
            if large and prefers_row(large, level.index, last - first, place.fixed):
                self.rows(level.index, first, last, large, block, self.last)
                return
        self.inner_loops(level.index, low, high, place, block)

    def inner_loops(
        self, index: Index, low: Bound, high: Bound, place: Place, block: Block
    ) -> None:
        """Write the innermost loop: where the conditions of the scope hold, between loops of zeros.

        None of these has a branch in its steps, with which they could not be vectors. `place` is
        that inside of the loop.
        """
        pending = place.undecided(self.source.scope.where) or ()
        first, last, left = narrowed(block.place, index, low, high, pending)
        held = set(pending) - set(left)
        inside = block.inner(place.assuming(held))
        self.nest(self.last + 1, inside)
        if not held:
            block.loop(index, low, high, inside)
            return
        outside = block.inner(place)
        self.zeros(self.last + 1, outside)
        before, behind = extreme("min", (first, high), place), extreme("max", (first, last), place)
        for start, stop, body in (
            (low, before, outside),
            (first, last, inside),
            (behind, high, outside),
        ):
            if enclosure(start, place.ranges)[0] < enclosure(stop, place.ranges)[1]:
                block.loop(index, start, stop, body)

    def large_reductions(self, place: Place, block: Block) -> list[Reduce]:
        """Return the reductions that are summed in loops, and depend on no written-out steps."""
        written = {level.index for level in self.levels[self.last + 1 :]}
        large = []
        for reduce in outermost_reductions(self.source.scope.body):
            if reduce in block.results or written & read_indices(reduce, place):
                continue
            if contributing(self.source, reduce, place) is None:
                large.append(reduce)
        return large

    def sum_rows_first(self, depth: int, block: Block) -> bool:
        """Sum rows before the loops on which no reduction depends.

        Tells whether there are reductions of the innermost loop for which that can be done.
        """
        index, place = self.levels[self.last].index, block.place
        (first, last), known = self.levels[self.last].range, {*place.bound, index}
        large = []
        for reduce in outermost_reductions(self.source.scope.body):
            if reduce in block.results:
                continue
            read = read_indices(reduce, place)
            if index in read and read <= known and self.source.is_large(reduce):
                large.append(reduce)
        if large:
            self.rows(index, first, last, large, block, depth)
        return bool(large)

    def rows(
        self, index: Index, low: int, high: int, large: Sequence[Reduce], block: Block, depth: int
    ) -> None:
        """Write the innermost loop in tiles, each with rows of accumulators for large reductions.

        The loops from `depth` on are inside the tiles.
        """
        size = self.row_size(index, high - low, large, block, depth)
        tiles, rest = divmod(high - low, size)
        if tiles < 2:
            self.row_tile(OutputRow(index, affine(low), high - low), large, block, depth)
            return
        tile = self.source.plan.fresh(f"{index.name}_tile")
        self.walked.add(tile)
        inside = block.inner(block.place.loop(tile, 0, tiles))
        self.row_tile(OutputRow(index, affine(tile) * size + low, size), large, inside, depth)
        block.loop(tile, affine(0), affine(tiles), inside)
        if rest:
            self.row_tile(OutputRow(index, affine(high - rest), rest), large, block, depth)

    def row_size(
        self, index: Index, width: int, large: Sequence[Reduce], block: Block, depth: int
    ) -> int:
        """Return how many outputs a tile has: more where their terms come from memory."""
        schedule = self.schedule
        if bytes_of_terms(large, index, width, block.place.fixed) < schedule.memory_bytes:
            return schedule.row
        sizes = (bytes_of(self.source.accumulated(reduce)) for reduce in large)
        outer = prod(level.extent for level in self.levels[:depth])
        for_threads = -(-schedule.long_row_parts // max(1, outer))
        parts = max(1, for_threads, width * sum(sizes) // schedule.long_row_bytes)
        return max(schedule.row, width // parts // MIN_VECTOR_TERMS * MIN_VECTOR_TERMS)

    def row_tile(self, row: OutputRow, large: Sequence[Reduce], block: Block, depth: int) -> None:
        """Sum large reductions for a row of outputs, and write the loops that use them."""
        for reduce in large:
            fixed = block.place.fixed
            if depth == self.last or prefers_row([reduce], row.index, row.width, fixed):
                add_row(self.source, reduce, row, block)
            else:
                add_each(self.source, reduce, row, block)
        if depth == self.last:
            inside = block.inner(row.inside(block.place))
            self.nest(self.last + 1, inside)
            row.add_loop(block, inside)
        else:
            first, last = row.base.interval(block.place.ranges)
            whole = self.levels[self.last]
            values = (first, last + row.width)
            self.levels[self.last] = LoopLevel(row.index, row.base, row.base + row.width, values)
            self.loop(depth, block)
            self.levels[self.last] = whole
        for reduce in large:
            del block.results[reduce]

    # Choices.

    def _uncut(self) -> set[Index]:
        """Return the loops that are not cut.

        Outer ones first, where all cuts together would give too many parts.
        """
        uncut: set[Index] = set()
        reads = sum(1 for _ in accesses(self.source.scope.body))
        most_regions = max(self.schedule.regions, reads)  # what is joined of many has many parts
        regions = 1
        for level in reversed(self.source.plan.output):
            count = len(cuts(self.place, level.index, *level.range, self.conditions)) + 1
            if regions * count > most_regions:
                uncut.add(level.index)
            else:
                regions *= count
        return uncut

    def _parallel(self, statement: Statement, depth: int) -> Statement:
        """Return a loop over the output as one that threads share, with those directly inside."""
        if not isinstance(statement, For) or statement.index not in self.walked or not depth:
            return statement
        if constant_bound(statement.low) is None or constant_bound(statement.high) is None:
            return statement
        if not self._writes(statement):
            return statement
        body = statement.body
        if len(body) == 1:
            body = (self._parallel(body[0], depth - 1),)
        return replace(statement, kind="par", body=body)

    def _writes(self, statement: Statement) -> bool:
        """Whether a statement writes to the output."""
        for node in walk(statement):
            if isinstance(node, Store) and node.ref.buf == self.source.output:
                return True
        return False


def _threaded_levels(source: StatementSource) -> int:
    """Return how many outer loops threads share."""
    levels, schedule = source.plan.output, source.schedule
    reduces = outermost_reductions(source.scope.body)
    work = prod(source.output.shape) * (1 + sum(points(reduce) for reduce in reduces))
    if work < schedule.parallel or not (levels or source.plan.written):
        return 0
    chunks = 1
    for depth, level in enumerate(levels, 1):
        chunks *= level.extent
        if chunks >= schedule.chunks or depth >= len(levels) - 1:
            return depth
    return len(levels)


def _inside(place: Place, level: LoopLevel, low: Bound, high: Bound) -> Place:
    """Return the place inside one part of a loop."""
    first, last = constant_bound(low), constant_bound(high)
    if first is None or last is None:
        return place.loop(level.index, *level.range)
    return place.within(level.index, first, last)
