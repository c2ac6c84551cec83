"""Operations that the threads of a warp do together, as loops for a printer without threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from codegen.ir.nodes import (
    Apply,
    Buf,
    For,
    FragmentFill,
    FragmentLoad,
    FragmentMma,
    FragmentStore,
    If,
    Ref,
    Statement,
    Store,
    WarpReduce,
    walk,
)
from codegen.ir.scalars.folding import cast
from codegen.ir.types import computed
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import fresh_index

FRAGMENTS = ("matrix_a", "matrix_b", "accumulator")
PRIVATE = ("reg", "local", *FRAGMENTS)  # to a thread, or to a warp


def without_warp_operations(
    body: Sequence[Statement], extents: Mapping[Buf, tuple[int, ...]]
) -> tuple[Statement, ...]:
    """Return statements in which `WarpReduce` and fragments are written out.

    `extents` are those of the threads that have each private buffer.
    """
    used_indices: set[Index] = set()
    for statement in body:
        used_indices |= {node.index for node in walk(statement) if isinstance(node, For)}
    return _Rewriter(used_indices, extents).body(body)


class _Rewriter:
    """Writes out statements, in loops over indices that no other loop has."""

    def __init__(self, used_indices: Collection[Index], extents: Mapping[Buf, tuple[int, ...]]):
        self.extents = extents
        self.row = fresh_index("row", used_indices)
        self.column = fresh_index("column", used_indices)
        self.depth = fresh_index("depth", used_indices)

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        statements: list[Statement] = []
        for statement in body:
            statements.append(self.statement(statement))
        return tuple(statements)

    def statement(self, statement: Statement) -> Statement:
        if isinstance(statement, For):
            return replace(statement, body=self.body(statement.body))
        if isinstance(statement, If):
            then, orelse = self.body(statement.then), self.body(statement.orelse)
            return replace(statement, then=then, orelse=orelse)
        if isinstance(statement, WarpReduce):
            return self.reduced(statement)
        if isinstance(statement, FragmentMma):
            return self.multiplied(statement)
        return self.moved(statement)

    def moved(self, statement: Statement) -> Statement:
        """Return a loop over the elements of a fragment that a statement sets, reads or writes."""
        if isinstance(statement, FragmentFill):
            fragment, number = statement.fragment, statement.value
            return self.over(fragment, lambda i, j: Store(_at(fragment, i, j), "=", number))
        if isinstance(statement, FragmentLoad):
            return self.loaded(statement.fragment, statement.source, statement.turned)
        if isinstance(statement, FragmentStore):
            target, source = statement.target, statement.fragment
            return self.over(
                source, lambda i, j: Store(_beyond(target, i, j), "=", _at(source, i, j))
            )
        return statement

    def loaded(self, fragment: Ref, source: Ref, is_transposed: bool) -> Statement:
        def element(i: Affine, j: Affine) -> Statement:
            row, column = i, j
            if is_transposed:
                row, column = j, i
            return Store(_at(fragment, i, j), "=", _beyond(source, row, column))

        return self.over(fragment, element)

    def over(self, fragment: Ref, make: Callable[[Affine, Affine], Statement]) -> Statement:
        """Return the loops over the rows and columns of a fragment."""
        rows, columns = fragment.buf.shape[-2:]
        inside = make(affine(self.row), affine(self.column))
        return _loop(self.row, rows, [_loop(self.column, columns, [inside])])

    def multiplied(self, statement: FragmentMma) -> Statement:
        """Return the loops of a product of two fragments."""
        i, j, k = affine(self.row), affine(self.column), affine(self.depth)
        dtype = computed(statement.sums.dtype)
        left, right = _at(statement.left, i, k), _at(statement.right, k, j)
        product = Apply("mul", (cast(left, dtype), cast(right, dtype)), dtype)
        add = Store(_at(statement.sums, i, j), "+=", product)
        rows, depth = statement.left.buf.shape[-2:]
        columns = statement.right.buf.shape[-1]
        inside = _loop(self.column, columns, [_loop(self.depth, depth, [add])])
        return _loop(self.row, rows, [inside])

    def reduced(self, statement: WarpReduce) -> Statement:
        """Return loops in which the first thread of each group combines the values of all.

        Then it gives them the result.
        """
        ref, lanes = statement.ref, statement.lanes
        *outer, last = self.extents[ref.buf]
        above = [Index(f"{self.row.name}{k}") for k in range(len(outer))]
        group, lane = self.column, self.depth

        def element(lane: Affine) -> Ref:
            threads = (*map(affine, above), affine(group) * lanes + lane)
            return Ref(ref.buf, (*threads, *ref.subscripts))

        first, other = element(affine(0)), element(affine(lane))
        others = For(lane, affine(1), affine(lanes), (1, lanes), ())
        gather = replace(others, body=(Store(first, statement.op, other),))
        give = replace(others, body=(Store(other, "=", first),))
        loop = _loop(group, last // lanes, [gather, give])
        for index, extent in reversed(list(zip(above, outer))):
            loop = _loop(index, extent, [loop])
        return loop


def _at(fragment: Ref, row: Affine, column: Affine) -> Ref:
    """Return an element of a fragment."""
    return replace(fragment, subscripts=(*fragment.subscripts, row, column))


def _beyond(ref: Ref, row: Affine, column: Affine) -> Ref:
    """Return the element so many rows and columns after another one."""
    *outer, first, second = ref.subscripts
    return replace(ref, subscripts=(*outer, first + row, second + column))


def _loop(index: Index, extent: int, body: Sequence[Statement]) -> For:
    return For(index, affine(0), affine(extent), (0, extent), tuple(body))


def is_fragment(buf: Buf) -> bool:
    """Return whether a buffer is in the registers of a warp, for its tensor cores."""
    return buf.space in FRAGMENTS
