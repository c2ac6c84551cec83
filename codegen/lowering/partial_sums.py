"""Long sums in several registers, which wait for one another less (design §10).

An addition takes a few cycles, in which a core can begin several. A loop that does little else adds
the elements of several parts of its row, each to a register of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codegen.ir.names import unused_name, used_names
from codegen.ir.nodes import (
    Alloc,
    Apply,
    For,
    Function,
    If,
    IndexNumber,
    Number,
    Predicate,
    Ref,
    Statement,
    Store,
    value_parts,
)
from codegen.ir.scalars.elements import is_lanewise
from codegen.ir.substitute import substituted
from codegen.lowering.block import constant_bound
from einalg.language.index.convert import affine

PARTS = 4  # of a row, and registers
MAX_OPERATIONS = 3  # of an element, up to which an addition is waited for
WHOLE = 64  # elements of a row, in whole vectors of any machine
TYPES = ("f32", "f64")


def with_partial_sums(function: Function) -> Function:
    """Return a function whose long sums of simple elements are in several registers.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> f = with_partial_sums(lower("O", ea.parse("O[i] += A[i,k]**2", A=(8, 1000))))
    >>> (rows,) = f.body
    >>> [len(node.body) for node in rows.body if isinstance(node, For)]
    [4, 1]
    """
    names = used_names(function)
    return replace(function, body=_statements(function.body, names))


def _statements(body: Sequence[Statement], names: set[str]) -> tuple[Statement, ...]:
    results: list[Statement] = []
    for statement in body:
        if isinstance(statement, For):
            parts = _in_parts(statement, names)
            if parts is not None:
                results += parts
                continue
            statement = replace(statement, body=_statements(statement.body, names))
        elif isinstance(statement, If):
            then = _statements(statement.then, names)
            orelse = _statements(statement.orelse, names)
            statement = replace(statement, then=then, orelse=orelse)
        results.append(statement)
    return tuple(results)


def _in_parts(loop: For, names: set[str]) -> list[Statement] | None:
    """Return a loop as one over parts of its elements, and one over the rest of them.

    None where it waits for no addition.
    """
    low, high = constant_bound(loop.low), constant_bound(loop.high)
    if loop.kind != "vec" or low is None or high is None or len(loop.body) != 1:
        return None
    (store,) = loop.body
    width = (high - low) // (PARTS * WHOLE) * WHOLE
    if not width or not isinstance(store, Store) or not _waits(store):
        return None
    sums = [store.ref]
    results: list[Statement] = []
    for _ in range(1, PARTS):
        name = unused_name(store.ref.buf.name, names)
        names.add(name)
        sums.append(Ref(replace(store.ref.buf, name=name), ()))
        results += [Alloc(sums[-1].buf), Store(sums[-1], "=", Number(0, store.ref.dtype))]
    stores: list[Store] = []
    for part, total in enumerate(sums):
        values = {loop.index: affine(loop.index) + part * width}
        stores.append(Store(total, "+=", substituted(store.value, values)))
    middle = low + width
    results.append(replace(loop, high=affine(middle), range=(low, middle), body=tuple(stores)))
    rest = low + PARTS * width
    if rest < high:
        results.append(replace(loop, low=affine(rest), range=(rest, high)))
    results += [Store(sums[0], "+=", total) for total in sums[1:]]
    return results


def _waits(store: Store) -> bool:
    """Whether a store adds to a register what takes less time than the addition."""
    if store.op != "+=" or store.ref.buf.space != "reg" or store.ref.dtype not in TYPES:
        return False
    parts = list(value_parts(store.value))
    if any(isinstance(part, (Predicate, IndexNumber)) for part in parts):
        return False
    operations = [part for part in parts if isinstance(part, Apply)]
    return len(operations) <= MAX_OPERATIONS and is_lanewise(store.value, store.ref.dtype)
