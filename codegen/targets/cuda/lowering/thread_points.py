"""How a CUDA kernel names the points that its threads compute: a number for all of them, taken apart into the indices of the expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from codegen.ir.nodes import Buf, For, Function, If, Number, Predicate, Ref, Statement
from codegen.lowering.block import Block, StatementSource
from codegen.lowering.guards import Place, Range
from codegen.lowering.loop_plan import LoopLevel, LoopPlan, has_numbers, merge_last
from codegen.lowering.reductions import value
from codegen.targets.cuda.lowering.schedule import CudaSchedule
from einalg.language.index.affine import Affine, Index, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses, reductions


class CudaSource(StatementSource):
    """A statement with the loops of a GPU: one for each index, none cut, neighbours merged where memory allows it."""

    merging = True

    def __init__(self, name: str, scope: Scope, holes: Mapping[str, Scope], schedule: CudaSchedule):
        super().__init__(name, scope, holes, schedule)
        self.numbers = schedule

    @cached_property
    def plan(self) -> LoopPlan:
        reduces = list(reductions(self.scope.body))
        inner = [it for reduce in reduces for it in reduce.iterators]
        plan = LoopPlan(
            ranges={it.index: (it.low, it.high) for it in (*self.scope.iterators, *inner)}
        )
        for it in self.scope.iterators:
            plan.output += _level(plan, it)
        for it in inner:
            if it.index not in plan.summed:
                plan.summed[it.index] = _level(plan, it)
        conditions = [*self.cutting, *(c for reduce in reduces for c in self.skipping(reduce))]
        linear = all(
            form.is_affine() for access in accesses(self.scope.body) for form in access.subscripts
        )
        if self.merging and linear and not conditions and not has_numbers(self.scope):
            while merge_last(plan, self.scope, float("inf")):
                pass
        return plan

    def block(self, bound: Sequence[LoopLevel]) -> Block:
        """An empty block inside loops over some levels."""
        place = Place(self.plan.ranges, self.plan.fixed)
        for level in bound:
            place = place.loop(level.index, *level.range)
        return Block(place, {self.name, *self.buffers, *(i.name for i in self.plan.ranges)})

    def fresh(self, name: str, extent: int) -> Index:
        """A new index from 0 to `extent`."""
        index = self.plan.fresh(name)
        self.plan.ranges[index] = (0, extent)
        return index

    def put_point(self, block: Block) -> None:
        """Set the element of the output at the block's place: the body, or 0 outside of the conditions of the scope."""
        target = self.target(block.place)
        pending = block.place.open(self.scope.where)
        if pending is None:
            return block.put(target, "=", Number(0, self.output.dtype))
        inside = block.inner(block.place.given(pending)) if pending else block
        inside.put(target, "=", value(self, self.scope.body, inside))
        if pending:
            outside = block.inner()
            outside.put(target, "=", Number(0, self.output.dtype))
            block.branch(pending, inside, outside)

    def partial_target(self, partial: Buf, part: Index, place: Place) -> Ref:
        """Where a part of the sum at a place goes: `partial` has a row of all outputs for each part."""
        target, flat = self.target(place), affine(0)
        for form, size in zip(target.subscripts, target.buf.shape):
            flat = flat * size + form
        return Ref(partial, (affine(part), flat))

    def function(self, body: Sequence[Statement]) -> Function:
        return Function(
            self.name, tuple(self.buffers.values()), self.output, tuple(body), str(self.scope)
        )


def _level(plan: LoopPlan, it: LoopIndex) -> list[LoopLevel]:
    if it.extent == 1:
        plan.fixed[it.index] = affine(it.low)
        return []
    return [LoopLevel(it.index, affine(it.low), affine(it.high), (it.low, it.high))]


@dataclass(frozen=True)
class Points:
    """The points of some levels, counted by one index."""

    index: Index
    levels: tuple[LoopLevel, ...]

    @classmethod
    def of(cls, source: CudaSource, name: str, levels: Sequence[LoopLevel]) -> Points:
        return cls(source.fresh(name, prod(level.extent for level in levels)), tuple(levels))

    @classmethod
    def of_groups(
        cls, source: CudaSource, name: str, levels: Sequence[LoopLevel], width: int
    ) -> tuple[Points, Index, Affine]:
        """Groups of `width` neighbours along the last level, whose index there is the first of a group, and so many more."""
        *outer, last = levels
        groups = last.extent // width
        group = source.fresh(f"{last.index.name}_group", groups)
        points = cls.of(
            source, name, (*outer, LoopLevel(group, affine(0), affine(groups), (0, groups)))
        )
        return points, last.index, affine(group) * width + last.range[0]

    @property
    def count(self) -> int:
        return prod(level.extent for level in self.levels)

    def named(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """Statements with the indices of the point that the counting index is at."""
        below = 1
        for position, level in reversed(list(enumerate(self.levels))):
            form = floordiv(affine(self.index), below)
            form = modulo(form, level.extent) if position else form
            statements = [let_index(level.index, form + level.range[0], level.range, statements)]
            below *= level.extent
        return tuple(statements)

    def at(
        self, form: Affine, largest: int, statements: Sequence[Statement]
    ) -> tuple[Statement, ...]:
        """Statements at the point with number `form`, which is at most `largest`; nothing happens where there is no such point."""
        body = self.named(statements)
        if largest >= self.count:
            body = (If(self.exists(), body),)
        return (let_index(self.index, form, (0, max(largest + 1, self.count)), body),)

    def exists(self) -> Predicate:
        return Predicate((below(self.index, self.count),))


def below(index: Index, end: int) -> Constraint:
    """The condition `index < end`."""
    return Constraint(affine(end - 1) - affine(index), ">=")


def let_index(index: Index, form: Affine, known: Range, body: Sequence[Statement]) -> For:
    """Statements with a name for a value: a loop of one step."""
    return For(index, form, form + 1, known, tuple(body))


def counted_loop(index: Index, extent: int, body: Sequence[Statement], kind: str = "seq") -> For:
    """A loop from 0."""
    return For(index, affine(0), affine(extent), (0, extent), tuple(body), kind)
