"""The values of bodies at a place of a loop nest, with the loops of their reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from codegen.ir.extremes import EXTREMES
from codegen.ir.nodes import Apply, Bound, MinMax, Number, Predicate, Ref, Value
from codegen.ir.scalars.folding import apply, cast
from codegen.ir.scalars.functions import calls_functions
from codegen.ir.scalars.translation import translate
from codegen.ir.types import computed, constant, element
from codegen.lowering.block import Block, StatementSource
from codegen.lowering.guards import PHASES, Place, enclosure, narrowed
from codegen.lowering.loop_plan import LoopLevel, points
from codegen.lowering.schedule import outer_first
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.tensor import Access, Constant, padded_box
from einalg.language.ir.traversal import accesses
from einalg.language.notation.constant import array_of

ASSIGN = {"Sum": "+=", "Prod": "*=", "Max": "max", "Min": "min"}
Leaf = Callable[[Block, tuple[Constraint, ...]], None]
# A point, where some conditions are known to hold, and these conditions.
GuardedPlace = tuple[Place, tuple[Constraint, ...]]


class Values:
    """The leaves of a scalar body at one place (`codegen.ir.scalars.translation.Leaves`)."""

    def __init__(self, source: StatementSource, block: Block):
        self.source, self.block = source, block

    def access(self, access: Access) -> Value:
        dtype = computed(access.tensor.dtype)
        load, *fills = self.source.layers(access)
        total: Value = Number(0, dtype)
        for conditions, fill in reversed(fills):
            test, fill_value = self.all_hold(conditions), element(fill, access.tensor.dtype)
            total = apply("select", [test, fill_value, total], dtype)
        inside = self.all_hold(load[0])
        if isinstance(inside, Number) and not inside.value:
            return total
        value = self.number(access) or self.source.read(access, self.block.place)
        if isinstance(inside, Number):
            return value
        return apply("select", [inside, value, total], dtype)

    def number(self, access: Access) -> Number | None:
        """Return the element of a constant, where it is always the same one; 0 where there is none,
        so that it is read nowhere.
        """
        if not isinstance(access.tensor, Constant):
            return None
        point, dtype = [], computed(access.tensor.dtype)
        for subscript, (low, _) in zip(access.subscripts, access.tensor.box):
            form = self.block.place.form(subscript)
            if form.terms:
                return None
            point.append(form.const - low)
        if not all(0 <= at < size for at, size in zip(point, access.tensor.shape)):
            return Number(0, dtype)
        return Number(array_of(access.tensor)[tuple(point)].item(), dtype)

    def all_hold(self, conditions: Sequence[Constraint]) -> Value:
        """Return whether all conditions hold."""
        pending = self.block.place.undecided(conditions)
        if pending:
            return Predicate(pending)
        return Number(pending is not None, "bool")

    def reduction(self, reduce: Reduce) -> Value:
        total = reduced(self.source, reduce, self.block)
        if reduce.op.lower() in EXTREMES and self.source.skipping(reduce):
            return _with_infinity(reduce, total)
        return total

    def holds(self, condition: Constraint) -> Value:
        return self.all_hold((condition,))

    def index(self, form: Affine) -> Affine:
        return self.block.place.form(form)


def _with_infinity(reduce: Reduce, total: Value) -> Value:
    """Return an extreme that is the infinity of its type over no points, not that of a longer one
    in which it is computed.
    """
    declared = result_dtype(reduce)
    if isinstance(total, Number) or total.dtype == computed(declared):
        return total
    dtype = total.dtype
    if is_float(declared):
        dtype = declared
    nothing = Number(constant(reduce.identity).value, total.dtype)
    is_empty = Apply("eq", (total, nothing), "bool")
    return apply("select", [is_empty, element(reduce.identity, declared), total], dtype)


def value(source: StatementSource, body: Any, block: Block, whole: str = "") -> Value:
    """Return the value of a body, as a part of one that is computed in type `whole`.

    The loops of reductions that are not summed yet are added to the block.
    """
    return translate(body, Values(source, block), whole)


def addend(source: StatementSource, reduce: Reduce, block: Block) -> Value:
    """Return what a reduction adds to its accumulator, in whose type it is computed."""
    return value(source, reduce.body, block, source.accumulated(reduce))


def reduced(source: StatementSource, reduce: Reduce, block: Block) -> Value:
    """Return the value of a reduction.

    It is summed already, or its points are written out, or a loop adds them to an accumulator.
    """
    if reduce in block.results:
        result = block.results[reduce]
        if isinstance(result, Ref):
            return Ref(result.buf, tuple(map(block.place.form, result.subscripts)))
        return result
    places = contributing(source, reduce, block.place)
    if places is not None:
        total = _written_out(source, reduce, [(place, ()) for place in places], block)
    elif _is_guarded(source, reduce):
        total = _written_out(source, reduce, _guarded(source, reduce, block.place), block)
    else:
        total = _summed_in_loops(source, reduce, block)
    block.results[reduce] = total
    return total


def contributing(source: StatementSource, reduce: Reduce, place: Place) -> list[Place] | None:
    """Return the points of a reduction that contribute.

    None unless they are few and the same ones everywhere at this place.
    """
    if source.is_large(reduce):
        return None
    conditions = source.skipping(reduce)
    places = []
    for point in _points(reduce, place):
        pending = point.undecided(conditions)
        if pending:
            return None
        if pending is not None:
            places.append(point)
    inner = outermost_reductions(reduce.body)
    for point, inner_reduce in product(places, inner):
        if contributing(source, inner_reduce, point) is None:
            return None
    return places


def _points(reduce: Reduce, place: Place) -> Iterator[Place]:
    """Yield every point of a reduction."""
    for point in product(*(range(it.low, it.high) for it in reduce.iterators)):
        fixed = {it.index: affine(p) for it, p in zip(reduce.iterators, point)}
        yield replace(place, fixed={**place.fixed, **fixed})


def _summed_in_loops(source: StatementSource, reduce: Reduce, block: Block) -> Ref:
    total = Ref(block.local(reduce, (), source.accumulated(reduce)), ())
    block.put(total, "=", source.identity(reduce))

    def leaf(inner: Block, pending: tuple[Constraint, ...]) -> None:
        inner.put(total, ASSIGN[reduce.op], addend(source, reduce, inner))

    add_loops(source, reduce, source.skipping(reduce), block, leaf)
    return total


def _written_out(
    source: StatementSource, reduce: Reduce, terms_at: Iterable[GuardedPlace], block: Block
) -> Value:
    """Return the sum of the terms at some points; one whose conditions fail is the identity."""
    dtype, identity = source.accumulated(reduce), source.identity(reduce)
    terms = []
    for place, conditions in terms_at:
        term = cast(addend(source, reduce, block.at(place)), dtype)
        if conditions:
            term = apply("select", [Predicate(conditions), term, identity], dtype)
        if term != identity:
            terms.append(term)
    if not terms:
        return identity
    if len(terms) == 1:
        return terms[0]
    total = Ref(block.local(reduce, (), dtype), ())
    block.put(total, "=", terms[0])
    for term in terms[1:]:
        block.put(total, ASSIGN[reduce.op], term)
    return total


def _is_guarded(source: StatementSource, reduce: Reduce) -> bool:
    """Tell whether a reduction is written out with a condition at each term."""
    if outermost_reductions(reduce.body) or calls_functions(reduce.body):
        return False
    return points(reduce) <= source.schedule.guarded_terms


def _guarded(source: StatementSource, reduce: Reduce, place: Place) -> Iterator[GuardedPlace]:
    """Yield the points of a reduction that may contribute, each with the conditions for it."""
    for point in _points(reduce, place):
        pending = point.undecided(source.skipping(reduce))
        if pending is not None:
            yield replace(point, known=point.known.union(pending)), pending


def add_loops(
    source: StatementSource,
    reduce: Reduce,
    conditions: Sequence[Constraint],
    block: Block,
    leaf: Leaf,
) -> None:
    """Add loops over the points of a reduction that meet the conditions.

    Conditions on an index that no loop has opened yet are left to the leaf.
    """
    levels: list[LoopLevel] = []
    for it in outer_first(reduce):
        levels += source.plan.summed[it.index]
    _ReductionLoops(source, reduce, leaf).add(levels, conditions, block)


@dataclass(frozen=True)
class _ReductionLoops:
    """Writes the loops over the points of a reduction, and at each point what `leaf` writes."""

    source: StatementSource
    reduce: Reduce
    leaf: Leaf

    def add(
        self, levels: Sequence[LoopLevel], conditions: Sequence[Constraint], block: Block
    ) -> None:
        """Add loops over some levels, as far as the conditions hold."""
        pending = block.place.undecided(conditions)
        if pending is None:
            return
        here = tuple(c for c in pending if block.place.is_bound(c))
        if here:
            inside = block.inner(block.place.assuming(here))
            self.add(levels, pending, inside)
            block.branch(here, inside)
        elif not levels:
            self.leaf(block, pending)
        else:
            hoist(self.source, self.reduce.body, block, bool(pending))
            level, *others = levels
            if level.extent <= PHASES and _has_remainder(level.index, pending):
                self.add_steps(level, others, pending, block)
            else:
                self.add_loop(level, others, pending, block)

    def add_steps(
        self,
        level: LoopLevel,
        others: Sequence[LoopLevel],
        pending: Sequence[Constraint],
        block: Block,
    ) -> None:
        """Write out the steps of a loop, so that remainders of its index are known."""
        for step in range(*level.range):
            place = block.place.fix(level.index, step)
            self.add(others, (*pending, *_steps_at(level, step)), block.at(place))

    def add_loop(
        self,
        level: LoopLevel,
        others: Sequence[LoopLevel],
        pending: Sequence[Constraint],
        block: Block,
    ) -> None:
        """Add a loop over the steps for which conditions hold, as far as its bounds can say so."""
        place = block.place
        low, high, left = narrowed(place, level.index, level.low, level.high, pending)
        first, last = enclosure(low, place.ranges)[0], enclosure(high, place.ranges)[1]
        if first >= last:
            return
        if low == affine(first) and high == affine(last) and last - first == 1:
            self.add(others, left, block.at(place.fix(level.index, first)))
            return
        held = set(pending) - set(left)
        inside = block.inner(place.loop(level.index, first, last).assuming(held))
        self.add(others, left, inside)
        block.loop(level.index, low, high, inside)


def _has_remainder(index: Index, conditions: Sequence[Constraint]) -> bool:
    """Whether an index stands in some condition under `//` or `%` alone."""
    for condition in conditions:
        if index in condition.indices and not condition.form.coefficient(index):
            return True
    return False


def _steps_at(level: LoopLevel, step: int) -> tuple[Constraint, ...]:
    """Return the conditions under which a loop has a step."""
    highs: Sequence[Bound] = (level.high,)
    if isinstance(level.high, MinMax):
        highs = level.high.of
    return tuple(Constraint(high - step - 1, ">=") for high in highs if isinstance(high, Affine))


# Rows of outputs.


@dataclass(frozen=True)
class OutputRow:
    """Neighbouring outputs: `base <= index < base + width`."""

    index: Index
    base: Affine
    width: int

    def inside(self, place: Place) -> Place:
        """Return the place inside a loop over the row."""
        first, last = self.base.interval(place.ranges)
        return place.loop(self.index, first, last + self.width)

    def add_loop(self, block: Block, body: Block) -> None:
        block.loop(self.index, self.base, self.base + self.width, body)

    def accumulators(self, source: StatementSource, reduce: Reduce, block: Block) -> Ref:
        """Declare an accumulator for each output of the row, and return that of the index."""
        buf = block.local(reduce, (self.width,), source.accumulated(reduce))
        return Ref(buf, (affine(self.index) - self.base,))


def add_row(source: StatementSource, reduce: Reduce, row: OutputRow, block: Block) -> None:
    """Sum a row of neighbouring outputs side by side."""
    sums = row.accumulators(source, reduce, block)
    start = block.inner(row.inside(block.place))
    start.put(sums, "=", source.identity(reduce))
    row.add_loop(block, start)
    first, last = row.base.interval(block.place.ranges)
    stop = row.base + row.width

    def leaf(inner: Block, pending: tuple[Constraint, ...]) -> None:
        low, high, left = narrowed(inner.place, row.index, row.base, stop, pending)
        place = inner.place.loop(row.index, first, last + row.width)
        step = inner.inner(place.assuming(pending))
        step.put(sums, ASSIGN[reduce.op], addend(source, reduce, step))
        body = step
        if left:
            body = inner.inner(step.place)
            body.branch(left, step)
        inner.loop(row.index, low, high, body)

    add_loops(source, reduce, (*source.skipping(reduce), *source.scope.where), block, leaf)
    block.results[reduce] = sums


def add_each(source: StatementSource, reduce: Reduce, row: OutputRow, block: Block) -> None:
    """Sum a row of neighbouring outputs one by one."""
    sums = row.accumulators(source, reduce, block)
    inside = block.inner(row.inside(block.place))
    inside.put(sums, "=", reduced(source, reduce, inside))
    row.add_loop(block, inside)
    block.results[reduce] = sums


# Reductions outside of the loops that they do not depend on.


def hoist(source: StatementSource, body: Any, block: Block, conditional: bool) -> None:
    """Sum here what needs no index of an inner loop.

    Under conditions, only where every read is inside anyway.
    """
    for reduce in outermost_reductions(body):
        if reduce in block.results:
            continue
        needs_no_inner = read_indices(reduce, block.place) <= block.place.bound
        if needs_no_inner and (not conditional or reads_inside(reduce, block.place)):
            reduced(source, reduce, block)
        else:
            hoist(source, reduce.body, block, True)


def read_indices(reduce: Reduce, place: Place) -> frozenset[Index]:
    """Return the indices of loops that the value of a reduction depends on."""
    indices = set[Index]()
    for index in reduce.free_symbols:
        indices |= place.form(affine(index)).indices
    return frozenset(indices)


def reads_inside(reduce: Reduce, place: Place) -> bool:
    """Whether every read is inside its box, whatever the conditions say."""
    for access in accesses(reduce.body):
        for form, (low, high) in zip(access.subscripts, padded_box(access.base)):
            first, last = place.form(form).interval(place.ranges)
            if first < low or last >= high:
                return False
    return True


def outermost_reductions(body: Any) -> list[Reduce]:
    """Return the reductions of a body that are in no other one, each once."""
    return list(dict.fromkeys(_outermost_reductions(body)))


def _outermost_reductions(body: Any) -> Iterator[Reduce]:
    if isinstance(body, Reduce):
        yield body
    elif not isinstance(body, Access):
        for argument in getattr(body, "args", ()):
            yield from _outermost_reductions(argument)
