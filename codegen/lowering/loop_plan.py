"""Which loops run over a statement's indices.

They are split where `//` and `%` ask for it, and merged where neighbours lie in one row. A level is
one loop. The indices of the expression are either levels themselves, or fixed to index expressions
of levels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, inf, prod
from typing import Any

import sympy

from codegen.ir.nodes import Bound, MinMax
from codegen.ir.scalars.index_parts import index_form
from codegen.lowering.guards import PHASES, Range
from codegen.lowering.schedule import Schedule, outer_first, strides
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant
from einalg.language.ir.traversal import accesses, reductions

MAX_PERIODS = 7  # of quotients of one index whose common period is looked for
MAX_MERGED_EXTENT = 64  # elements of a row, from which on it is not merged with those around it


@dataclass(frozen=True)
class LoopLevel:
    """A loop over `low <= index < high`; `range` encloses all values of the index."""

    index: Index
    low: Bound
    high: Bound
    range: Range

    @property
    def extent(self) -> int:
        """Return the largest number of steps."""
        return self.range[1] - self.range[0]


@dataclass
class LoopPlan:
    """The loops over the output, outer first, and over each summed index.

    `fixed` are the expressions to which the other indices are fixed, as in `{i: 4*i_outer +
    i_inner}`. `conditions` say where a loop is to be cut besides where reads enter and leave their
    tensors. `merged` are the loops that run on over the ends of rows. The steps of the loops in
    `written` are written out inside the innermost one. `repeated` is the depth of the first loop on
    which no reduction depends, though these depend on the innermost one.
    """

    output: list[LoopLevel] = field(default_factory=list)
    written: list[LoopLevel] = field(default_factory=list)
    summed: dict[Index, list[LoopLevel]] = field(default_factory=dict)
    fixed: dict[Index, Affine] = field(default_factory=dict)
    ranges: dict[Index, Range] = field(default_factory=dict)
    conditions: list[Constraint] = field(default_factory=list)
    merged: set[Index] = field(default_factory=set)
    repeated: int | None = None

    def fresh(self, name: str) -> Index:
        return fresh_index(name, self.ranges)

    def level(self, index: Index, low: Bound, high: Bound, known: Range) -> LoopLevel:
        self.ranges[index] = known
        return LoopLevel(index, low, high, known)


def make_plan(scope: Scope, conditions: Iterable[Constraint], schedule: Schedule) -> LoopPlan:
    """Return the loops of a scope with distinct indices.

    `conditions` are all that decide what is read or written.
    """
    conditions = tuple(conditions)
    inner = repeating(scope, schedule.hoisted_points)
    large = bool(inner) or any(
        points(reduce) > schedule.unroll for reduce in reductions(scope.body)
    )
    quotients = _quotients(scope, conditions)
    plan = LoopPlan()
    for it in (*scope.iterators, *_summed(scope.body)):
        plan.ranges[it.index] = (it.low, it.high)
    _add_output_loops(plan, scope, inner, quotients, large)
    for it in _summed(scope.body):
        if it.index not in plan.summed:
            plan.summed[it.index] = _split(plan, it, quotients.get(it.index, []), 0)
    can_merge = not has_numbers(scope)
    deciding = _deciding(plan, [*quotients, *[i for one in conditions for i in one.indices]])
    if can_merge:
        merge_summed(plan, scope, deciding)
    if large:
        return plan
    if can_merge:
        while merge_last(plan, scope, MAX_MERGED_EXTENT, deciding):
            pass
    _write_out(plan, scope, schedule.constant_terms)
    if not quotients:
        _tile(plan, scope, schedule.tile)
    return plan


def _deciding(plan: LoopPlan, indices: Collection[Index]) -> frozenset[Index]:
    """Return indices, and those of the loops over parts of their ranges."""
    parts = [plan.fixed[index].indices for index in indices if index in plan.fixed]
    return frozenset(indices).union(*parts)


def _add_output_loops(
    plan: LoopPlan,
    scope: Scope,
    inner: frozenset[Index],
    quotients: Mapping[Index, Sequence[PeriodicQuotient]],
    large: bool,
) -> None:
    """Add the loops over the output; those over `inner` stand behind all but the last one."""
    last = None
    for it in scope.iterators:
        if it.extent != 1:
            last = it.index

    def order(it: LoopIndex) -> tuple[bool, bool]:
        return it.index == last, it.index in inner

    iterators = list(scope.iterators)
    if inner:
        iterators.sort(key=order)
    for it in iterators:
        phases = PHASES
        if large and it.index == last:
            phases = 0
        if it.index in inner and plan.repeated is None:
            plan.repeated = len(plan.output)
        plan.output += _split(plan, it, quotients.get(it.index, []), phases)


def _summed(body: Any) -> list[LoopIndex]:
    """Return the indices of all reductions of a body."""
    iterators: list[LoopIndex] = []
    for reduce in reductions(body):
        iterators += reduce.iterators
    return iterators


def repeating(scope: Scope, min_points: float) -> frozenset[Index]:
    """Return the indices of the output on which no large reduction depends; but for the last.

    Empty unless some of these reductions, of so many points at least, depend on an index behind
    them.
    """
    reduces = [reduce for reduce in reductions(scope.body) if points(reduce) >= min_points]
    read = set[Index]()
    for reduce in reduces:
        read.update(reduce.free_symbols)
    indices = [it.index for it in scope.iterators if it.extent > 1]
    depends = [index in read for index in indices]
    if not reduces or scope.where or depends == sorted(depends, reverse=True):
        return frozenset()
    return frozenset(index for index in indices[:-1] if index not in read)


def points(reduce: Reduce) -> int:
    """Return the points of a reduction, with those of the reductions inside it."""
    return prod(it.extent for it in reduce.iterators) * prod(
        it.extent for it in _summed(reduce.body)
    )


# Quotients.


@dataclass(frozen=True)
class PeriodicQuotient:
    """How an index stands under `//` or `%`.

    The values repeat or step with a period; `alone` says that nothing but a constant stands beside
    it, without a coefficient.
    """

    period: int
    alone: bool
    constant: int


def _quotients(
    scope: Scope, conditions: Iterable[Constraint]
) -> dict[Index, list[PeriodicQuotient]]:
    """Return the quotients of each index that stands under `//` or `%`."""
    results: dict[Index, dict[PeriodicQuotient, None]] = {}

    def see(form: Affine) -> None:
        for atom, _ in form.terms:
            if isinstance(atom, Index):
                continue
            see(atom.argument)
            for index in sorted(atom.argument.indices, key=str):
                quotient = _quotient(atom.argument, atom.divisor, index)
                results.setdefault(index, {})[quotient] = None

    for access in accesses(scope.body):
        for form in access.subscripts:
            see(form)
    for condition in conditions:
        see(condition.form)
    return {index: list(entries) for index, entries in results.items()}


def _quotient(argument: Affine, divisor: int, index: Index) -> PeriodicQuotient:
    step = argument.coefficient(index)
    period = divisor
    if step:
        period = divisor // gcd(step, divisor)
    return PeriodicQuotient(period, step == 1 and len(argument.terms) == 1, argument.const)


def _split(
    plan: LoopPlan, it: LoopIndex, quotients: Sequence[PeriodicQuotient], phases: int
) -> list[LoopLevel]:
    """Return the loops over one index: one, or a loop over blocks and one inside each block."""
    if it.extent == 1:
        plan.fixed[it.index] = affine(it.low)
        return []
    period = _block_size(it, quotients, phases)
    if period is None:
        return [LoopLevel(it.index, affine(it.low), affine(it.high), (it.low, it.high))]
    outer, inner = plan.fresh(f"{it.index.name}_outer"), plan.fresh(f"{it.index.name}_inner")
    blocks = -(-it.extent // period)
    first = plan.level(outer, affine(0), affine(blocks), (0, blocks))
    plan.fixed[it.index] = affine(outer) * period + affine(inner) + it.low
    whole = affine(it.extent) - affine(outer) * period
    high: Bound = affine(period)
    if it.extent % period:
        plan.conditions.append(Constraint(whole - period, ">="))
        high = MinMax("min", (affine(period), whole))
    return [first, plan.level(inner, affine(0), high, (0, period))]


def _block_size(it: LoopIndex, quotients: Sequence[PeriodicQuotient], phases: int) -> int | None:
    """Return the elements of a block inside which quotients of an index are simple.

    That is a period that begins with the index, or one of all quotients, of so many phases at most.
    """
    periods = []
    for quotient in quotients:
        begins = (it.low + quotient.constant) % quotient.period == 0
        if quotient.alone and begins and quotient.period < it.extent:
            periods.append(quotient.period)
    if periods:
        return max(periods)
    if not phases or not quotients or len(quotients) > MAX_PERIODS:
        return None
    common = prod({quotient.period for quotient in quotients})
    if common <= min(phases, it.extent - 1):
        return common
    return None


# Numbers of constants.


def _write_out(plan: LoopPlan, scope: Scope, max_terms: int) -> None:
    """Mark the loops that choose numbers of constants as written out, where their terms are few.

    These numbers are then in the code. Everything else is read once for all steps, as in the
    transforms of a bilinear factorisation.
    """
    choosing = set[Index]()
    for access in accesses(scope.body):
        if isinstance(access.tensor, Constant):
            for form in access.subscripts:
                choosing |= form.substitute(plan.fixed).indices
    if not plan.output or plan.output[-1].index in choosing:
        return
    terms = max(1, sum(points(reduce) for reduce in reductions(scope.body)))
    for level in reversed(plan.output):
        if level.index in choosing and terms * level.extent <= max_terms:
            terms *= level.extent
            plan.written.insert(0, level)
    plan.output = [level for level in plan.output if level not in plan.written]


# Neighbours in memory.


def has_numbers(scope: Scope) -> bool:
    """Whether an index stands in a body as a number."""
    return _has_index_number(scope.body)


def _has_index_number(body: Any) -> bool:
    if isinstance(body, Access):
        return False
    if isinstance(body, Reduce):
        return _has_index_number(body.body)
    if not isinstance(body, sympy.Integer) and index_form(body) is not None:
        return True
    return any(map(_has_index_number, getattr(body, "args", ())))


def merge_last(
    plan: LoopPlan,
    scope: Scope,
    max_extent: float = inf,
    deciding: frozenset[Index] = frozenset(),
) -> bool:
    """Make the two innermost loops one, where every tensor is walked in one stride.

    Not where the inner one has `max_extent` steps or more, or where one of them is over an index
    that is `deciding` what is read or written. Tells whether they are one now.
    """
    if len(plan.output) < 2 or plan.output[-1].extent >= max_extent:
        return False
    one, two = plan.output[-2:]
    if {one.index, two.index} & deciding:
        return False
    if not _are_one_walk(plan, scope, one, two):
        return False
    plan.output[-2:] = [_merged(plan, one, two)]
    return True


def merge_summed(plan: LoopPlan, scope: Scope, deciding: frozenset[Index]) -> None:
    """Make loops of reductions one, where every tensor is walked in one stride; but for those over
    indices that are `deciding` what is read.
    """
    for reduce in reductions(scope.body):
        while _merge_last_summed(plan, scope, reduce, deciding):
            pass


def _merge_last_summed(
    plan: LoopPlan, scope: Scope, reduce: Reduce, deciding: frozenset[Index]
) -> bool:
    """Make the two innermost loops of a reduction one; tell whether they are now.

    Other reductions may have these loops, but only together.
    """
    walked = [it.index for it in outer_first(reduce) if plan.summed[it.index]]
    if len(walked) < 2:
        return False
    if deciding.intersection(walked[-2:]):
        return False
    (one,), (two,) = (plan.summed[index] for index in walked[-2:])
    for other in reductions(scope.body):
        indices = [it.index for it in other.iterators]
        if (walked[-2] in indices) != (walked[-1] in indices):
            return False
    if not _are_one_walk(plan, scope, one, two):
        return False
    plan.summed[walked[-2]], plan.summed[walked[-1]] = [], [_merged(plan, one, two)]
    return True


def _are_one_walk(plan: LoopPlan, scope: Scope, one: LoopLevel, two: LoopLevel) -> bool:
    """Whether every tensor is walked in one stride by a loop and the one inside of it."""
    for access in accesses(scope.body):
        steps = strides(access, plan.fixed)
        if steps(one.index) is None or steps(one.index) != two.extent * (steps(two.index) or 0):
            return False
    return True


def _merged(plan: LoopPlan, one: LoopLevel, two: LoopLevel) -> LoopLevel:
    """Return a loop and the one inside of it as one, which runs on over the ends of the rows."""
    merged = plan.fresh(f"{one.index.name}_{two.index.name}")
    size = one.extent * two.extent
    place = {one.index: affine(one.range[0]), two.index: affine(merged) + two.range[0]}
    plan.fixed = {**{i: form.substitute(place) for i, form in plan.fixed.items()}, **place}
    plan.merged.add(merged)
    return plan.level(merged, affine(0), affine(size), (0, size))


def _tile(plan: LoopPlan, scope: Scope, edge: int) -> None:
    """Walk two loops in square tiles, where a tensor is read across the rows of the output."""
    if len(plan.output) < 2 or plan.output[-1].extent < edge:
        return
    last = plan.output[-1]
    for access in accesses(scope.body):
        stride = strides(access, plan.fixed)
        for depth, level in enumerate(plan.output[:-1]):
            if stride(level.index) == 1 and level.extent >= edge:
                if abs(stride(last.index) or 0) < edge:
                    break
                (rows, row), (columns, column) = _tiled(plan, level, edge), _tiled(plan, last, edge)
                plan.output[depth] = rows
                plan.output[-1:] = [columns, row, column]
                return


def _tiled(plan: LoopPlan, level: LoopLevel, edge: int) -> tuple[LoopLevel, LoopLevel]:
    """Return a loop over tiles, and the loop inside a tile."""
    low, high = level.range
    tile = plan.fresh(f"{level.index.name}_tile")
    count = -(-level.extent // edge)
    begin = affine(tile) * edge + low
    end: Bound = begin + edge
    if level.extent % edge:
        plan.conditions.append(Constraint(-begin + (high - edge), ">="))
        end = MinMax("min", (end, affine(high)))
    outer = plan.level(tile, affine(0), affine(count), (0, count))
    return outer, plan.level(level.index, begin, end, level.range)
