"""The values of bodies at a place of a loop nest, with the loops of the reductions in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from codegen.ir.nodes import MinMax, Number, Predicate, Ref, Value
from codegen.ir.scalar import apply, cast, computed, element, translate
from codegen.lowering.block import Block, StatementSource
from codegen.lowering.guards import PHASES, Place, enclosure, narrowed
from codegen.lowering.loop_plan import LoopLevel
from codegen.lowering.schedule import outer_first
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access, Constant, padded_box
from einalg.language.ir.traversal import accesses
from einalg.language.notation.constant import array_of

ASSIGN = {"Sum": "+=", "Prod": "*=", "Max": "max", "Min": "min"}
Leaf = Callable[[Block, tuple[Constraint, ...]], None]


class Values:
    """The leaves of a scalar body at one place (`codegen.ir.scalar.Leaves`)."""

    def __init__(self, source: StatementSource, block: Block):
        self.source, self.block = source, block

    def access(self, access: Access) -> Value:
        place, dtype = self.block.place, computed(access.tensor.dtype)
        load, *fills = self.source.layers(access)
        total: Value = Number(0, dtype)
        for conditions, fill in reversed(fills):
            total = apply(
                "select",
                [self.together(conditions), element(fill, access.tensor.dtype), total],
                dtype,
            )
        inside = self.together(load[0])
        if isinstance(inside, Number) and not inside.value:
            return total
        value = self.number(access) or self.source.read(access, place)
        return (
            value if isinstance(inside, Number) else apply("select", [inside, value, total], dtype)
        )

    def number(self, access: Access) -> Number | None:
        """The element of a constant, where it is always the same one."""
        forms = [self.block.place.form(form) for form in access.subscripts]
        if not isinstance(access.tensor, Constant) or any(form.terms for form in forms):
            return None
        point = tuple(form.const - low for form, (low, _) in zip(forms, access.tensor.box))
        return Number(array_of(access.tensor)[point].item(), computed(access.tensor.dtype))

    def together(self, conditions: Sequence[Constraint]) -> Value:
        """Whether all conditions hold."""
        pending = self.block.place.open(conditions)
        return (
            Number(False, "bool")
            if pending is None
            else Predicate(pending)
            if pending
            else Number(True, "bool")
        )

    def reduction(self, reduce: Reduce) -> Value:
        return reduced(self.source, reduce, self.block)

    def holds(self, condition: Constraint) -> Value:
        return self.together((condition,))

    def index(self, form: Affine) -> Affine:
        return self.block.place.form(form)


def value(source: StatementSource, body: Any, block: Block) -> Value:
    """The value of a body; the loops of reductions that are not summed yet are added to the block."""
    return translate(body, Values(source, block))


def reduced(source: StatementSource, reduce: Reduce, block: Block) -> Value:
    """The value of a reduction: what is summed already, else its points written out, else a loop into an accumulator."""
    if reduce in block.results:
        known = block.results[reduce]
        return (
            Ref(known.buf, tuple(map(block.place.form, known.subscripts)))
            if isinstance(known, Ref)
            else known
        )
    found = contributing(source, reduce, block.place)
    if found is not None:
        total = _written_out(source, reduce, found, block)
    else:
        ref = Ref(block.local(reduce, (), source.accumulated(reduce)), ())
        block.put(ref, "=", source.identity(reduce))

        def leaf(inner: Block, pending: tuple[Constraint, ...]) -> None:
            inner.put(ref, ASSIGN[reduce.op], value(source, reduce.body, inner))

        add_loops(source, reduce, source.skipping(reduce), block, leaf)
        total = ref
    block.results[reduce] = total
    return total


def contributing(source: StatementSource, reduce: Reduce, place: Place) -> list[Place] | None:
    """The points of a reduction that contribute, where they are few and the same ones everywhere at this place; else None."""
    if source.is_large(reduce):
        return None
    conditions = source.skipping(reduce)
    found = []
    for point in product(*(range(it.low, it.high) for it in reduce.iterators)):
        fixed = {it.index: affine(p) for it, p in zip(reduce.iterators, point)}
        at = replace(place, fixed={**place.fixed, **fixed})
        pending = at.open(conditions)
        if pending:
            return None
        if pending is not None:
            found.append(at)
    inner = outermost_reductions(reduce.body)
    return (
        None if any(contributing(source, r, at) is None for at in found for r in inner) else found
    )


def _written_out(
    source: StatementSource, reduce: Reduce, places: Sequence[Place], block: Block
) -> Value:
    dtype, identity = source.accumulated(reduce), source.identity(reduce)
    values = [cast(value(source, reduce.body, block.beside(at)), dtype) for at in places]
    values = [v for v in values if v != identity]
    if len(values) < 2:
        return values[0] if values else identity
    total = Ref(block.local(reduce, (), dtype), ())
    for position, term in enumerate(values):
        block.put(total, ASSIGN[reduce.op] if position else "=", term)
    return total


def add_loops(
    source: StatementSource,
    reduce: Reduce,
    conditions: Sequence[Constraint],
    block: Block,
    leaf: Leaf,
) -> None:
    """Loops over the points of a reduction that meet the conditions.

    Conditions on an index that no loop has opened yet are left to the leaf.
    """
    levels = [level for it in outer_first(reduce) for level in source.plan.summed[it.index]]
    _loops(source, reduce, levels, conditions, block, leaf)


def _loops(
    source: StatementSource,
    reduce: Reduce,
    levels: Sequence[LoopLevel],
    conditions: Sequence[Constraint],
    block: Block,
    leaf: Leaf,
) -> None:
    pending = block.place.open(conditions)
    if pending is None:
        return
    here = tuple(c for c in pending if block.place.is_bound(c))
    if here:
        inside = block.inner(block.place.given(here))
        _loops(source, reduce, levels, pending, inside, leaf)
        return block.branch(here, inside)
    if not levels:
        return leaf(block, pending)
    hoist(source, reduce.body, block, bool(pending))
    level, *others = levels
    if level.extent <= PHASES and any(
        level.index in c.indices and not c.form.coefficient(level.index) for c in pending
    ):
        for step in range(*level.range):
            at = block.beside(block.place.fix(level.index, step))
            _loops(source, reduce, others, (*pending, *_steps_at(level, step)), at, leaf)
        return
    low, high, left = narrowed(block.place, level.index, level.low, level.high, pending)
    first, last = enclosure(low, block.place.ranges)[0], enclosure(high, block.place.ranges)[1]
    if first >= last:
        return
    if low == affine(first) and high == affine(last) and last - first == 1:
        return _loops(
            source, reduce, others, left, block.beside(block.place.fix(level.index, first)), leaf
        )
    inside = block.inner(block.place.loop(level.index, first, last).given(set(pending) - set(left)))
    _loops(source, reduce, others, left, inside, leaf)
    block.loop(level.index, low, high, inside)


def _steps_at(level: LoopLevel, step: int) -> tuple[Constraint, ...]:
    """The conditions under which a loop has a step."""
    highs = level.high.of if isinstance(level.high, MinMax) else (level.high,)
    return tuple(Constraint(high - step - 1, ">=") for high in highs if isinstance(high, Affine))


def add_row(
    source: StatementSource, reduce: Reduce, index: Index, base: Affine, width: int, block: Block
) -> None:
    """Sum a row of neighbouring outputs, `base <= index < base + width`, side by side."""
    row = Ref(block.local(reduce, (width,), source.accumulated(reduce)), (affine(index) - base,))
    first, last = base.interval(block.place.ranges)
    start = block.inner(block.place.loop(index, first, last + width))
    start.put(row, "=", source.identity(reduce))
    block.loop(index, base, base + width, start)

    def leaf(inner: Block, pending: tuple[Constraint, ...]) -> None:
        low, high, left = narrowed(inner.place, index, base, base + width, pending)
        step = inner.inner(inner.place.loop(index, first, last + width).given(pending))
        step.put(row, ASSIGN[reduce.op], value(source, reduce.body, step))
        guarded = inner.inner(step.place)
        if left:
            guarded.branch(left, step)
        inner.loop(index, low, high, guarded if left else step)

    add_loops(source, reduce, (*source.skipping(reduce), *source.scope.where), block, leaf)
    block.results[reduce] = row


def add_each(
    source: StatementSource, reduce: Reduce, index: Index, base: Affine, width: int, block: Block
) -> None:
    """Sum a row of neighbouring outputs, `base <= index < base + width`, one by one."""
    row = Ref(block.local(reduce, (width,), source.accumulated(reduce)), (affine(index) - base,))
    first, last = base.interval(block.place.ranges)
    inside = block.inner(block.place.loop(index, first, last + width))
    inside.put(row, "=", reduced(source, reduce, inside))
    block.loop(index, base, base + width, inside)
    block.results[reduce] = row


def hoist(source: StatementSource, body: Any, block: Block, conditional: bool) -> None:
    """Sum here what needs no index of an inner loop; under conditions, only where every read is inside anyway."""
    for reduce in outermost_reductions(body):
        if reduce in block.results:
            continue
        if read_indices(reduce, block.place) <= block.place.bound and not (
            conditional and not reads_inside(reduce, block.place)
        ):
            reduced(source, reduce, block)
        else:
            hoist(source, reduce.body, block, True)


def read_indices(reduce: Reduce, place: Place) -> frozenset[Index]:
    """The indices of loops that the value of a reduction depends on."""
    return frozenset(i for index in reduce.free_symbols for i in place.form(affine(index)).indices)


def reads_inside(reduce: Reduce, place: Place) -> bool:
    """Whether every read is inside its box for all values of the indices, whatever the conditions say."""
    for access in accesses(reduce.body):
        for form, (low, high) in zip(access.subscripts, padded_box(access.base)):
            first, last = place.form(form).interval(place.ranges)
            if first < low or last >= high:
                return False
    return True


def outermost_reductions(body: Any) -> list[Reduce]:
    """The reductions of a body that are in no other one."""
    found: dict[Reduce, None] = {}

    def see(node: Any) -> None:
        if isinstance(node, Reduce):
            found[node] = None
        elif not isinstance(node, Access):
            for argument in getattr(node, "args", ()):
                see(argument)

    see(body)
    return list(found)
