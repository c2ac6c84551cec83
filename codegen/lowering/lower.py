"""A scope as a loop nest (design §10).

The output is walked in the order in which it lies in memory. Loops are cut where a padded read enters or leaves its tensor, so
that the inner parts need no guards. A small reduction is written out point by point in the innermost loop; a large one sums a row of
neighbouring outputs, or one output at a time, whichever reads memory in order. A reduction stands outside the loops that it
does not depend on, and its loops run only where it has something to add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from codegen.ir.nodes import Bound, For, Function, Number, Statement, Store, walk
from codegen.lowering.block import Block, StatementSource, constant_bound
from codegen.lowering.guards import PHASES, Place, cuts
from codegen.lowering.loop_plan import LoopLevel, points
from codegen.lowering.reductions import (
    add_each,
    add_row,
    contributing,
    hoist,
    outermost_reductions,
    read_indices,
    value,
)
from codegen.lowering.schedule import DEFAULT, Schedule, prefers_row
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses


def lower(
    name: str, scope: Scope, holes: Mapping[str, Scope] | None = None, schedule: Schedule = DEFAULT
) -> Function:
    """The loop nest of the statement `name = scope`, whose body reads tensors and earlier statements only.

    `holes` are the scopes of earlier statements: those with conditions have no value at some points, which a padded read
    must know. Raises `CodegenError` for a function without code.

    >>> import einalg as ea
    >>> f = lower("O", ea.parse("O[i] = A[i] + 1", A=(9,)))
    >>> f.output.shape, f.body[0].extent, f.body[0].kind
    ((9,), 9, 'vec')
    """
    return _StatementNest(StatementSource(name, scope, holes or {}, schedule)).function()


class _StatementNest:
    """The loops over the output."""

    def __init__(self, source: StatementSource):
        self.source, self.schedule = source, source.schedule
        self.levels = [*source.plan.output, *source.plan.written]
        self.last = len(source.plan.output) - 1  # the innermost loop
        self.walked = {level.index for level in self.levels}
        self.conditions = (*source.cutting, *source.plan.conditions)
        self.threaded = self._threaded_levels()

    def function(self) -> Function:
        source = self.source
        place = Place(source.plan.ranges, source.plan.fixed)
        block = Block(place, {source.name, *source.buffers, *(i.name for i in source.plan.ranges)})
        self.uncut = self._uncut(place)
        if prod(source.output.shape):
            self.nest(0, block)
        body = tuple(self._parallel(s, self.threaded) for s in block.statements)
        return Function(
            source.name, tuple(source.buffers.values()), source.output, body, str(source.scope)
        )

    def nest(self, depth: int, block: Block) -> None:
        """The loops over the output from `depth` inwards."""
        pending = block.place.open(self.source.scope.where)
        if pending is None:
            return self.zeros(depth, block)
        here = [c for c in pending if block.place.is_bound(c)]
        if here:
            inside, outside = block.inner(block.place.given(here)), block.inner()
            self.nest(depth, inside)
            self.zeros(depth, outside)
            return block.branch(here, inside, outside)
        if depth == len(self.levels):
            return block.put(
                self.source.target(block.place),
                "=",
                value(self.source, self.source.scope.body, block),
            )
        hoist(self.source, self.source.scope.body, block, bool(pending))
        self.loop(depth, block)

    def loop(self, depth: int, block: Block) -> None:
        level = self.levels[depth]
        if depth > self.last:
            return self.steps(depth, block)
        if depth == self.source.plan.repeated and self.ahead(depth, block):
            return None
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
        """One part of a loop, and all that is inside it."""
        place = _inside(block.place, level, low, high)
        if level.index in place.fixed:
            return self.nest(depth + 1, block.beside(place))
        inside = block.inner(place)
        self.nest(depth + 1, inside)
        block.loop(level.index, low, high, inside)

    def steps(self, depth: int, block: Block) -> None:
        """The steps of a loop, written out where their number is known."""
        level = self.levels[depth]
        low, high = block.place.bounded(level.low), block.place.bounded(level.high)
        first, last = constant_bound(low), constant_bound(high)
        if first is None or last is None:
            return self.part(level, low, high, block, depth)
        for step in range(first, last):
            self.nest(depth + 1, block.beside(block.place.fix(level.index, step)))

    def branches(
        self, index: Index, parts: Sequence[tuple[Bound, Bound]], depth: int, block: Block
    ) -> None:
        """The parts of a loop that threads share, as one loop with a branch for each part."""
        (low, high), *others = parts
        first, last = constant_bound(low), constant_bound(high)
        assert first is not None and last is not None
        place = block.place.within(index, first, last)
        if not others:
            return self.nest(depth + 1, block.beside(place))
        inside, outside = block.inner(place), block.inner()
        self.nest(depth + 1, inside)
        self.branches(index, others, depth, outside)
        block.branch((Constraint(affine(last - 1) - affine(index), ">="),), inside, outside)

    def parts(self, level: LoopLevel, place: Place, innermost: bool) -> list[tuple[Bound, Bound]]:
        """Where a loop is cut; an innermost loop of a few steps everywhere, so that the one around it can use vector registers."""
        low, high = place.bounded(level.low), place.bounded(level.high)
        first, last = constant_bound(low), constant_bound(high)
        if first is None or last is None or level.index in self.uncut:
            return [(low, high)]
        if innermost and last - first <= PHASES:
            return [(affine(a), affine(a + 1)) for a in range(first, last)]
        at = [first, *cuts(place, level.index, first, last, self.conditions), last]
        return [(affine(a), affine(b)) for a, b in pairwise(at)]

    def zeros(self, depth: int, block: Block) -> None:
        """Points of the output outside the conditions of the scope hold 0."""
        if depth == len(self.levels):
            return block.put(
                self.source.target(block.place), "=", Number(0, self.source.output.dtype)
            )
        level = self.levels[depth]
        inside = block.inner(block.place.loop(level.index, *level.range))
        self.zeros(depth + 1, inside)
        block.loop(
            level.index, block.place.bounded(level.low), block.place.bounded(level.high), inside
        )

    # The innermost loop, over outputs that are neighbours in memory.

    def row(self, level: LoopLevel, low: Bound, high: Bound, block: Block) -> None:
        place = _inside(block.place, level, low, high)
        if level.index in place.fixed:
            return self.nest(self.last + 1, block.beside(place))
        first, last = constant_bound(low), constant_bound(high)
        written = {level.index for level in self.levels[self.last + 1 :]}
        reduces = [
            r
            for r in outermost_reductions(self.source.scope.body)
            if r not in block.results and not written & read_indices(r, place)
        ]
        large = [r for r in reduces if contributing(self.source, r, place) is None]
        if (
            large
            and first is not None
            and last is not None
            and prefers_row(large, level.index, last - first, place.fixed)
        ):
            return self.rows(level.index, first, last, large, block, self.last)
        inside = block.inner(place)
        self.nest(self.last + 1, inside)
        block.loop(level.index, low, high, inside)

    def ahead(self, depth: int, block: Block) -> bool:
        """Sum rows before the loops on which no reduction depends; whether there are reductions of the innermost loop that can be."""
        index, place = self.levels[self.last].index, block.place
        (first, last), known = self.levels[self.last].range, {*place.bound, index}
        reads = {
            reduce: read_indices(reduce, place)
            for reduce in outermost_reductions(self.source.scope.body)
            if reduce not in block.results
        }
        large = [
            reduce
            for reduce, read in reads.items()
            if index in read and read <= known and self.source.is_large(reduce)
        ]
        if large:
            self.rows(index, first, last, large, block, depth)
        return bool(large)

    def rows(
        self, index: Index, low: int, high: int, large: Sequence[Reduce], block: Block, depth: int
    ) -> None:
        """The innermost loop in tiles, each with a row of accumulators for every large reduction; the loops from `depth` on are inside them."""
        size = self.schedule.row
        tiles, rest = divmod(high - low, size)
        if tiles < 2:
            return self.tile(index, affine(low), high - low, large, block, depth)
        tile = self.source.plan.fresh(f"{index.name}_tile")
        self.walked.add(tile)
        inside = block.inner(block.place.loop(tile, 0, tiles))
        self.tile(index, affine(tile) * size + low, size, large, inside, depth)
        block.loop(tile, affine(0), affine(tiles), inside)
        if rest:
            self.tile(index, affine(high - rest), rest, large, block, depth)

    def tile(
        self,
        index: Index,
        base: Affine,
        width: int,
        large: Sequence[Reduce],
        block: Block,
        depth: int,
    ) -> None:
        for reduce in large:
            add = (
                add_row
                if prefers_row([reduce], index, width, block.place.fixed) or depth == self.last
                else add_each
            )
            add(self.source, reduce, index, base, width, block)
        first, last = base.interval(block.place.ranges)
        if depth == self.last:
            inside = block.inner(block.place.loop(index, first, last + width))
            self.nest(self.last + 1, inside)
            block.loop(index, base, base + width, inside)
        else:
            whole = self.levels[self.last]
            self.levels[self.last] = LoopLevel(index, base, base + width, (first, last + width))
            self.loop(depth, block)
            self.levels[self.last] = whole
        for reduce in large:
            del block.results[reduce]

    # Choices.

    def _uncut(self, place: Place) -> set[Index]:
        """The loops that are not cut: outer ones first where all cuts together would give too many parts."""
        uncut: set[Index] = set()
        most = max(
            self.schedule.regions, sum(1 for _ in accesses(self.source.scope.body))
        )  # the parts of what is joined of many
        regions = 1
        for level in reversed(self.source.plan.output):
            count = len(cuts(place, level.index, *level.range, self.conditions)) + 1
            if regions * count > most:
                uncut.add(level.index)
            else:
                regions *= count
        return uncut

    def _threaded_levels(self) -> int:
        """How many outer loops threads share."""
        work = prod(self.source.output.shape) * (
            1 + sum(points(r) for r in outermost_reductions(self.source.scope.body))
        )
        if work < self.schedule.parallel or not self.levels:
            return 0
        chunks = 1
        for depth, level in enumerate(self.source.plan.output):
            chunks *= level.extent
            if chunks >= self.schedule.chunks or depth + 1 >= self.last:
                return depth + 1
        return self.last + 1

    def _parallel(self, statement: Statement, depth: int) -> Statement:
        """A loop over the output as one that threads share, with the loops directly inside it."""
        if (
            not isinstance(statement, For)
            or statement.index not in self.walked
            or not depth
            or not self._writes(statement)
        ):
            return statement
        if constant_bound(statement.low) is None or constant_bound(statement.high) is None:
            return statement
        body = statement.body
        if len(body) == 1:
            body = (self._parallel(body[0], depth - 1),)
        return replace(statement, kind="par", body=body)

    def _writes(self, statement: Statement) -> bool:
        return any(
            isinstance(node, Store) and node.ref.buf == self.source.output
            for node in walk(statement)
        )


def _inside(place: Place, level: LoopLevel, low: Bound, high: Bound) -> Place:
    """Inside one part of a loop."""
    first, last = constant_bound(low), constant_bound(high)
    return (
        place.loop(level.index, *level.range)
        if first is None or last is None
        else place.within(level.index, first, last)
    )
