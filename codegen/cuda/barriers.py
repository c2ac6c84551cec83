"""Where the threads of a block must wait for each other (design §10).

Between two nests of thread loops the threads of a block run on by themselves. Where one nest writes memory of the block that the
other one reads or writes, there must be a barrier; also from the end of a loop round to its beginning. Where the threads of one warp
only are concerned, these wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from codegen.ir import For, Function, If, Put, Ref, Statement, Sync, walk
from einalg.errors import CodegenError

WARP = 32


@dataclass(frozen=True)
class _Touched:
    """The buffers that threads read and write, each with how many threads do, since the last barrier."""

    reads: frozenset[tuple[str, int]] = frozenset()
    writes: frozenset[tuple[str, int]] = frozenset()

    def __or__(self, other: _Touched) -> _Touched:
        return _Touched(self.reads | other.reads, self.writes | other.writes)

    def clashes(self, after: _Touched) -> Iterator[int]:
        """The number of threads on each side of an access that must wait for an earlier one."""
        for first, second in ((self.reads, after.writes), (self.writes, after.reads | after.writes)):
            for name, threads in first:
                yield from (max(threads, others) for other, others in second if other == name)

    def without_warp(self) -> _Touched:
        """What is still open after the threads of the first warp waited for each other."""
        return _Touched(frozenset(t for t in self.reads if t[1] > WARP), frozenset(t for t in self.writes if t[1] > WARP))


NOTHING = _Touched()


def nest_extents(loop: For) -> tuple[int, ...]:
    """The extents of a thread loop and the thread loops directly inside it, outer first."""
    extent = loop.extent
    if extent is None:
        raise CodegenError(f"the number of threads {loop.index} depends on outer loops")
    inner = loop.body[0] if len(loop.body) == 1 else None
    return (extent, *(nest_extents(inner) if isinstance(inner, For) and inner.kind == "thread" else ()))


def with_barriers(function: Function, repeated: frozenset[str] = frozenset()) -> Function:
    """The function with every barrier that it needs; `repeated` are the block loops that one block runs several steps of.

    >>> from codegen.ir import Buf
    >>> from einalg.affine import Index, affine
    >>> t, part, out = Index("t"), Buf("part", (64,), "f32", "shared"), Buf("O", (64,), "f32")
    >>> write = For(t, affine(0), affine(64), (0, 64), (Put(Ref(part, (affine(t),)), "=", Ref(part, (affine(t),))),), "thread")
    >>> read = For(t, affine(0), affine(64), (0, 64), (Put(Ref(out, (affine(t),)), "=", Ref(part, (affine(63) - t,))),), "thread")
    >>> [type(s).__name__ for s in with_barriers(Function("O", (), out, (write, read))).body]
    ['For', 'Sync', 'For']
    """
    return replace(function, body=_Inference(function, repeated).body(function.body, NOTHING)[0])


@dataclass
class _Inference:
    function: Function
    repeated: frozenset[str]

    def body(self, body: Sequence[Statement], before: _Touched) -> tuple[tuple[Statement, ...], _Touched]:
        """Statements with their barriers, and what is still open after them."""
        out: list[Statement] = []
        for statement in body:
            done, sync, before = self.statement(statement, before)
            out += [*sync, done]
        return tuple(out), before

    def statement(self, statement: Statement, before: _Touched) -> tuple[Statement, tuple[Sync, ...], _Touched]:
        if isinstance(statement, For) and statement.kind == "thread":
            touched = self.touched(statement)
            sync, before = _waited(before, touched)
            return statement, sync, before | touched
        if isinstance(statement, For):
            return self.loop(statement, before)
        if isinstance(statement, If):
            then, one = self.body(statement.then, before)
            orelse, two = self.body(statement.orelse, before)
            return replace(statement, then=then, orelse=orelse), (), one | two
        return statement, (), before

    def loop(self, loop: For, before: _Touched) -> tuple[Statement, tuple[Sync, ...], _Touched]:
        body, after = self.body(loop.body, before)
        if loop.extent == 1 or (loop.kind == "block" and loop.index.name not in self.repeated):
            return replace(loop, body=body), (), after
        again, _ = self.body(loop.body, after)
        if len(_barriers(again)) > len(_barriers(body)):
            body, after = (*body, Sync()), NOTHING
        runs = loop.extent is not None and loop.extent > 0
        return replace(loop, body=body), (), after if runs else before | after

    def touched(self, nest: For) -> _Touched:
        """What a nest of thread loops reads and writes in memory that other threads read or write too."""
        threads = prod(nest_extents(nest))
        puts = [node.ref for node in walk(nest) if isinstance(node, Put)]
        written = {ref.buf.name for ref in puts if self.is_common(ref)}
        read = {node.buf.name for node in walk(nest) if isinstance(node, Ref) and self.is_common(node)}
        return _Touched(frozenset((name, threads) for name in read), frozenset((name, threads) for name in written))

    def is_common(self, ref: Ref) -> bool:
        return ref.buf.space == "shared" or ref.buf.name == self.function.output.name


def _waited(before: _Touched, touched: _Touched) -> tuple[tuple[Sync, ...], _Touched]:
    """The barrier in front of a nest, and what is still open after it."""
    threads = max(before.clashes(touched), default=0)
    if threads <= 1:  # the first thread does both
        return (), before
    return ((Sync(),), NOTHING) if threads > WARP else ((Sync("warp"),), before.without_warp())


def _barriers(body: Sequence[Statement]) -> list[Sync]:
    return [node for statement in body for node in walk(statement) if isinstance(node, Sync)]
