"""Maxima and minima in the loop IR: stores that are one extreme, and loops without a rest.

An element may count twice in a maximum. So a loop over `n` elements becomes one over pairs of
elements a little more than `n/2` apart from each other: its steps fill whole vectors, and a test
for NaN serves two elements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from codegen.ir.nodes import Buf, For, Ref, Statement, Store, Value, walk
from codegen.ir.substitute import substituted
from codegen.ir.types import bytes_of, computed
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import fresh_index

EXTREMES = ("max", "min")
VECTOR_BYTES = 64  # of the longest vectors: steps of a loop over pairs fill them, or shorter ones


@dataclass(frozen=True)
class ExtremeStore:
    """`ref = max(terms)`: several stores as one."""

    ref: Ref
    op: str
    terms: tuple[Value, ...]


@dataclass(frozen=True)
class Span:
    """Elements whose number is known when the code runs: `count` of them from `first` on.

    Pairs begin before `end`, and are `apart`. `width` elements fill a vector.
    """

    first: Index
    count: Index
    end: Index
    apart: Index
    width: int


@dataclass(frozen=True)
class PairLoop:
    """A loop over the elements of an extreme, two in each step; `loop` has no body.

    Where its bounds are no constants, it is in terms of a span.
    """

    loop: For
    store: Store
    values: tuple[Value, Value]
    span: Span | None = None


def with_extremes(body: Sequence[Statement]) -> list[Statement | ExtremeStore]:
    """Return statements, with an assignment and the extremes taken right after it as one.

    >>> from codegen.ir.nodes import Number
    >>> x, y, z = (Ref(Buf(name, (), "f32", "reg"), ()) for name in "xyz")
    >>> stores = [Store(x, "=", y), Store(x, "max", z), Store(x, "max", Number(1, "f32"))]
    >>> (extreme,) = with_extremes(stores)
    >>> extreme.op, len(extreme.terms)
    ('max', 3)
    """
    statements: list[Statement | ExtremeStore] = []
    for statement in body:
        before = None
        if statements and isinstance(statement, Store) and statement.op in EXTREMES:
            before = _joined(statements[-1], statement)
        if before is None:
            statements.append(statement)
        else:
            statements[-1] = before
    return statements


def _joined(statement: Statement | ExtremeStore, following: Store) -> ExtremeStore | None:
    """Return what sets a register to an extreme, with one more term; None where it cannot."""
    ref, op, value = following.ref, following.op, following.value
    if not is_register(ref.buf) or any(node == ref for node in walk(value)):
        return None
    if isinstance(statement, ExtremeStore) and (statement.ref, statement.op) == (ref, op):
        return replace(statement, terms=(*statement.terms, value))
    if isinstance(statement, Store) and (statement.ref, statement.op) == (ref, "="):
        return ExtremeStore(ref, op, (statement.value, value))
    return None


def is_register(buf: Buf) -> bool:
    return not buf.shape and buf.space == "reg"


def loop_over_pairs(loop: For, used: Collection[Index] = ()) -> PairLoop | None:
    """Return a loop that takes an extreme of its elements as one over pairs of these.

    The indices of a span are others than those in use. None for other loops.

    >>> j, row = Index("j"), Buf("A", (100,), "f32")
    >>> put = Store(Ref(Buf("m", (), "f32", "reg"), ()), "max", Ref(row, (affine(j),)))
    >>> pairs = loop_over_pairs(For(j, affine(0), affine(100), (0, 100), (put,), "vec"))
    >>> pairs.loop.high, pairs.values[1].subscripts
    (64, (j + 36,))
    """
    if len(loop.body) != 1:
        return None
    (store,) = loop.body
    if not isinstance(store, Store) or store.op not in EXTREMES or not is_register(store.ref.buf):
        return None
    width = VECTOR_BYTES // bytes_of(computed(store.ref.dtype))
    if isinstance(loop.low, Affine) and not loop.low.terms and loop.extent is not None:
        return _constant_pairs(loop, store, width)
    return _pairs_of_a_span(loop, store, width, used)


def _pairs_of_a_span(loop: For, store: Store, width: int, used: Collection[Index]) -> PairLoop:
    """Return a loop over pairs between bounds that depend on other loops."""
    name, (low, high) = loop.index.name, loop.range
    span = Span(
        first=fresh_index(f"{name}_first", used),
        count=fresh_index(f"{name}_count", used),
        end=fresh_index(f"{name}_end", used),
        apart=fresh_index(f"{name}_apart", used),
        width=min(width, pair_distance(max(2, high - low), width)),
    )
    pairs = replace(loop, low=affine(span.first), high=affine(span.end), body=())
    return PairLoop(pairs, store, _pair(loop, store, affine(span.apart)), span)


def _constant_pairs(loop: For, store: Store, width: int) -> PairLoop | None:
    """Return a loop over pairs between constant bounds; None for one step."""
    count = loop.extent or 0
    if count < 2:
        return None
    low = loop.range[0]
    half = pair_distance(count, width)
    pairs = replace(loop, high=affine(low + half), range=(low, low + half), body=())
    return PairLoop(pairs, store, _pair(loop, store, affine(count - half)))


def _pair(loop: For, store: Store, apart: Affine) -> tuple[Value, Value]:
    """Return the value that a step stores, and that of a step behind it."""
    second = substituted(store.value, {loop.index: affine(loop.index) + apart})
    return store.value, second


def pair_distance(count: int, width: int) -> int:
    """Return the steps of a loop over pairs: half of the elements, up to vectors of some width.

    Fewer elements fill a shorter vector.

    >>> [pair_distance(count, 16) for count in (2, 5, 16, 17, 31, 33, 100)]
    [1, 4, 8, 16, 16, 32, 64]
    """
    half = -(-count // 2)
    width = min(width, 1 << (half - 1).bit_length())
    return -(-half // width) * width
