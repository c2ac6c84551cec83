"""Long sums in rows of registers, which wait for one another less (design §10).

An addition takes a few cycles, in which a core can begin several. A loop that does little else adds
each element of its row to one of several registers of vectors, and walks memory in order all the
same. A very long row, which no near cache holds, is walked in several parts side by side: memory
gives more to a core that asks for several at once, unless its pages are large.

What is left of the row behind whole rows of registers is added by the vectors at its end, whose
first elements are in the sum already and count as zeros: no element is added alone, and none is
read under a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codegen.ir.names import unused_name, used_names
from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    Function,
    If,
    IndexNumber,
    Number,
    Predicate,
    Ref,
    Statement,
    Store,
    Value,
    value_parts,
)
from codegen.ir.scalars.elements import is_lanewise
from codegen.ir.scalars.folding import apply
from codegen.ir.substitute import substituted
from codegen.ir.types import bytes_of
from codegen.lowering.block import constant_bound
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

MAX_OPERATIONS = 3  # of an element, up to which an addition is waited for
ROW_BYTES = 256  # of the sums that are side by side: a few whole vectors of any machine
VECTOR_BYTES = 64  # of the longest vector: what is left is added in whole ones
MIN_ELEMENTS = 8  # of what is left: fewer are added one by one
TYPES = ("f32", "f64")
STREAMS = 8  # parts of very long rows that are read side by side, of all tensors together
STREAM_BYTES = 1 << 16  # of the shortest of such parts


def with_partial_sums(function: Function) -> Function:
    """Return a function whose long sums of simple elements are in several registers.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> f = with_partial_sums(lower("O", ea.parse("O[i] += A[i,k]**2", A=(8, 1000))))
    >>> (rows,) = f.body
    >>> [(node.index.name, node.extent) for node in rows.body if isinstance(node, For)]
    [('lane', 64), ('block', 15), ('lane', 48), ('lane', 64)]
    """
    names = used_names(function)
    return replace(function, body=_statements(function.body, names))


def _statements(body: Sequence[Statement], names: set[str]) -> tuple[Statement, ...]:
    results: list[Statement] = []
    for statement in body:
        if isinstance(statement, For):
            rows = _in_rows(statement, names)
            if rows is not None:
                results += rows
                continue
            statement = replace(statement, body=_statements(statement.body, names))
        elif isinstance(statement, If):
            then = _statements(statement.then, names)
            orelse = _statements(statement.orelse, names)
            statement = replace(statement, then=then, orelse=orelse)
        results.append(statement)
    return tuple(results)


def _in_rows(loop: For, names: set[str]) -> list[Statement] | None:
    """Return a loop that adds to a register as loops that add to a row of them.

    None where it waits for no addition, or does not fill a row.
    """
    low, high = constant_bound(loop.low), constant_bound(loop.high)
    if loop.kind != "vec" or low is None or high is None or len(loop.body) != 1:
        return None
    (store,) = loop.body
    if not isinstance(store, Store) or not _waits(store):
        return None
    dtype = store.ref.dtype
    width, vector = ROW_BYTES // bytes_of(dtype), VECTOR_BYTES // bytes_of(dtype)
    count, rest = divmod(high - low, width)
    if not count:
        return None
    lane, block = _fresh("lane", names), _fresh("block", names)
    name = unused_name(f"{store.ref.buf.name}s", names)
    names.add(name)
    row = Buf(name, (width,), dtype, "reg")
    own = Ref(row, (affine(lane),))

    def element(at: Affine) -> Value:
        return substituted(store.value, {loop.index: at})

    def for_lanes(lanes: int, *body: Statement) -> For:
        return For(lane, affine(0), affine(lanes), (0, lanes), body, "vec")

    def for_blocks(first: int, blocks: int, parts: int) -> For:
        """Return the loop over blocks of several parts of the row, one after the other there."""
        added: list[Statement] = []
        for part in range(parts):
            at = (affine(block) + (first + part * blocks)) * width + affine(lane) + low
            added.append(for_lanes(width, Store(own, "+=", element(at))))
        return For(block, affine(0), affine(blocks), (0, blocks), tuple(added), "seq")

    results: list[Statement] = [Alloc(row), for_lanes(width, Store(own, "=", Number(0, dtype)))]
    parts = _parts_of_row(store, loop.index, count * width)
    blocks, left = divmod(count, parts)
    runs = ((0, blocks, parts), (count - left, left, 1))
    results += [for_blocks(*run) for run in runs if run[1]]
    if 0 < rest < MIN_ELEMENTS:
        results.append(replace(loop, low=affine(high - rest), range=(high - rest, high)))
    elif rest:
        lanes = -(-rest // vector) * vector
        is_left = Predicate((Constraint(affine(lane) + (rest - lanes), ">="),))
        last = Ref(Buf(_fresh("last", names).name, (), dtype, "reg"), ())
        computed = Store(last, "=", element(affine(lane) + (high - lanes)))
        value = apply("select", [is_left, last, Number(0, dtype)], dtype)
        results.append(for_lanes(lanes, Alloc(last.buf), computed, Store(own, "+=", value)))
    return [*results, for_lanes(width, Store(store.ref, "+=", own))]


def _parts_of_row(store: Store, index: Index, length: int) -> int:
    """Return into how many parts a row of so many elements is cut, which are read side by side.

    >>> sums = Buf("s", (), "f32", "reg"), Buf("A", (1 << 20,), "f32")
    >>> total, term = Ref(sums[0], ()), Ref(sums[1], (affine(Index("k")),))
    >>> _parts_of_row(Store(total, "+=", term), Index("k"), 1 << 20)
    8
    """
    read = {part for part in value_parts(store.value) if isinstance(part, Ref)}
    moving = [ref for ref in read if any(index in form.indices for form in ref.subscripts)]
    parts = STREAMS // max(1, len(moving))
    if any(length * bytes_of(ref.dtype) >= parts * STREAM_BYTES for ref in moving):
        return max(1, parts)
    return 1


def _fresh(name: str, names: set[str]) -> Index:
    unused = unused_name(name, names)
    names.add(unused)
    return Index(unused)


def _waits(store: Store) -> bool:
    """Whether a store adds to a register what takes less time than the addition."""
    if store.op != "+=" or store.ref.buf.space != "reg" or store.ref.dtype not in TYPES:
        return False
    parts = list(value_parts(store.value))
    if any(isinstance(part, (Predicate, IndexNumber)) for part in parts):
        return False
    operations = [part for part in parts if isinstance(part, Apply)]
    return len(operations) <= MAX_OPERATIONS and is_lanewise(store.value, store.ref.dtype)
