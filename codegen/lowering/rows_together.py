"""Rows of sums to which several steps of a reduction are added at once (design §10).

A long row of accumulators is read and written in each step of the reduction around it. Where a pass
over the row adds several steps, it is so a few times less often, and as many rows of the operand
come from memory side by side. Every accumulator adds in the same order as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from codegen.ir.nodes import (
    Apply,
    For,
    Function,
    If,
    Predicate,
    Ref,
    Statement,
    Store,
    value_parts,
)
from codegen.ir.scalars.elements import is_lanewise
from codegen.ir.substitute import substituted
from codegen.ir.types import bytes_of
from codegen.lowering.block import constant_bound
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

STEPS = 8  # of a reduction, that a pass over the row adds
FEWER_STEPS = 4  # where the rows of more steps would displace one another from the first cache
LINE_BYTES = 64
WAY_BYTES = 4096  # of the first cache: lines so far apart have the same places in it
MAX_ALIKE = 4  # rows that begin at the same place of it
MAX_OPERATIONS = 3  # of an element: more of them take longer than what is saved
MIN_ROW = 128  # elements: those of shorter rows stay in registers


def with_rows_together(function: Function) -> Function:
    """Return a function whose rows of sums are gone through once for several steps.

    >>> from codegen.lowering.lower import lower
    >>> from codegen.lowering.schedule import Schedule
    >>> import einalg as ea
    >>> product = ea.parse("O[n] += A[k,n]*x[k]", A=(83, 500), x=(83,))
    >>> f = with_rows_together(lower("O", product, schedule=Schedule(row=500)))
    >>> loops = [node for node in f.body if isinstance(node, For)]
    >>> [(str(loop.index), loop.extent) for loop in loops]
    [('n', 500), ('k', 10), ('n', 500), ('n', 500)]
    >>> [len(row.body) for row in (*loops[1].body, loops[2])]
    [8, 3]
    """
    return replace(function, body=tuple(_statements(function.body)))


def _statements(body: Sequence[Statement]) -> Iterator[Statement]:
    for statement in body:
        if isinstance(statement, If):
            then, orelse = _statements(statement.then), _statements(statement.orelse)
            yield replace(statement, then=tuple(then), orelse=tuple(orelse))
        elif isinstance(statement, For):
            row = _row_of_sums(statement)
            if row is None:
                yield replace(statement, body=tuple(_statements(statement.body)))
            else:
                yield from _in_passes(statement, *row)
        else:
            yield statement


def _row_of_sums(loop: For) -> tuple[For, Store] | None:
    """Return the loop over a row that a loop consists of, and what it adds; None for others."""
    if loop.kind != "seq" or loop.extent is None or loop.extent < 2 or len(loop.body) != 1:
        return None
    (row,) = loop.body
    if not isinstance(row, For) or row.kind != "vec" or len(row.body) != 1:
        return None
    if row.extent is None or row.extent < MIN_ROW or constant_bound(loop.low) is None:
        return None
    (store,) = row.body
    if not isinstance(store, Store) or not _adds_simple_element(store):
        return None
    fixed = (row.low, row.high, *store.ref.subscripts)
    if any(loop.index in form.indices for form in fixed if isinstance(form, Affine)):
        return None
    return row, store


def _adds_simple_element(store: Store) -> bool:
    """Tell whether a store adds what takes little time, and does not depend on the sums."""
    if store.op != "+=" or not is_lanewise(store.value, store.ref.dtype):
        return False
    parts = list(value_parts(store.value))
    if any(isinstance(part, Predicate) for part in parts):
        return False
    if any(isinstance(part, Ref) and part.buf.name == store.ref.buf.name for part in parts):
        return False
    return sum(isinstance(part, Apply) for part in parts) <= MAX_OPERATIONS


def _in_passes(loop: For, row: For, store: Store) -> Iterator[Statement]:
    """Yield a loop over whole groups of steps, and a pass over the row for the steps left."""
    low, steps = constant_bound(loop.low), loop.extent
    assert low is not None and steps is not None
    together = _steps_together(loop.index, row.index, store)
    groups, left = divmod(steps, together)

    def adding(first: Affine, count: int) -> For:
        values = [{loop.index: first + step} for step in range(count)]
        return replace(row, body=tuple(substituted(store, value) for value in values))

    if groups == 1:
        yield adding(affine(low), together)
    elif groups:
        passes = adding(affine(loop.index) * together + low, together)
        yield replace(loop, low=affine(0), high=affine(groups), range=(0, groups), body=(passes,))
    if left:
        yield adding(affine(low + groups * together), left)


def _steps_together(index: Index, row: Index, store: Store) -> int:
    """Return how many steps a pass adds whose rows stay in the first cache side by side."""
    for part in value_parts(store.value):
        if not isinstance(part, Ref) or not _step(part, row):
            continue
        distance = _step(part, index) * bytes_of(part.dtype)
        places = Counter(step * distance % WAY_BYTES // LINE_BYTES for step in range(STEPS))
        if distance and max(places.values()) > MAX_ALIKE:
            return FEWER_STEPS
    return STEPS


def _step(ref: Ref, index: Index) -> int:
    """Return how many elements lie between those of two steps of an index."""
    total = 0
    for subscript, size in zip(ref.subscripts, ref.buf.shape, strict=True):
        total = total * size + subscript.coefficient(index)
    return total
