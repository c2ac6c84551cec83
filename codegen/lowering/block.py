"""A statement to be lowered, and blocks of loop IR under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import sympy

from codegen.ir.names import unused_name
from codegen.ir.nodes import (
    Alloc,
    Bound,
    Buf,
    For,
    If,
    Number,
    Predicate,
    Ref,
    Statement,
    Store,
    Value,
    walk,
)
from codegen.ir.scalars.functions import calls_functions
from codegen.ir.scalars.index_parts import index_condition
from codegen.ir.scalars.translation import accumulated
from codegen.ir.types import computed, constant
from codegen.lowering.distinct_indices import distinct_indices
from codegen.lowering.guards import Place, enclosure
from codegen.lowering.infinite_integers import with_infinities
from codegen.lowering.loop_plan import LoopPlan, make_plan, points, repeating
from codegen.lowering.schedule import Schedule, is_across
from einalg.language.analysis.padded_reads import Layer, direct_accesses, layers, skipping
from einalg.language.analysis.simplify import needed_conditions
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.program import statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions

LOCAL_NAMES = {"Sum": "total", "Prod": "product", "Max": "largest", "Min": "smallest"}


def buffer(tensor: Any) -> Buf:
    """Return the memory of a tensor."""
    return Buf(tensor.name, tensor.shape, tensor.dtype)


class StatementSource:
    """The statement `name = scope` with what lowering asks about it again and again.

    `statements` are the scopes of other statements; some have no value at some points of their box.
    With `leaves_gaps`, this one has not either, and nothing is written there.
    """

    def __init__(
        self,
        name: str,
        scope: Scope,
        statements: Mapping[str, Scope],
        schedule: Schedule,
        leaves_gaps: bool = False,
    ):
        self.name, self.schedule, self.leaves_gaps = name, schedule, leaves_gaps
        self.partial_statements = {n: other for n, other in statements.items() if other.where}
        self.scope = distinct_indices(with_infinities(scope, self.partial_statements))
        self.output = buffer(statement_tensor(name, scope))
        self.buffers = {t.name: buffer(t) for t in scope.tensors.values()}
        self._layers: dict[Access, list[Layer]] = {}
        self._skipping: dict[Reduce, tuple[Constraint, ...]] = {}

    @cached_property
    def _ranges(self) -> dict[Index, tuple[int, int]]:
        """The ranges of all indices, which are distinct."""
        iterators = list(self.scope.iterators)
        for reduce in reductions(self.scope.body):
            iterators += reduce.iterators
        return {it.index: (it.low, it.high) for it in iterators}

    @cached_property
    def plan(self) -> LoopPlan:
        conditions = list(self.cutting)
        for reduce in reductions(self.scope.body):
            conditions += self.skipping(reduce)
        return make_plan(self.scope, tuple(dict.fromkeys(conditions)), self.schedule)

    def layers(self, access: Access) -> list[Layer]:
        """Return `einalg.language.analysis.padded_reads.layers` of an access, up to one that is
        read everywhere, and without conditions that hold everywhere.
        """
        if access not in self._layers:
            known: list[Layer] = []
            for inside, value in layers(access, self.partial_statements):
                known.append((needed_conditions(inside, self._ranges), value))
                if not known[-1][0]:
                    break
            self._layers[access] = known
        return self._layers[access]

    def skipping(self, reduce: Reduce) -> tuple[Constraint, ...]:
        """Return `einalg.language.analysis.padded_reads.skipping` of a reduction."""
        if reduce not in self._skipping:
            conditions = skipping(reduce, self.partial_statements)
            self._skipping[reduce] = needed_conditions(conditions, self._ranges)
        return self._skipping[reduce]

    def is_large(self, reduce: Reduce) -> bool:
        """Whether a reduction is not to be written out.

        It has many points, stands before loops, or vectors had better hold neighbouring terms or
        outputs: a function that is written out more than a few times is computed one by one.
        """
        last = None
        if self.scope.rank:
            last = self.scope.indices[-1]
        most_points: float = self.schedule.unroll
        if self.inner:
            most_points = self.schedule.hoisted_points - 1
        if points(reduce) > most_points or is_across(reduce, last):
            return True
        terms = prod(it.extent for it in reduce.iterators)
        return terms > self.schedule.written_calls and calls_functions(reduce.body)

    @cached_property
    def inner(self) -> frozenset[Index]:
        """Return the indices whose loops stand behind reductions that do not depend on them."""
        return repeating(self.scope, self.schedule.hoisted_points)

    @cached_property
    def cutting(self) -> tuple[Constraint, ...]:
        """Return the conditions that are worth a cut of a loop over the output.

        That is all but those that bound the loops of a large reduction.
        """
        reduces = list(reductions(self.scope.body))
        conditions = list(self.scope.where)
        conditions += self._read_conditions(self.scope.body)
        for reduce in reduces:
            conditions += self._read_conditions(reduce.body)
        bounding = set[Constraint]()
        for reduce in reduces:
            conditions += reduce.where
            if self.is_large(reduce):
                bounding |= self._loop_bounds(reduce)
        return tuple(c for c in dict.fromkeys(conditions) if c not in bounding)

    def _read_conditions(self, body: Any) -> list[Constraint]:
        """Return the conditions on what a body reads, and its comparisons of indices."""
        conditions: list[Constraint] = []
        for access in direct_accesses(body):
            for inside, _ in self.layers(access):
                conditions += inside
        for comparison in sorted(body.atoms(sympy.Rel), key=str):
            condition = index_condition(comparison)
            if condition is not None:
                conditions.append(condition)
        return conditions

    def _loop_bounds(self, reduce: Reduce) -> set[Constraint]:
        """Return the conditions of a reduction that bound one of its loops."""
        bounds = set[Constraint]()
        for condition in self.skipping(reduce):
            if any(condition.form.coefficient(index) for index in reduce.indices):
                bounds.add(condition)
        return bounds

    def accumulated(self, reduce: Reduce) -> str:
        """Return the type in which a reduction is summed; a sum or product that is stored at once
        wraps round as it is stored.
        """
        dtype = computed(result_dtype(reduce))
        if reduce == self.scope.body and reduce.op in ("Sum", "Prod") and not is_float(dtype):
            return dtype
        return accumulated(reduce)

    def identity(self, reduce: Reduce) -> Number:
        return Number(constant(reduce.identity).value, self.accumulated(reduce))

    def target(self, place: Place) -> Ref:
        """Return the element of the output at a place."""
        subscripts = [affine(it.index) - it.low for it in self.scope.iterators]
        return self._element(self.output, subscripts, place)

    def read(self, access: Access, place: Place) -> Ref:
        """Return the element that an access reads at a place, inside its tensor."""
        subscripts = [form - low for form, (low, _) in zip(access.subscripts, access.tensor.box)]
        return self._element(self.buffers[access.tensor.name], subscripts, place)

    def _element(self, buf: Buf, subscripts: Sequence[Affine], place: Place) -> Ref:
        """Return an element of a buffer.

        Of its flat view where a loop runs on over the ends of rows, or where that spares `//` and
        `%`.
        """
        forms = tuple(place.form(s) for s in subscripts)
        merged = any(form.indices & self.plan.merged for form in forms)
        if merged or not all(form.is_affine() for form in forms):
            flat = affine(0)
            for form, size in zip(subscripts, buf.shape):
                flat = flat * size + form
            flat = place.form(flat)
            if merged or _quotients([flat]) < _quotients(forms):
                return Ref(Buf(buf.name, (prod(buf.shape),), buf.dtype, buf.space), (flat,))
        return Ref(buf, forms)


def _quotients(forms: Sequence[Affine]) -> int:
    """Return how many terms are quotients or remainders."""
    count = 0
    for form in forms:
        count += sum(not isinstance(atom, Index) for atom, _ in form.terms)
    return count


@dataclass
class Block:
    """Statements being written, with what is known where they stand.

    `results` are the reductions that are already summed there.
    """

    place: Place
    names: set[str]
    results: dict[Reduce, Value] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    def inner(self, place: Place | None = None) -> Block:
        """Return a block inside this one."""
        return Block(place or self.place, set(self.names), dict(self.results))

    def at(self, place: Place) -> Block:
        """Return a block that writes the same statements, with other values of the indices."""
        return Block(place, self.names, dict(self.results), self.statements)

    def add(self, *statements: Statement) -> None:
        self.statements.extend(statements)

    def local(self, reduce: Reduce, shape: tuple[int, ...], dtype: str) -> Buf:
        """Declare the accumulators of a reduction, under a name that is free here."""
        name = unused_name(LOCAL_NAMES[reduce.op], self.names)
        self.names.add(name)
        space = "reg"
        if shape:
            space = "local"
        buf = Buf(name, shape, dtype, space)
        self.add(Alloc(buf))
        return buf

    def loop(self, index: Index, low: Bound, high: Bound, body: Block) -> None:
        """Add a loop; one without loops inside, over elements of arrays, is for vectors."""
        if not body.statements:
            return
        kind = "vec"
        if _has_loops(body.statements):
            kind = "seq"
        bounds = enclosure(low, body.place.ranges)[0], enclosure(high, body.place.ranges)[1]
        self.add(For(index, low, high, bounds, tuple(body.statements), kind))

    def branch(
        self, conditions: Sequence[Constraint], then: Block, orelse: Block | None = None
    ) -> None:
        """Add `then` where the conditions hold, and `orelse` where not."""
        others: tuple[Statement, ...] = ()
        if orelse is not None:
            others = tuple(orelse.statements)
        if then.statements or others:
            self.add(If(Predicate(tuple(conditions)), tuple(then.statements), others))

    def put(self, ref: Ref, op: str, value: Value) -> None:
        self.add(Store(ref, op, value))


def _has_loops(statements: Sequence[Statement]) -> bool:
    """Whether there are loops or arrays of their own in some statements."""
    for statement in statements:
        for node in walk(statement):
            if isinstance(node, For) or (isinstance(node, Alloc) and node.buf.shape):
                return True
    return False


def constant_bound(bound: Bound) -> int | None:
    """Return a bound's value, where it is one number."""
    if isinstance(bound, Affine) and not bound.terms:
        return bound.const
    return None
