"""Values of expensive functions that two loop nests compute, stored by the first one (design §10).

A reduction and the statement that reads it often compute the same: `exp(x - m) / Σ exp(x - m)` has
two exponentials for each element. The loops of the reduction can store what they compute, for the
loops behind them to read. It lies in the elements of the result that these write, where it has
their type, else in a row beside. That is done where it costs fewer cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    Function,
    If,
    MinMax,
    Ref,
    Statement,
    Store,
    Value,
    walk,
)
from codegen.ir.substitute import substituted
from codegen.kernels.loop_cost import LONG_OPERATIONS, function_cycles, operation_products
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import is_float, numpy_dtype

MAX_ROW_BYTES = 1 << 16  # of a row on the stack of a thread
EXPENSIVE_PRODUCTS = min(LONG_OPERATIONS.values())  # from which on a function may be stored
SHORT_CIRCUIT = ("select", "and", "or")  # compute all but their first argument where it asks so


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
    if sum(map(_is_expensive, walk(function))) < 2:
        return function
    body = _ValueStorer(function, target or machine()).statements(function.body)
    return replace(function, body=body)


def _is_expensive(node: object) -> bool:
    if not isinstance(node, Apply) or not is_float(node.dtype):
        return False
    return operation_products(node) >= EXPENSIVE_PRODUCTS


@dataclass(frozen=True)
class _StorePlace:
    """A store in a loop nest, the loops of the nest around it, and whether it has conditions."""

    loops: tuple[For, ...]
    store: Store
    conditional: bool = False


@dataclass(frozen=True)
class _Writer:
    """A value that a statement computes at a store, and the loops whose indices it reads."""

    position: int
    place: _StorePlace
    value: Value

    @property
    def loops(self) -> list[For]:
        indices = _indices(self.value)
        return [loop for loop in self.place.loops if loop.index in indices]


@dataclass(frozen=True)
class _Reader:
    """A store behind a writer that computes the same, by other indices."""

    position: int
    place: _StorePlace
    value: Value
    loops: tuple[For, ...]  # in the order of those of the writer


class _ValueStorer:
    """Rewrites the statements of a function, so that some store what others compute again."""

    def __init__(self, function: Function, target: CpuModel):
        self.function, self.target = function, target
        self.names = {function.name}
        for node in walk(function):
            if isinstance(node, Buf | For):
                self.names.add(_name(node))

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return statements that store values for one another, and inside of each the same."""
        position, body = 0, tuple(body)
        nests = [_nest(statement) for statement in body]
        while position < len(body):
            cheaper = self.cheaper(body, position, nests)
            if cheaper is None:
                position += 1
            else:
                body = cheaper
                nests = [_nest(statement) for statement in body]
        return tuple(map(self.inside, body))

    def inside(self, statement: Statement) -> Statement:
        """Return a statement with values stored among those inside of it."""
        if isinstance(statement, For):
            return replace(statement, body=self.statements(statement.body))
        if isinstance(statement, If):
            then, orelse = self.statements(statement.then), self.statements(statement.orelse)
            return replace(statement, then=then, orelse=orelse)
        return statement

    def cheaper(
        self, body: tuple[Statement, ...], position: int, nests: Sequence[_Nest]
    ) -> tuple[Statement, ...] | None:
        """Return statements where the one at a position stores a value.

        None where that does not pay. `nests` are the same statements.
        """
        first = body[position]
        if not isinstance(first, For) or first.kind == "par":
            return None
        for place in _places(first):
            if place.conditional:
                continue
            for value in _expensive_values(place.store.value):
                writer = _Writer(position, place, value)
                readers = _readers(writer, nests)
                for ref, served in self.storages(writer, readers):
                    stored = _stored(body, writer, ref, served)
                    if self.pays(body, stored, writer, served):
                        return self.declared(stored, position, ref)
        return None

    def storages(
        self, writer: _Writer, readers: Sequence[_Reader]
    ) -> Iterator[tuple[Ref, list[_Reader]]]:
        """Yield the elements where a value can be stored, each with the readers that it serves."""
        storing = [reader for reader in readers if self.stores_result(writer, reader)]
        if storing and _is_partition(writer, storing):
            refs = {_result_element(writer, reader) for reader in storing}
            if len(refs) == 1:
                yield refs.pop(), storing
        private = [reader for reader in readers if not _is_shared(reader.place.loops)]
        row = self.row(writer)
        if private and row is not None:
            yield row, private

    def stores_result(self, writer: _Writer, reader: _Reader) -> bool:
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

    def row(self, writer: _Writer) -> Ref | None:
        """Return an element of a row for all values; None where they are too many."""
        lows = [loop.range[0] for loop in writer.loops]
        shape = tuple(loop.range[1] - loop.range[0] for loop in writer.loops)
        if prod(shape) * numpy_dtype(writer.value.dtype).itemsize > MAX_ROW_BYTES:
            return None
        name, count = "values", 0
        while name in self.names:
            count += 1
            name = f"values{count}"
        subscripts = (affine(loop.index) - low for loop, low in zip(writer.loops, lows))
        return Ref(Buf(name, shape, writer.value.dtype, "local"), tuple(subscripts))

    def pays(
        self,
        body: Sequence[Statement],
        stored: Sequence[Statement],
        writer: _Writer,
        readers: Sequence[_Reader],
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


def _name(node: Buf | For) -> str:
    if isinstance(node, For):
        return node.index.name
    return node.name


# Stores and their values.


@dataclass(frozen=True)
class _StraightCode:
    """The stores inside the same loops of a nest, by what they compute."""

    loops: tuple[For, ...]
    conditional: bool
    stores: dict[Value, list[Store]]


@dataclass(frozen=True)
class _Nest:
    """A statement as straight code in loops, and the names of what it stores to or declares."""

    parts: tuple[_StraightCode, ...]
    changed: frozenset[str]


def _nest(statement: Statement) -> _Nest:
    codes: dict[tuple[tuple[int, ...], bool], _StraightCode] = {}
    for place in _places(statement):
        key = tuple(map(id, place.loops)), place.conditional
        code = codes.setdefault(key, _StraightCode(place.loops, place.conditional, {}))
        for part in dict.fromkeys(_parts(place.store.value)):
            code.stores.setdefault(part, []).append(place.store)
    return _Nest(tuple(codes.values()), frozenset(_changed_names(statement)))


def _places(
    statement: Statement, loops: tuple[For, ...] = (), conditional: bool = False
) -> Iterator[_StorePlace]:
    """Yield the stores of a loop nest."""
    if isinstance(statement, Store):
        yield _StorePlace(loops, statement, conditional)
    elif isinstance(statement, For):
        for inner in statement.body:
            yield from _places(inner, (*loops, statement), conditional)
    elif isinstance(statement, If):
        for inner in (*statement.then, *statement.orelse):
            yield from _places(inner, loops, True)


def _expensive_values(value: Value) -> Iterator[Value]:
    """Yield the parts of a value with an expensive function, which are computed in any case.

    Larger ones come first.
    """
    if not isinstance(value, Apply):
        return
    if is_float(value.dtype) and any(map(_is_expensive, walk(value))):
        yield value
    arguments = value.arguments
    if value.op in SHORT_CIRCUIT:
        arguments = arguments[:1]
    for argument in arguments:
        yield from _expensive_values(argument)


def _parts(value: Value) -> Iterator[Value]:
    """Yield a value and all that it is computed from, larger parts first."""
    yield value
    if isinstance(value, Apply):
        for argument in value.arguments:
            yield from _parts(argument)


def _buffer_names(value: Value) -> set[str]:
    return {node.name for node in walk(value) if isinstance(node, Buf)}


def _indices(node: object) -> set[Index]:
    """Return the indices of loops on which a value or a bound depends."""
    indices = set[Index]()
    for part in walk(node):
        if isinstance(part, Affine | Constraint):
            indices |= part.indices
    return indices


# Readers.


def _readers(writer: _Writer, nests: Sequence[_Nest]) -> list[_Reader]:
    """Return the stores that compute a value again, as long as nothing that it reads changes."""
    loops, around = writer.loops, writer.place.loops
    read = _buffer_names(writer.value)
    if not loops or loops[-1] is not around[-1] or read & nests[writer.position].changed:
        return []
    inner = {loop.index for loop in around}
    if any(inner & _bound_indices(loop) for loop in loops):
        return []
    readers: list[_Reader] = []
    for position in range(writer.position + 1, len(nests)):
        if read & nests[position].changed:
            break
        for code in nests[position].parts:
            readers += _readers_among(code, writer.value, loops, position)
    return readers


def _readers_among(
    code: _StraightCode, value: Value, loops: Sequence[For], position: int
) -> list[_Reader]:
    """Return the stores that compute a value in some of the loops around them."""
    for others in permutations(code.loops, len(loops)):
        if not all(map(_covers, loops, others)):
            continue
        renamed = substituted(value, _renaming(loops, others))
        readers = []
        for store in code.stores.get(renamed, ()):
            place = _StorePlace(code.loops, store, code.conditional)
            readers.append(_Reader(position, place, renamed, others))
        if readers:
            return readers
    return []


def _renaming(loops: Sequence[For], others: Sequence[For]) -> Mapping[Index, Affine]:
    return {loop.index: affine(other.index) for loop, other in zip(loops, others)}


def _covers(loop: For, other: For) -> bool:
    """Whether a loop has all steps of another one."""
    if (loop.low, loop.high) == (other.low, other.high):
        return True
    steps = _constant_steps(loop)
    return steps is not None and steps.start <= other.range[0] and other.range[1] <= steps.stop


def _constant_steps(loop: For) -> range | None:
    """Return the steps of a loop, where they are always the same."""
    low, high = loop.low, loop.high
    if isinstance(low, MinMax) or isinstance(high, MinMax) or low.terms or high.terms:
        return None
    return range(low.const, high.const)


def _bound_indices(loop: For) -> set[Index]:
    return _indices(loop.low) | _indices(loop.high)


def _changed_names(statement: Statement) -> set[str]:
    """Return the names of what a statement stores to or declares."""
    names = set[str]()
    for node in walk(statement):
        if isinstance(node, Store):
            names.add(node.ref.buf.name)
        elif isinstance(node, Alloc):
            names.add(node.buf.name)
    return names


def _is_shared(loops: Sequence[For]) -> bool:
    """Whether threads share some loops, which have no arrays of the thread that begins them."""
    return any(loop.kind == "par" for loop in loops)


# Values in the result.


def _result_element(writer: _Writer, reader: _Reader) -> Ref:
    """Return the element that a reader stores, by the indices of a writer."""
    return substituted(reader.place.store.ref, _renaming(reader.loops, writer.loops))


def _is_partition(writer: _Writer, readers: Sequence[_Reader]) -> bool:
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
        steps = _constant_steps(loop)
        if steps is None:
            return None
        count *= len(steps)
    return count


# Rewriting.


def _stored(
    body: Sequence[Statement], writer: _Writer, ref: Ref, readers: Sequence[_Reader]
) -> tuple[Statement, ...]:
    """Return statements where a writer stores its value, and readers read it."""
    results = list(body)
    store = writer.place.store
    reading = replace(store, value=_with(store.value, writer.value, ref))
    stores = (Store(ref, "=", writer.value), reading)
    results[writer.position] = _replaced(results[writer.position], store, stores)
    for reader in readers:
        element = substituted(ref, _renaming(writer.loops, reader.loops))
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
