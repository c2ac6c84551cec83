"""Values of expensive functions that two loop nests compute, stored by the first one (design §10).

A reduction and the statement that reads it often compute the same: `exp(x - m) / Σ exp(x - m)` has
two exponentials for each element. The loops of the reduction can store what they compute, for the
loops behind them to read. It lies in the elements of the result that these write, where it has
their type, else in a row beside. That is done where it costs fewer cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

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
    walk,
)
from codegen.ir.substitute import substituted
from codegen.ir.types import bytes_of
from codegen.kernels.expensive_values.readers import (
    LoopNest,
    StorePlace,
    ValueReader,
    ValueWriter,
    constant_steps,
    expensive_values,
    indices_of,
    is_expensive,
    is_shared,
    loop_nest,
    renaming,
    store_places,
    value_readers,
    with_bodies,
)
from codegen.kernels.loop_cost.cycles import function_cycles
from einalg.language.index.convert import affine

MAX_ROW_BYTES = 1 << 16  # of a row on the stack of a thread


def with_stored_values(function: Function, target: CpuModel | None = None) -> Function:
    """Return a function that stores what it would compute again, where that costs less.

    It stores every element of its output once, as those of `codegen.lowering` do.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> f = lower("O", ea.parse("O[i,j] = exp(A[i,j])/Sum[r](exp(A[i,r]))", A=(64, 256)))
    >>> def exponentials(function):
    ...     return sum(isinstance(n, Apply) and n.op == "exp" for n in walk(function))
    >>> exponentials(f), exponentials(with_stored_values(f))
    (2, 1)
    """
    if sum(map(is_expensive, walk(function))) < 2:
        return function
    body = _ValueStorer(function, target or machine()).statements(function.body)
    return replace(function, body=body)


class _ValueStorer:
    """Rewrites the statements of a function, so that some store what others compute again."""

    def __init__(self, function: Function, target: CpuModel):
        self.function, self.target = function, target
        self.names = used_names(function)

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return statements that store values for one another, and inside of each the same."""
        position, body = 0, tuple(body)
        nests = [loop_nest(statement) for statement in body]
        while position < len(body):
            cheaper = self.cheaper(body, position, nests)
            if cheaper is None:
                position += 1
            else:
                body = cheaper
                nests = [loop_nest(statement) for statement in body]
        return tuple([with_bodies(statement, self.statements) for statement in body])

    def cheaper(
        self, body: tuple[Statement, ...], position: int, nests: Sequence[LoopNest]
    ) -> tuple[Statement, ...] | None:
        """Return statements where the one at a position stores a value.

        None where that does not pay. `nests` are the same statements.
        """
        first = body[position]
        if not isinstance(first, For) or first.kind == "par":
            return None
        for place in store_places(first):
            if place.conditional:
                continue
            for value in expensive_values(place.store.value):
                if not _is_expensive_in_each_step(value, place):
                    continue
                writer = ValueWriter(position, place, value)
                readers = value_readers(writer, nests)
                for ref, served in self.storages(writer, readers):
                    stored = _stored(body, writer, ref, served)
                    if self.pays(body, stored, writer, served):
                        return self.declared(stored, position, ref)
        return None

    def storages(
        self, writer: ValueWriter, readers: Sequence[ValueReader]
    ) -> Iterator[tuple[Ref, list[ValueReader]]]:
        """Yield the elements where a value can be stored, each with the readers that it serves."""
        storing = [reader for reader in readers if self.stores_result(writer, reader)]
        if storing and _is_partition(writer, storing):
            refs = {_result_element(writer, reader) for reader in storing}
            if len(refs) == 1:
                yield refs.pop(), storing
        private = [reader for reader in readers if not is_shared(reader.place.loops)]
        row = self.row(writer)
        if private and row is not None:
            yield row, private

    def stores_result(self, writer: ValueWriter, reader: ValueReader) -> bool:
        """Whether a reader stores elements of the result that can hold the value until then."""
        store = reader.place.store
        if store.ref.buf.name != self.function.output.name or store.op != "=":
            return False
        if store.ref.dtype != writer.value.dtype or reader.place.conditional:
            return False
        if any(
            isinstance(node, Ref) and node.buf.name == store.ref.buf.name
            for node in walk(store.value)
        ):
            return False  # it holds another value already
        return len(reader.loops) == len(reader.place.loops)

    def row(self, writer: ValueWriter) -> Ref | None:
        """Return an element of a row for all values; None where they are too many."""
        lows = [loop.range[0] for loop in writer.loops]
        shape = tuple(loop.range[1] - loop.range[0] for loop in writer.loops)
        if prod(shape) * bytes_of(writer.value.dtype) > MAX_ROW_BYTES:
            return None
        name = unused_name("values", self.names)
        subscripts = (affine(loop.index) - low for loop, low in zip(writer.loops, lows))
        return Ref(Buf(name, shape, writer.value.dtype, "local"), tuple(subscripts))

    def pays(
        self,
        body: Sequence[Statement],
        stored: Sequence[Statement],
        writer: ValueWriter,
        readers: Sequence[ValueReader],
    ) -> bool:
        """Whether storing a value costs less than computing it again."""
        positions = sorted({writer.position, *(reader.position for reader in readers)})

        def cycles(statements: Sequence[Statement]) -> float:
            changed = tuple(statements[position] for position in positions)
            return function_cycles(replace(self.function, body=changed), self.target)

        return cycles(stored) < cycles(body)

    def declared(
        self, body: tuple[Statement, ...], position: int, ref: Ref
    ) -> tuple[Statement, ...]:
        """Return statements with the declaration of a row before the one that stores to it."""
        if ref.buf.space != "local":
            return body
        self.names.add(ref.buf.name)
        return (*body[:position], Alloc(ref.buf), *body[position:])


# Values in the result.


def _result_element(writer: ValueWriter, reader: ValueReader) -> Ref:
    """Return the element that a reader stores, by the indices of a writer."""
    return substituted(reader.place.store.ref, renaming(reader.loops, writer.loops))


def _is_partition(writer: ValueWriter, readers: Sequence[ValueReader]) -> bool:
    """Whether readers, no two of which store one element, do so for all steps of a writer."""
    if len(readers) == 1:
        return all(map(_has_same_steps, writer.loops, readers[0].loops))
    count = _count(writer.loops)
    counts = [_count(reader.loops) for reader in readers]
    return count is not None and None not in counts and count == sum(filter(None, counts))


def _has_same_steps(loop: For, other: For) -> bool:
    return (loop.low, loop.high) == (other.low, other.high)


def _count(loops: Sequence[For]) -> int | None:
    """Return how many steps a loop nest has; None where that depends on outer loops."""
    count = 1
    for loop in loops:
        steps = constant_steps(loop)
        if steps is None:
            return None
        count *= len(steps)
    return count


# Rewriting.


def _is_expensive_in_each_step(value: Value, place: StorePlace) -> bool:
    """Whether an expensive part of a value is another one in each step of the innermost loop.

    One that is the same in all of them is computed before the loop.
    """
    if not place.loops:
        return True
    index = place.loops[-1].index
    return any(is_expensive(part) and index in indices_of(part) for part in walk(value))


def _stored(
    body: Sequence[Statement], writer: ValueWriter, ref: Ref, readers: Sequence[ValueReader]
) -> tuple[Statement, ...]:
    """Return statements where a writer stores its value, and readers read it."""
    results = list(body)
    store = writer.place.store
    reading = replace(store, value=_with(store.value, writer.value, ref))
    stores = (Store(ref, "=", writer.value), reading)
    results[writer.position] = _replaced(results[writer.position], store, stores)
    for reader in readers:
        element = substituted(ref, renaming(writer.loops, reader.loops))
        store = reader.place.store
        reading = replace(store, value=_with(store.value, reader.value, element))
        results[reader.position] = _replaced(results[reader.position], store, (reading,))
    return tuple(results)


def _with(value: Value, part: Value, ref: Ref) -> Value:
    """Return a value with an element in the place of a part."""
    if value == part:
        return ref
    if isinstance(value, Apply):
        return replace(value, arguments=tuple(_with(a, part, ref) for a in value.arguments))
    return value


def _replaced(statement: Statement, store: Store, stores: Sequence[Store]) -> Statement:
    """Return a loop or a condition with other stores for one inside of it."""
    if isinstance(statement, For):
        return replace(statement, body=_all_replaced(statement.body, store, stores))
    if isinstance(statement, If):
        then = _all_replaced(statement.then, store, stores)
        return replace(statement, then=then, orelse=_all_replaced(statement.orelse, store, stores))
    return statement


def _all_replaced(
    body: Sequence[Statement], store: Store, stores: Sequence[Store]
) -> tuple[Statement, ...]:
    results: list[Statement] = []
    for statement in body:
        if statement is store:
            results += stores
        else:
            results.append(_replaced(statement, store, stores))
    return tuple(results)
