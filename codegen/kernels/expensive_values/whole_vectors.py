"""Expensive functions of what fills no vector, computed in vectors all the same (design §10).

A compiler computes the last elements of a row one by one, where a function is called for each: a
row of 31 takes as long as one of 100. The last vector of a row may as well begin earlier, and
compute some of its elements once more. A sum takes them from a row beside, and adds those that are
left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.names import unused_name, used_names
from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    Function,
    If,
    Ref,
    Statement,
    Store,
    Value,
    value_parts,
    walk,
)
from codegen.ir.types import bytes_of
from codegen.kernels.expensive_values.readers import constant_steps
from codegen.kernels.loop_cost.cycles import OF_FUNCTION, operation_products
from codegen.kernels.loop_cost.lines import element_step
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import is_float

MIN_VECTOR_BYTES = 32  # of vectors that a compiler makes of a loop of so many steps


def with_whole_vectors(function: Function, target: CpuModel | None = None) -> Function:
    """Return a function whose loops compute expensive functions in whole vectors.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> f = lower("O", ea.parse("O[i,j] = exp(A[i,j]*B[i])", A=(64, 31), B=(64,)))
    >>> (rows,) = with_whole_vectors(f, CpuModel(64, 32)).body
    >>> [(loop.low, loop.high) for loop in rows.body]
    [(0, 16), (15, 31)]
    """
    if not any(map(_is_function, walk(function))):
        return function
    writer = _VectorWriter(target or machine(), used_names(function))
    return replace(function, body=writer.statements(function.body))


def _is_function(node: object) -> bool:
    """Whether a value takes a call, as exp does."""
    if not isinstance(node, Apply) or not is_float(node.dtype):
        return False
    return operation_products(node) >= OF_FUNCTION


@dataclass(frozen=True)
class _Row:
    """A loop in vectors over `steps`, of which the last vector of `lanes` begins earlier."""

    loop: For
    steps: range
    lanes: int

    @property
    def whole(self) -> range:
        """Return the steps that fill vectors."""
        start = self.steps.start
        return range(start, start + len(self.steps) // self.lanes * self.lanes)

    @property
    def rest(self) -> range:
        return range(self.whole.stop, self.steps.stop)

    @property
    def last(self) -> range:
        """Return the steps of the last vector."""
        return range(self.steps.stop - self.lanes, self.steps.stop)

    def over(self, steps: range, *body: Statement) -> For:
        """Return the loop over some of its steps."""
        low, high = affine(steps.start), affine(steps.stop)
        return replace(
            self.loop, low=low, high=high, range=(steps.start, steps.stop), body=tuple(body)
        )


class _VectorWriter:
    """Rewrites loops in vectors that compute expensive functions; `names` are in use."""

    def __init__(self, target: CpuModel, names: set[str]):
        self.target, self.names = target, names

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        results: list[Statement] = []
        for statement in body:
            results += self.statement(statement)
        return tuple(results)

    def statement(self, statement: Statement) -> Sequence[Statement]:
        if isinstance(statement, If):
            then, orelse = self.statements(statement.then), self.statements(statement.orelse)
            return [replace(statement, then=then, orelse=orelse)]
        if not isinstance(statement, For):
            return [statement]
        row = self.row(statement)
        if row is None:
            return [replace(statement, body=self.statements(statement.body))]
        return [row.over(row.whole, *row.loop.body), *self.remainder(row)]

    def row(self, loop: For) -> _Row | None:
        """Return a loop in vectors with its steps; None where it is to stay as it is."""
        steps, stores = constant_steps(loop), list(_stores(loop))
        if loop.kind != "vec" or steps is None or len(stores) != len(loop.body):
            return None
        if not any(_is_function(node) for store in stores for node in walk(store.value)):
            return None
        size = max(bytes_of(store.value.dtype) for store in stores)
        lanes = self.target.widths(size)[0]
        while lanes > len(steps):
            lanes //= 2
        if lanes * size < MIN_VECTOR_BYTES or len(steps) % lanes == 0:
            return None
        if not (_are_neighbours(stores, loop.index) and _are_apart(stores)):
            return None
        return _Row(loop, steps, lanes)

    def remainder(self, row: _Row) -> Iterator[Statement]:
        """Yield what computes the steps that fill no vector, one store after the other."""
        for store in _stores(row.loop):
            if store.op == "=":
                yield row.over(row.last, store)
            elif any(map(_is_function, walk(store.value))):
                values = self.local(row.lanes, store.value.dtype)
                yield Alloc(values)
                place = Ref(values, (affine(row.loop.index) - row.last.start,))
                yield row.over(row.last, Store(place, "=", store.value))
                yield row.over(row.rest, replace(store, value=place))
            else:
                yield row.over(row.rest, store)

    def local(self, lanes: int, dtype: str) -> Buf:
        """Return a row of so many elements, under a name of its own."""
        name = unused_name("last", self.names)
        self.names.add(name)
        return Buf(name, (lanes,), dtype, "local")


def _stores(loop: For) -> Iterator[Store]:
    for statement in loop.body:
        if isinstance(statement, Store):
            yield statement


def _are_neighbours(stores: Sequence[Store], index: Index) -> bool:
    """Whether elements for neighbouring steps are the same, or neighbours in memory."""
    for store in stores:
        for ref in (store.ref, *_read_refs(store.value)):
            if element_step(ref, index) not in (0, 1):
                return False
    return True


def _are_apart(stores: Sequence[Store]) -> bool:
    """Whether the stores of a loop can run in loops of their own, those with "=" more than once.

    That is: what they read of what the loop writes is the very element that one before has stored.
    """
    written = [store.ref for store in stores]
    names = {ref.buf.name for ref in written}
    if len(names) < len(written):
        return False
    stored: list[Ref] = []
    for store in stores:
        for ref in _read_refs(store.value):
            if ref.buf.name in names and ref not in stored:
                return False
        if store.op == "=":
            stored.append(store.ref)
    return True


def _read_refs(value: Value) -> Iterator[Ref]:
    for part in value_parts(value):
        if isinstance(part, Ref):
            yield part
