"""Rows of half precision as rows of floats: converted before a loop, and back behind it.

Processors convert whole vectors between registers; in the middle of a loop, a compiler that does
not know how to calls a function for each. So a loop becomes one over blocks. In each, what is read
from neighbouring halves is copied to local floats, and what is stored to such is copied from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from codegen.ir.names import unused_name
from codegen.ir.nodes import (
    Alloc,
    Buf,
    For,
    Function,
    If,
    MinMax,
    Outlined,
    Predicate,
    Ref,
    Statement,
    Store,
    walk,
)
from codegen.ir.substitute import referred
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import fresh_index

BLOCK = 128  # elements of a row that are converted at once
MIN_ROW = 16  # elements from which on a row is worth a copy
MAX_ROWS = 16
ADDING = ("=", "+=", "*=")


def with_half_rows(function: Function) -> Function:
    """Return a function whose loops read and store rows of halves as rows of floats."""
    if not any(isinstance(node, Ref) and _is_half(node) for node in walk(function)):
        return function
    names = {node.name for node in walk(function) if isinstance(node, Buf)}
    indices = {node.index for node in walk(function) if isinstance(node, For)}
    return replace(function, body=_RowRewriter(names, indices).statements(function.body))


def _is_half(ref: Ref) -> bool:
    return ref.dtype == "f16" and ref.buf.space == "global"


class _RowRewriter:
    """Rewrites the loops of a function, under names that are free there."""

    def __init__(self, names: set[str], indices: set[Index]):
        self.names, self.indices = names, indices

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        results: list[Statement] = []
        for statement in body:
            if isinstance(statement, For):
                results += self.loop(statement)
            elif isinstance(statement, If):
                then, orelse = self.statements(statement.then), self.statements(statement.orelse)
                results.append(replace(statement, then=then, orelse=orelse))
            elif isinstance(statement, Outlined):
                results.append(Outlined(self.statements(statement.body)))
            else:
                results.append(statement)
        return tuple(results)

    def loop(self, loop: For) -> tuple[Statement, ...]:
        if any(isinstance(node, For) for statement in loop.body for node in walk(statement)):
            return (replace(loop, body=self.statements(loop.body)),)
        refs = half_rows(loop)
        if not refs:
            return (loop,)
        assert loop.extent is not None and isinstance(loop.low, Affine)
        low, count = loop.low.const, loop.extent
        if count <= BLOCK and loop.kind == "vec":
            return self.block(loop, refs, loop.low, loop.high)
        index = fresh_index(f"{loop.index.name}_block", self.indices)
        self.indices.add(index)
        first = affine(index) * BLOCK + low
        end: Any = MinMax("min", (first + BLOCK, affine(low + count)))
        if count % BLOCK == 0:
            end = first + BLOCK
        blocks = -(-count // BLOCK)
        kind = "seq"
        if loop.kind == "par":
            kind = "par"
        body = self.block(loop, refs, first, end)
        return (For(index, affine(0), affine(blocks), (0, blocks), body, kind),)

    def block(
        self, loop: For, refs: Sequence[Ref], first: Affine, end: Any
    ) -> tuple[Statement, ...]:
        """Return the statements of one block: copies of rows, the loop itself, and copies back."""
        rows = {ref: self.row(ref, loop, first) for ref in refs}
        stored = {statement.ref for statement in loop.body if isinstance(statement, Store)}
        before: list[Statement] = [Alloc(row.buf) for row in rows.values()]
        behind: list[Statement] = []
        part = replace(loop, low=first, high=end, kind="vec")
        for ref, row in rows.items():
            if ref in stored:
                behind.append(replace(part, body=(Store(ref, "=", row),)))
            else:
                before.append(replace(part, body=(Store(row, "=", ref),)))
        body = tuple(referred(statement, rows) for statement in loop.body)
        return (*before, replace(part, body=body), *behind)

    def row(self, ref: Ref, loop: For, first: Affine) -> Ref:
        """Return the element of a local row that stands for one in memory."""
        name = unused_name(f"{ref.buf.name}_row", self.names)
        self.names.add(name)
        size = min(BLOCK, loop.extent or BLOCK)
        return Ref(Buf(name, (size,), "f32", "local"), (affine(loop.index) - first,))


def half_rows(loop: For) -> list[Ref]:
    """Return the halves that a loop reads or stores side by side, each once.

    Empty where it does so under conditions, or where copies would not pay.
    """
    if loop.kind not in ("vec", "par") or not isinstance(loop.low, Affine) or loop.low.terms:
        return []
    if loop.extent is None or loop.extent < MIN_ROW:
        return []
    if loop.kind == "par" and loop.extent <= BLOCK:
        return []
    if not all(_is_plain(statement) for statement in loop.body):
        return []
    stored = {statement.ref for statement in loop.body if isinstance(statement, Store)}
    written = {ref.buf.name for ref in stored}
    rows: list[Ref] = []
    for ref in dict.fromkeys(_halves(loop.body)):
        if ref.buf.name in written and ref not in stored:
            return []
        if is_row(ref, loop.index):
            rows.append(ref)
    if len(rows) > MAX_ROWS or _reads_what_it_stores(loop, stored):
        return []
    return rows


def _is_plain(statement: Statement) -> bool:
    """Return whether a statement sets or adds to something at every step."""
    if isinstance(statement, Alloc):
        return not statement.buf.shape
    if not isinstance(statement, Store) or statement.op not in ADDING:
        return False
    if _is_half(statement.ref) and statement.op != "=":
        return False
    return not any(isinstance(node, Predicate) for node in walk(statement))


def _reads_what_it_stores(loop: For, stored: set[Ref]) -> bool:
    """Return whether halves that a loop stores are read there, too."""
    for statement in loop.body:
        if isinstance(statement, Store):
            for node in walk(statement.value):
                if isinstance(node, Ref) and _is_half(node) and node in stored:
                    return True
    return False


def _halves(body: Sequence[Statement]) -> Iterator[Ref]:
    """Yield the halves in memory that statements read and store."""
    for statement in body:
        for node in walk(statement):
            if isinstance(node, Ref) and _is_half(node):
                yield node


def is_row(ref: Ref, index: Index) -> bool:
    """Return whether an element moves to its neighbour where an index grows by one.

    >>> j = Index("j")
    >>> buf = Buf("A", (4, 9), "f16")
    >>> is_row(Ref(buf, (affine(2), affine(j) + 1)), j), is_row(Ref(buf, (affine(j), affine(2))), j)
    (True, False)
    """
    if not ref.subscripts:
        return False
    *outer, last = ref.subscripts
    if any(index in subscript.indices for subscript in outer):
        return False
    return last.coefficient(index) == 1 and index not in (last - affine(index)).indices


def converted_row(loop: For) -> tuple[Ref, Ref] | None:
    """Return the first elements of two rows where a loop copies halves to floats or back.

    The first one is the target.
    """
    if loop.kind != "vec" or len(loop.body) != 1 or not isinstance(loop.low, Affine):
        return None
    (store,) = loop.body
    if not isinstance(store, Store) or store.op != "=" or not isinstance(store.value, Ref):
        return None
    target, source = store.ref, store.value
    if {target.dtype, source.dtype} != {"f16", "f32"}:
        return None
    if not is_row(target, loop.index) or not is_row(source, loop.index):
        return None
    first = {loop.index: loop.low}
    return _at(target, first), _at(source, first)


def _at(ref: Ref, place: dict[Index, Affine]) -> Ref:
    return Ref(ref.buf, tuple(subscript.substitute(place) for subscript in ref.subscripts))
