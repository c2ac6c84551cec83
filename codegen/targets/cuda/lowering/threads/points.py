"""How a CUDA kernel names the points that its threads compute.

One number counts all points; the indices of the expression are its digits. For 3 × 40 outputs,
point 43 is `i = 1, j = 3`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod

from codegen.ir.nodes import Buf, For, Function, If, Number, Predicate, Ref, Statement
from codegen.lowering.block import Block, StatementSource
from codegen.lowering.guards import Place, Range
from codegen.lowering.loop_plan import LoopLevel, LoopPlan, has_numbers, merge_last
from codegen.lowering.reductions import value
from codegen.targets.cuda.lowering.threads.schedule import CudaSchedule
from einalg.language.index.affine import Affine, Index, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses, reductions


class CudaSource(StatementSource):
    """A statement with the loops of a GPU: one for each index, and none is cut.

    Where `merging` is set, neighbouring loops become one where memory allows it.
    """

    merging = True
    inside: tuple[Constraint, ...] = ()  # where its loops meet points of the statement

    def __init__(self, name: str, scope: Scope, holes: Mapping[str, Scope], schedule: CudaSchedule):
        super().__init__(name, scope, holes, schedule)
        self.numbers = schedule
        self.statement = self.scope  # in its own coordinates, also where `scope` has others

    @cached_property
    def plan(self) -> LoopPlan:
        reduces = list(reductions(self.scope.body))
        summed = [it for reduce in reduces for it in reduce.iterators]
        plan = LoopPlan(
            ranges={it.index: (it.low, it.high) for it in (*self.scope.iterators, *summed)}
        )
        for it in self.scope.iterators:
            plan.output += _levels(plan, it)
        for it in summed:
            if it.index not in plan.summed:
                plan.summed[it.index] = _levels(plan, it)
        if self.merging and self._is_unconditional_and_linear():
            while merge_last(plan, self.scope, inf):
                pass
        return plan

    def _is_unconditional_and_linear(self) -> bool:
        """Return whether memory alone decides which loops may be merged."""
        if self.cutting or has_numbers(self.scope):
            return False
        if any(self.skipping(reduce) for reduce in reductions(self.scope.body)):
            return False
        return all(
            form.is_affine() for access in accesses(self.scope.body) for form in access.subscripts
        )

    def block(self, bound: Sequence[LoopLevel]) -> Block:
        """Return an empty block inside loops over some levels."""
        place = Place(self.plan.ranges, self.plan.fixed)
        for level in bound:
            place = place.loop(level.index, *level.range)
        return Block(place, {self.name, *self.buffers, *(i.name for i in self.plan.ranges)})

    def fresh(self, name: str, extent: int) -> Index:
        """Return a new index that runs from 0 to `extent`."""
        index = self.plan.fresh(name)
        self.plan.ranges[index] = (0, extent)
        return index

    def put_point(self, block: Block) -> None:
        """Set the output at the block's place: to 0 outside of the conditions of the scope.

        Nothing is set at what is no point of the statement.
        """
        target, zero = self.target(block.place), Number(0, self.output.dtype)
        pending = block.place.undecided(self.scope.where)
        if pending is None:
            return block.put(target, "=", zero)
        if not pending:
            return block.put(target, "=", value(self, self.scope.body, block))
        inside, outside = block.inner(block.place.assuming(pending)), block.inner()
        inside.put(target, "=", value(self, self.scope.body, inside))
        outside.put(target, "=", zero)
        block.branch(pending, inside, outside)

    def partial_target(self, partial: Buf, part: Index, place: Place) -> Ref:
        """Return where a part of the sum at a place goes.

        `partial` has a row of all outputs for each part: `O_parts[part, 40*i + j]` for `O[i, j]`.
        """
        target, flat = self.target(place), affine(0)
        for form, size in zip(target.subscripts, target.buf.shape):
            flat = flat * size + form
        return Ref(partial, (affine(part), flat))

    def function(self, body: Sequence[Statement], partial: Buf | None = None) -> Function:
        """Return the kernel of the statement; of its partial sums where `partial` holds them."""
        output = partial or self.output
        return Function(
            output.name, tuple(self.buffers.values()), output, tuple(body), str(self.scope)
        )


def _levels(plan: LoopPlan, it: LoopIndex) -> list[LoopLevel]:
    """Return the loop over an index, or none where it has one value, which the plan fixes."""
    if it.extent == 1:
        plan.fixed[it.index] = affine(it.low)
        return []
    return [LoopLevel(it.index, affine(it.low), affine(it.high), (it.low, it.high))]


def count_points(levels: Iterable[LoopLevel]) -> int:
    """Return the number of points of some loops, which is the product of their extents."""
    return prod(level.extent for level in levels)


@dataclass(frozen=True)
class Points:
    """The points of some levels, counted by one index."""

    index: Index
    levels: tuple[LoopLevel, ...]

    @classmethod
    def of(cls, source: CudaSource, name: str, levels: Sequence[LoopLevel]) -> Points:
        return cls(source.fresh(name, count_points(levels)), tuple(levels))

    @classmethod
    def of_groups(
        cls, source: CudaSource, name: str, levels: Sequence[LoopLevel], width: int
    ) -> tuple[Points, Index, Affine]:
        """Return groups of neighbours along the last level, its index, and the first of a group.

        Of `j` from 0 to 40 in groups of 4: the points of `j_group` from 0 to 10, `j`, `4*j_group`.
        """
        *outer, last = levels
        groups = last.extent // width
        group = source.fresh(f"{last.index.name}_group", groups)
        level = LoopLevel(group, affine(0), affine(groups), (0, groups))
        points = cls.of(source, name, (*outer, level))
        return points, last.index, affine(group) * width + last.range[0]

    @property
    def count(self) -> int:
        return count_points(self.levels)

    def bind_indices(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return statements in which the indices have the values of the counted point."""
        below = 1
        for position, level in reversed(list(enumerate(self.levels))):
            form = floordiv(affine(self.index), below)
            if position:
                form = modulo(form, level.extent)
            form = form + level.range[0]
            statements = [let_index(level.index, form, level.range, statements)]
            below *= level.extent
        return tuple(statements)

    def at(
        self, form: Affine, largest: int, statements: Sequence[Statement]
    ) -> tuple[Statement, ...]:
        """Return statements at the point with number `form`, which is at most `largest`.

        Nothing happens where there is no such point.
        """
        body = self.bind_indices(statements)
        if largest >= self.count:
            body = (If(self.exists(), body),)
        return (let_index(self.index, form, (0, max(largest + 1, self.count)), body),)

    def exists(self) -> Predicate:
        return Predicate((below(self.index, self.count),))


def below(index: Index, end: int) -> Constraint:
    """Return the condition `index < end`."""
    return Constraint(affine(end - 1) - affine(index), ">=")


def let_index(index: Index, form: Affine, known: Range, body: Sequence[Statement]) -> For:
    """Return statements in which an index stands for a value: a loop of one step."""
    return For(index, form, form + 1, known, tuple(body))


def counted_loop(index: Index, extent: int, body: Sequence[Statement], kind: str = "seq") -> For:
    """Return a loop from 0 to `extent`."""
    return For(index, affine(0), affine(extent), (0, extent), tuple(body), kind)
