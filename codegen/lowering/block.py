"""A statement to be lowered, and blocks of loop IR under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import sympy

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
from codegen.ir.scalar import computed, constant, index_condition
from codegen.lowering.guards import Layer, Place, direct_accesses, enclosure, layers, skipping
from codegen.lowering.loop_plan import LoopPlan, distinct_indices, make_plan, points, repeating
from codegen.lowering.schedule import Schedule, is_across
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.program import statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions

LOCAL_NAMES = {"Sum": "total", "Prod": "product", "Max": "largest", "Min": "smallest"}


def buffer(tensor: Any) -> Buf:
    """The memory of a tensor."""
    return Buf(tensor.name, tensor.shape, tensor.dtype)


class StatementSource:
    """The statement `name = scope` with what lowering asks about it again and again."""

    def __init__(self, name: str, scope: Scope, holes: Mapping[str, Scope], schedule: Schedule):
        self.name, self.schedule = name, schedule
        self.holes = {tensor: other for tensor, other in holes.items() if other.where}
        self.scope = distinct_indices(scope)
        self.output = buffer(statement_tensor(name, scope))
        self.buffers = {t.name: buffer(t) for t in scope.tensors.values()}
        self._layers: dict[Access, list[Layer]] = {}
        self._skipping: dict[Reduce, tuple[Constraint, ...]] = {}

    @cached_property
    def plan(self) -> LoopPlan:
        everything = [
            *self.cutting,
            *(c for r in reductions(self.scope.body) for c in self.skipping(r)),
        ]
        return make_plan(self.scope, tuple(dict.fromkeys(everything)), self.schedule)

    def layers(self, access: Access) -> list[Layer]:
        """`codegen.lowering.guards.layers` of an access."""
        if access not in self._layers:
            self._layers[access] = layers(access, self.holes)
        return self._layers[access]

    def skipping(self, reduce: Reduce) -> tuple[Constraint, ...]:
        """`codegen.lowering.guards.skipping` of a reduction."""
        if reduce not in self._skipping:
            self._skipping[reduce] = skipping(reduce, self.holes)
        return self._skipping[reduce]

    def is_large(self, reduce: Reduce) -> bool:
        """Whether a reduction is not to be written out: it has many points, stands before loops, or vectors had better hold neighbouring terms."""
        last = self.scope.indices[-1] if self.scope.rank else None
        most = self.schedule.again - 1 if self.inner else self.schedule.unroll
        return points(reduce) > most or is_across(reduce, last)

    @cached_property
    def inner(self) -> frozenset[Index]:
        """The indices whose loops stand behind reductions that do not depend on them."""
        return repeating(self.scope, self.schedule.again)

    @cached_property
    def cutting(self) -> tuple[Constraint, ...]:
        """The conditions that are worth a cut of a loop over the output: all but those that bound the loops of a large reduction."""
        reduces = list(reductions(self.scope.body))
        found = list(self.scope.where)
        for body in (self.scope.body, *(r.body for r in reduces)):
            for access in direct_accesses(body):
                found += [c for conditions, _ in self.layers(access) for c in conditions]
            found += [
                c
                for c in map(index_condition, sorted(body.atoms(sympy.Rel), key=str))
                if c is not None
            ]
        bounding = set()
        for reduce in reduces:
            found += reduce.where
            if self.is_large(reduce):
                bounding |= {
                    c
                    for c in self.skipping(reduce)
                    if any(c.form.coefficient(i) for i in reduce.indices)
                }
        return tuple(c for c in dict.fromkeys(found) if c not in bounding)

    def accumulated(self, reduce: Reduce) -> str:
        """The type in which a reduction is summed."""
        return computed(result_dtype(reduce))

    def identity(self, reduce: Reduce) -> Number:
        return Number(constant(reduce.identity).value, self.accumulated(reduce))

    def target(self, place: Place) -> Ref:
        """The element of the output at a place."""
        return self._element(
            self.output, [affine(it.index) - it.low for it in self.scope.iterators], place
        )

    def read(self, access: Access, place: Place) -> Ref:
        """The element that an access reads at a place, inside its tensor."""
        subscripts = [form - low for form, (low, _) in zip(access.subscripts, access.tensor.box)]
        return self._element(self.buffers[access.tensor.name], subscripts, place)

    def _element(self, buf: Buf, subscripts: Sequence[Affine], place: Place) -> Ref:
        """An element of a buffer; of its flat view where a loop runs on over the ends of rows, or where that spares `//` and `%`."""
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
    return sum(1 for form in forms for atom, _ in form.terms if not isinstance(atom, Index))


@dataclass
class Block:
    """Statements being written, with what is known where they stand and the reductions that are already summed there."""

    place: Place
    names: set[str]
    results: dict[Reduce, Value] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    def inner(self, place: Place | None = None) -> Block:
        """A block inside this one."""
        return Block(place or self.place, set(self.names), dict(self.results))

    def beside(self, place: Place) -> Block:
        """The same statements, with other values of the indices."""
        return Block(place, self.names, dict(self.results), self.statements)

    def add(self, *statements: Statement) -> None:
        self.statements.extend(statements)

    def local(self, reduce: Reduce, shape: tuple[int, ...], dtype: str) -> Buf:
        """Declare the accumulators of a reduction, under a name that is free here."""
        stem = LOCAL_NAMES[reduce.op]
        name, count = stem, 0
        while name in self.names:
            count += 1
            name = f"{stem}{count}"
        self.names.add(name)
        buf = Buf(name, shape, dtype, "local" if shape else "reg")
        self.add(Alloc(buf))
        return buf

    def loop(self, index: Index, low: Bound, high: Bound, body: Block) -> None:
        """Add a loop; one without loops inside, over elements of arrays, is for vector registers."""
        if body.statements:
            inside = [node for statement in body.statements for node in walk(statement)]
            flat = not any(
                isinstance(n, For) or (isinstance(n, Alloc) and n.buf.shape) for n in inside
            )
            bounds = enclosure(low, body.place.ranges)[0], enclosure(high, body.place.ranges)[1]
            self.add(
                For(index, low, high, bounds, tuple(body.statements), "vec" if flat else "seq")
            )

    def branch(
        self, conditions: Sequence[Constraint], then: Block, orelse: Block | None = None
    ) -> None:
        """Add `then` where the conditions hold, and `orelse` where not."""
        if then.statements or (orelse and orelse.statements):
            self.add(
                If(
                    Predicate(tuple(conditions)),
                    tuple(then.statements),
                    tuple(orelse.statements) if orelse else (),
                )
            )

    def put(self, ref: Ref, op: str, value: Value) -> None:
        self.add(Store(ref, op, value))


def constant_bound(bound: Bound) -> int | None:
    """A bound's value, where it is one number."""
    return bound.const if isinstance(bound, Affine) and not bound.terms else None
