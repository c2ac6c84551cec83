"""The stores of loop nests, and which of them compute the same values (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    If,
    MinMax,
    Statement,
    Store,
    Value,
    value_parts,
    walk,
)
from codegen.ir.substitute import substituted
from codegen.kernels.loop_cost.cycles import LONG_OPERATIONS, operation_products
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import is_float

EXPENSIVE_PRODUCTS = min(LONG_OPERATIONS.values())  # from which on a function may be stored
SHORT_CIRCUIT = ("select", "and", "or")  # compute all but their first argument where it asks so


def with_bodies(
    statement: Statement, rewrite: Callable[[Sequence[Statement]], tuple[Statement, ...]]
) -> Statement:
    """Return a statement with the statements inside of it rewritten."""
    if isinstance(statement, For):
        return replace(statement, body=rewrite(statement.body))
    if isinstance(statement, If):
        then, orelse = rewrite(statement.then), rewrite(statement.orelse)
        return replace(statement, then=then, orelse=orelse)
    return statement


def is_expensive(node: object) -> bool:
    if not isinstance(node, Apply) or not is_float(node.dtype):
        return False
    return operation_products(node) >= EXPENSIVE_PRODUCTS


@dataclass(frozen=True)
class StorePlace:
    """A store in a loop nest, the loops of the nest around it, and whether it has conditions."""

    loops: tuple[For, ...]
    store: Store
    conditional: bool = False


@dataclass(frozen=True)
class ValueWriter:
    """A value that a statement computes at a store, and the loops whose indices it reads."""

    position: int
    place: StorePlace
    value: Value

    @property
    def loops(self) -> list[For]:
        indices = indices_of(self.value)
        return [loop for loop in self.place.loops if loop.index in indices]


@dataclass(frozen=True)
class ValueReader:
    """A store behind a writer that computes the same, by other indices."""

    position: int
    place: StorePlace
    value: Value
    loops: tuple[For, ...]  # in the order of those of the writer


# Stores and their values.


@dataclass(frozen=True)
class _StraightCode:
    """The stores inside the same loops of a nest, by what they compute."""

    loops: tuple[For, ...]
    conditional: bool
    stores: dict[Value, list[Store]]


@dataclass(frozen=True)
class LoopNest:
    """A statement as straight code in loops, and the names of what it stores to or declares."""

    parts: tuple[_StraightCode, ...]
    changed: frozenset[str]


def loop_nest(statement: Statement) -> LoopNest:
    codes: dict[tuple[tuple[int, ...], bool], _StraightCode] = {}
    for place in store_places(statement):
        key = tuple(map(id, place.loops)), place.conditional
        code = codes.setdefault(key, _StraightCode(place.loops, place.conditional, {}))
        for part in dict.fromkeys(value_parts(place.store.value)):
            code.stores.setdefault(part, []).append(place.store)
    return LoopNest(tuple(codes.values()), frozenset(changed_names(statement)))


def store_places(
    statement: Statement, loops: tuple[For, ...] = (), conditional: bool = False
) -> Iterator[StorePlace]:
    """Yield the stores of a loop nest."""
    if isinstance(statement, Store):
        yield StorePlace(loops, statement, conditional)
    elif isinstance(statement, For):
        for inner in statement.body:
            yield from store_places(inner, (*loops, statement), conditional)
    elif isinstance(statement, If):
        for inner in (*statement.then, *statement.orelse):
            yield from store_places(inner, loops, True)


def expensive_values(value: Value) -> Iterator[Value]:
    """Yield the parts of a value with an expensive function, which are computed in any case.

    Larger ones come first.
    """
    if not isinstance(value, Apply):
        return
    if is_float(value.dtype) and any(map(is_expensive, walk(value))):
        yield value
    arguments = value.arguments
    if value.op in SHORT_CIRCUIT:
        arguments = arguments[:1]
    for argument in arguments:
        yield from expensive_values(argument)


def buffer_names(value: Value) -> set[str]:
    return {node.name for node in walk(value) if isinstance(node, Buf)}


def indices_of(node: object) -> set[Index]:
    """Return the indices of loops on which a value or a bound depends."""
    indices = set[Index]()
    for part in walk(node):
        if isinstance(part, Affine | Constraint):
            indices |= part.indices
    return indices


# Readers.


def value_readers(writer: ValueWriter, nests: Sequence[LoopNest]) -> list[ValueReader]:
    """Return the stores that compute a value again, as long as nothing that it reads changes."""
    loops, around = writer.loops, writer.place.loops
    read = buffer_names(writer.value)
    if not loops or loops[-1] is not around[-1] or read & nests[writer.position].changed:
        return []
    inner = {loop.index for loop in around}
    if any(inner & _bound_indices(loop) for loop in loops):
        return []
    readers: list[ValueReader] = []
    for position in range(writer.position + 1, len(nests)):
        if read & nests[position].changed:
            break
        for code in nests[position].parts:
            readers += _readers_among(code, writer.value, loops, position)
    return readers


def _readers_among(
    code: _StraightCode, value: Value, loops: Sequence[For], position: int
) -> list[ValueReader]:
    """Return the stores that compute a value in some of the loops around them."""
    for others in permutations(code.loops, len(loops)):
        if not all(map(_covers, loops, others)):
            continue
        renamed = substituted(value, renaming(loops, others))
        readers = []
        for store in code.stores.get(renamed, ()):
            place = StorePlace(code.loops, store, code.conditional)
            readers.append(ValueReader(position, place, renamed, others))
        if readers:
            return readers
    return []


def renaming(loops: Sequence[For], others: Sequence[For]) -> Mapping[Index, Affine]:
    return {loop.index: affine(other.index) for loop, other in zip(loops, others)}


def _covers(loop: For, other: For) -> bool:
    """Whether a loop has all steps of another one."""
    if (loop.low, loop.high) == (other.low, other.high):
        return True
    steps = constant_steps(loop)
    return steps is not None and steps.start <= other.range[0] and other.range[1] <= steps.stop


def constant_steps(loop: For) -> range | None:
    """Return the steps of a loop, where they are always the same."""
    low, high = loop.low, loop.high
    if isinstance(low, MinMax) or isinstance(high, MinMax) or low.terms or high.terms:
        return None
    return range(low.const, high.const)


def _bound_indices(loop: For) -> set[Index]:
    return indices_of(loop.low) | indices_of(loop.high)


def changed_names(statement: Statement) -> set[str]:
    """Return the names of what a statement stores to or declares."""
    names = set[str]()
    for node in walk(statement):
        if isinstance(node, Store):
            names.add(node.ref.buf.name)
        elif isinstance(node, Alloc):
            names.add(node.buf.name)
    return names


def is_shared(loops: Sequence[For]) -> bool:
    """Whether threads share some loops, which have no arrays of the thread that begins them."""
    return any(loop.kind == "par" for loop in loops)
