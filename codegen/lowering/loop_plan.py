"""Which loops run over a statement's indices: split where `//` and `%` ask for it, merged where neighbours lie in one row.

A level is one loop. The indices of the expression are either levels themselves, or fixed to index expressions of levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import sympy

from codegen.ir.nodes import Bound, MinMax
from codegen.ir.scalar import index_form
from codegen.lowering.guards import PHASES, Range
from codegen.lowering.schedule import Schedule, strides
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index, rebuild, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant
from einalg.language.ir.traversal import accesses, reductions


@dataclass(frozen=True)
class LoopLevel:
    """A loop over `low <= index < high`; `range` encloses all values of the index."""

    index: Index
    low: Bound
    high: Bound
    range: Range

    @property
    def extent(self) -> int:
        """The largest number of steps."""
        return self.range[1] - self.range[0]


@dataclass
class LoopPlan:
    """The loops over the output, outer first; those over each summed index; and what the other indices are fixed to.

    `conditions` say where a loop is to be cut besides where reads enter and leave their tensors. `merged` are the loops that run
    on over the ends of rows. The steps of the loops in `written` are written out inside the innermost one. `repeated` is the depth of the
    first loop on which no reduction depends, though these depend on the innermost one.
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
    """The loops of a scope with distinct indices; `conditions` are all that decide what is read or written."""
    reduces = list(reductions(scope.body))
    plan = LoopPlan(
        ranges={
            it.index: (it.low, it.high)
            for it in (*scope.iterators, *(it for r in reduces for it in r.iterators))
        }
    )
    inner = repeating(scope, schedule.again)
    large = bool(inner) or any(points(reduce) > schedule.unroll for reduce in reduces)
    quotients = _quotients(scope, conditions)
    last = next((it.index for it in reversed(scope.iterators) if it.extent != 1), None)
    walked = list(scope.iterators)
    if inner:
        walked.sort(key=lambda it: (it.index == last, it.index in inner))
    for it in walked:
        phases = PHASES if not (large and it.index == last) else 0
        if it.index in inner and plan.repeated is None:
            plan.repeated = len(plan.output)
        plan.output += _split(plan, it, quotients.get(it.index, []), phases)
    for it in (it for reduce in reduces for it in reduce.iterators):
        if it.index not in plan.summed:
            plan.summed[it.index] = _split(plan, it, quotients.get(it.index, []), 0)
    if not quotients and not large and not any(True for _ in conditions) and not has_numbers(scope):
        while merge_last(plan, scope, 64):
            pass
    if not large:
        _write_out(plan, scope, schedule.written)
    if not quotients and not large:
        _tile(plan, scope, schedule.tile)
    return plan


def repeating(scope: Scope, least: float) -> frozenset[Index]:
    """The indices of the output on which no reduction of so many points depends, where these depend on one behind them; but for the last."""
    reduces = [reduce for reduce in reductions(scope.body) if points(reduce) >= least]
    read = {index for reduce in reduces for index in reduce.free_symbols}
    walked = [it.index for it in scope.iterators if it.extent > 1]
    depends = [index in read for index in walked]
    if not reduces or scope.where or depends == sorted(depends, reverse=True):
        return frozenset()
    return frozenset(index for index in walked[:-1] if index not in read)


def points(reduce: Reduce) -> int:
    """The points of a reduction, with those of the reductions inside it."""
    return prod(it.extent for it in reduce.iterators) * prod(
        it.extent for r in reductions(reduce.body) for it in r.iterators
    )


# Quotients.


def _quotients(
    scope: Scope, conditions: Iterable[Constraint]
) -> dict[Index, list[tuple[int, bool, int]]]:
    """For each index under `//` or `%`: the period, whether it stands there alone with coefficient 1, and the constant beside it."""
    found: dict[Index, dict[tuple[int, bool, int], None]] = {}

    def see(form: Affine) -> None:
        for atom, _ in form.terms:
            if isinstance(atom, Index):
                continue
            see(atom.argument)
            for index in sorted(atom.argument.indices, key=str):
                step = atom.argument.coefficient(index)
                alone = step == 1 and len(atom.argument.terms) == 1
                period = atom.divisor // gcd(step, atom.divisor) if step else atom.divisor
                found.setdefault(index, {})[period, alone, atom.argument.const] = None

    for access in accesses(scope.body):
        for form in access.subscripts:
            see(form)
    for condition in conditions:
        see(condition.form)
    return {index: list(entries) for index, entries in found.items()}


def _split(
    plan: LoopPlan, it: LoopIndex, quotients: Sequence[tuple[int, bool, int]], phases: int
) -> list[LoopLevel]:
    """The loops over one index: one, or a loop over blocks and one inside each block."""
    if it.extent == 1:
        plan.fixed[it.index] = affine(it.low)
        return []
    periods = {
        p for p, alone, const in quotients if alone and (it.low + const) % p == 0 and p < it.extent
    }
    if phases and quotients and not periods:
        common = prod({p for p, _, _ in quotients}) if len(quotients) < 8 else phases + 1
        periods = {common} if common <= min(phases, it.extent - 1) else periods
    if not periods:
        return [LoopLevel(it.index, affine(it.low), affine(it.high), (it.low, it.high))]
    period = max(periods)
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


# Numbers of constants.


def _write_out(plan: LoopPlan, scope: Scope, most: int) -> None:
    """Set the loops apart that say which numbers of constants are read: these are known where their steps are written out.

    Everything else is then read once for all steps, as in the transforms of a bilinear factorisation.
    """
    constants = [access for access in accesses(scope.body) if isinstance(access.tensor, Constant)]
    choosing = {
        i
        for access in constants
        for form in access.subscripts
        for i in form.substitute(plan.fixed).indices
    }
    if not plan.output or plan.output[-1].index in choosing:
        return
    terms = max(1, sum(points(reduce) for reduce in reductions(scope.body)))
    for level in reversed(plan.output):
        if level.index in choosing and terms * level.extent <= most:
            terms *= level.extent
            plan.written.insert(0, level)
    plan.output = [level for level in plan.output if level not in plan.written]


# Neighbours in memory.


def has_numbers(scope: Scope) -> bool:
    """Whether an index stands in a body as a number."""
    found = False

    def see(body: Any) -> None:
        nonlocal found
        if isinstance(body, Access):
            return
        if isinstance(body, Reduce):
            return see(body.body)
        if not isinstance(body, sympy.Integer) and index_form(body) is not None:
            found = True
        for argument in getattr(body, "args", ()):
            see(argument)

    see(scope.body)
    return found


def merge_last(plan: LoopPlan, scope: Scope, longest: float) -> bool:
    """Make the two innermost loops one, where the inner one is shorter than `longest` and every tensor is walked in one stride."""
    if len(plan.output) < 2 or plan.output[-1].extent >= longest:
        return False
    one, two = plan.output[-2:]
    for access in accesses(scope.body):
        steps = strides(access, plan.fixed)
        if steps(one.index) is None or steps(one.index) != two.extent * (steps(two.index) or 0):
            return False
    merged = plan.fresh(f"{one.index.name}_{two.index.name}")
    size = one.extent * two.extent
    place = {
        one.index: affine(one.range[0]),
        two.index: affine(merged) + two.range[0],
    }  # runs on over the ends of the rows
    plan.fixed = {**{i: form.substitute(place) for i, form in plan.fixed.items()}, **place}
    plan.output[-2:] = [plan.level(merged, affine(0), affine(size), (0, size))]
    plan.merged.add(merged)
    return True


def _tile(plan: LoopPlan, scope: Scope, edge: int) -> None:
    """Walk two loops in square tiles, where a tensor is read across the rows of the output."""
    if len(plan.output) < 2 or plan.output[-1].extent < edge:
        return
    last = plan.output[-1]
    for access in accesses(scope.body):
        steps = strides(access, plan.fixed)
        across = [
            k
            for k, level in enumerate(plan.output[:-1])
            if steps(level.index) == 1 and level.extent >= edge
        ]
        if across and abs(steps(last.index) or 0) >= edge:
            first = plan.output[across[0]]
            (rows, row), (columns, column) = _tiled(plan, first, edge), _tiled(plan, last, edge)
            plan.output[across[0]] = rows
            plan.output[-1:] = [columns, row, column]
            return


def _tiled(plan: LoopPlan, level: LoopLevel, edge: int) -> tuple[LoopLevel, LoopLevel]:
    """A loop over tiles, and the loop inside a tile."""
    low, high = level.range
    tile = plan.fresh(f"{level.index.name}_tile")
    count = -(-level.extent // edge)
    begin = affine(tile) * edge + low
    end: Bound = begin + edge
    if level.extent % edge:
        plan.conditions.append(Constraint(-begin + (high - edge), ">="))
        end = MinMax("min", (end, affine(high)))
    return plan.level(tile, affine(0), affine(count), (0, count)), plan.level(
        level.index, begin, end, level.range
    )


def distinct_indices(scope: Scope) -> Scope:
    """The scope with different names for indices of different ranges."""
    known: dict[Index, Range] = dict(scope.ranges)

    def rename(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        taken = {*known, *node.free_symbols, *node.indices}
        names: dict[Index, Affine] = {}
        iterators = []
        for index, low, high in node.iterators:
            own = (
                index
                if known.get(index, (low, high)) == (low, high)
                else fresh_index(index.name, taken)
            )
            if own is not index:
                names[index] = affine(own)
            taken.add(own)
            known[own] = (low, high)
            iterators.append(LoopIndex(own, low, high))
        inside = rebuild(substitute(node.body, names) if names else node.body, rename)
        if inside is node.body and not names:
            return node
        return Reduce(node.op, iterators, tuple(c.substitute(names) for c in node.where), inside)

    body = rebuild(scope.body, rename)
    return scope if body is scope.body else Scope(scope.iterators, scope.where, body)
