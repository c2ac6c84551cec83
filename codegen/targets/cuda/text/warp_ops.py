"""What the threads of a warp do together, written out as loops for a printer that knows no threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from codegen.ir.scalar import cast, computed
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import fresh_index

FRAGMENTS = ("matrix_a", "matrix_b", "accumulator")
PRIVATE = ("reg", "local", *FRAGMENTS)  # to a thread, or to a warp


def without_warp_operations(
    body: Sequence[Statement], extents: Mapping[Buf, tuple[int, ...]]
) -> tuple[Statement, ...]:
    """Statements without `WarpReduce` and fragments; `extents` are those of the threads that have each private buffer."""
    taken = {
        node.index: node.range
        for statement in body
        for node in walk(statement)
        if isinstance(node, For)
    }
    return tuple(part for statement in body for part in _Plain(taken, extents).statement(statement))


class _Plain:
    def __init__(
        self, taken: Mapping[Index, tuple[int, int]], extents: Mapping[Buf, tuple[int, ...]]
    ):
        self.extents = extents
        self.indices = [fresh_index(name, taken) for name in ("row", "column", "depth", "other")]

    def statement(self, statement: Statement) -> list[Statement]:
        if isinstance(statement, For):
            return [replace(statement, body=self.body(statement.body))]
        if isinstance(statement, If):
            return [
                replace(
                    statement, then=self.body(statement.then), orelse=self.body(statement.orelse)
                )
            ]
        if isinstance(statement, WarpReduce):
            return self.combined(statement)
        if isinstance(statement, FragmentFill):
            return self.over(
                statement.fragment.buf.shape[-2:],
                lambda i, j: Store(_at(statement.fragment, i, j), "=", statement.value),
            )
        if isinstance(statement, FragmentLoad):
            target, source = statement.fragment, statement.source
            return self.over(
                target.buf.shape[-2:],
                lambda i, j: Store(
                    _at(target, i, j),
                    "=",
                    _beyond(source, *((j, i) if statement.turned else (i, j))),
                ),
            )
        if isinstance(statement, FragmentStore):
            target, source = statement.target, statement.fragment
            return self.over(
                source.buf.shape[-2:],
                lambda i, j: Store(_beyond(target, i, j), "=", _at(source, i, j)),
            )
        return self.multiplied(statement) if isinstance(statement, FragmentMma) else [statement]

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(part for statement in body for part in self.statement(statement))

    def over(
        self, shape: Sequence[int], make: Callable[[Affine, Affine], Statement]
    ) -> list[Statement]:
        i, j = self.indices[:2]
        return [_loop(i, shape[0], [_loop(j, shape[1], [make(affine(i), affine(j))])])]

    def multiplied(self, statement: FragmentMma) -> list[Statement]:
        i, j, k = self.indices[:3]
        dtype = computed(statement.sums.dtype)
        factors = (
            _at(statement.left, affine(i), affine(k)),
            _at(statement.right, affine(k), affine(j)),
        )
        product = Apply("mul", tuple(cast(factor, dtype) for factor in factors), dtype)
        add = Store(_at(statement.sums, affine(i), affine(j)), "+=", product)
        rows, depth = statement.left.buf.shape[-2:]
        return [_loop(i, rows, [_loop(j, statement.right.buf.shape[-1], [_loop(k, depth, [add])])])]

    def combined(self, statement: WarpReduce) -> list[Statement]:
        """The first of each group of threads gathers the values of the others, and gives them the result."""
        ref, lanes = statement.ref, statement.lanes
        *outer, last = self.extents[ref.buf]
        above = [Index(f"{self.indices[0].name}{k}") for k in range(len(outer))]
        group, lane = self.indices[1:3]

        def element(lane: Affine) -> Ref:
            return Ref(
                ref.buf, (*map(affine, above), affine(group) * lanes + lane, *ref.subscripts)
            )

        first, other = element(affine(0)), element(affine(lane))
        gather = For(
            lane, affine(1), affine(lanes), (1, lanes), (Store(first, statement.op, other),)
        )
        give = For(lane, affine(1), affine(lanes), (1, lanes), (Store(other, "=", first),))
        found: Statement = _loop(group, last // lanes, [gather, give])
        for index, extent in reversed(list(zip(above, outer))):
            found = _loop(index, extent, [found])
        return [found]


def _at(fragment: Ref, row: Affine, column: Affine) -> Ref:
    """An element of a fragment."""
    return replace(fragment, subscripts=(*fragment.subscripts, row, column))


def _beyond(ref: Ref, row: Affine, column: Affine) -> Ref:
    """The element so many rows and columns after another one."""
    *outer, first, second = ref.subscripts
    return replace(ref, subscripts=(*outer, first + row, second + column))


def _loop(index: Index, extent: int, body: Sequence[Statement]) -> For:
    return For(index, affine(0), affine(extent), (0, extent), tuple(body))


def is_fragment(buf: Buf) -> bool:
    """Whether a buffer is in the registers of a warp, for its tensor cores."""
    return buf.space in FRAGMENTS
