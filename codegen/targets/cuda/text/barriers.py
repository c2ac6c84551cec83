"""Where the threads of a block must wait for each other (design §10).

Between two nests of thread loops the threads of a block run on by themselves. Where one nest writes memory of the block that the
other one reads or writes, there must be a barrier; also from the end of a loop round to its beginning. Where the threads of one warp
only are concerned, these wait for each other. Of a buffer in several parts that take turns (`part[step % 2]`), different parts do
not touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from codegen.ir.nodes import For, FragmentStore, Function, If, Ref, Statement, Store, Sync, walk
from codegen.targets.cuda.launch import WARP_THREADS
from einalg.errors import CodegenError
from einalg.language.index.affine import Affine, Index, Modulo

THREADED = ("thread", "warp")  # loops whose steps threads take


@dataclass(frozen=True)
class _Access:
    """A buffer that so many threads read or write, or the part of it that `part` says."""

    name: str
    threads: int
    part: Affine | None = None

    def clashes(self, other: _Access) -> bool:
        return self.name == other.name and not _are_apart(self.part, other.part)

    def earlier(self, index: Index, steps: int | None) -> _Access:
        """The same access so many steps ago; in any step before where that is None."""
        if self.part is None or index not in self.part.indices:
            return self
        return replace(
            self,
            part=None if steps is None else self.part.substitute({index: Affine(-steps) + index}),
        )


def _are_apart(one: Affine | None, two: Affine | None) -> bool:
    """Whether two remainders by the same number never agree."""
    first, second = (form.as_atom() if form is not None else None for form in (one, two))
    if (
        not (isinstance(first, Modulo) and isinstance(second, Modulo))
        or first.divisor != second.divisor
    ):
        return False
    apart = first.argument - second.argument
    return not apart.terms and apart.const % first.divisor != 0


@dataclass(frozen=True)
class _Footprint:
    """What threads read and write since the last barrier."""

    reads: frozenset[_Access] = frozenset()
    writes: frozenset[_Access] = frozenset()

    def __or__(self, other: _Footprint) -> _Footprint:
        return _Footprint(self.reads | other.reads, self.writes | other.writes)

    def __le__(self, other: _Footprint) -> bool:
        return self.reads <= other.reads and self.writes <= other.writes

    def clashes(self, after: _Footprint) -> Iterator[int]:
        """The number of threads on each side of an access that must wait for an earlier one."""
        for first, second in (
            (self.reads, after.writes),
            (self.writes, after.reads | after.writes),
        ):
            for one in first:
                yield from (max(one.threads, two.threads) for two in second if one.clashes(two))

    def without_warp(self) -> _Footprint:
        """What is still open after the threads of the first warp waited for each other."""
        return _Footprint(
            frozenset(a for a in self.reads if a.threads > WARP_THREADS),
            frozenset(a for a in self.writes if a.threads > WARP_THREADS),
        )

    def earlier(self, index: Index, steps: int | None) -> _Footprint:
        return _Footprint(
            frozenset(a.earlier(index, steps) for a in self.reads),
            frozenset(a.earlier(index, steps) for a in self.writes),
        )


NOTHING = _Footprint()


def nest_extents(loop: For) -> tuple[int, ...]:
    """The extents of a loop of threads or warps and those of its kind directly inside it, outer first."""
    extent = loop.extent
    if extent is None:
        raise CodegenError(f"the number of threads {loop.index} depends on outer loops")
    inner = loop.body[0] if len(loop.body) == 1 else None
    return (
        extent,
        *(nest_extents(inner) if isinstance(inner, For) and inner.kind == loop.kind else ()),
    )


def nest_threads(loop: For) -> int:
    """The threads that a nest of loops takes."""
    return prod(nest_extents(loop)) * (WARP_THREADS if loop.kind == "warp" else 1)


def with_barriers(function: Function, repeated: frozenset[str] = frozenset()) -> Function:
    """The function with every barrier that it needs; `repeated` are the block loops that one block runs several steps of.

    >>> from codegen.ir.nodes import Buf
    >>> from einalg.language.index.affine import Index, affine
    >>> t, part, out = Index("t"), Buf("part", (64,), "f32", "shared"), Buf("O", (64,), "f32")
    >>> write = For(t, affine(0), affine(64), (0, 64), (Store(Ref(part, (affine(t),)), "=", Ref(part, (affine(t),))),), "thread")
    >>> read = For(t, affine(0), affine(64), (0, 64), (Store(Ref(out, (affine(t),)), "=", Ref(part, (affine(63) - t,))),), "thread")
    >>> [type(s).__name__ for s in with_barriers(Function("O", (), out, (write, read))).body]
    ['For', 'Sync', 'For']
    """
    return replace(function, body=_Inference(function, repeated).body(function.body, NOTHING)[0])


@dataclass
class _Inference:
    function: Function
    repeated: frozenset[str]

    def body(
        self, body: Sequence[Statement], before: _Footprint
    ) -> tuple[tuple[Statement, ...], _Footprint]:
        """Statements with their barriers, and what is still open after them."""
        out: list[Statement] = []
        for statement in body:
            done, sync, before = self.statement(statement, before)
            out += [*sync, done]
        return tuple(out), before

    def statement(
        self, statement: Statement, before: _Footprint
    ) -> tuple[Statement, tuple[Sync, ...], _Footprint]:
        if isinstance(statement, For) and statement.kind in THREADED:
            touched = self.touched(statement)
            sync, before = _with_barrier(before, touched)
            return statement, sync, before | touched
        if isinstance(statement, For):
            return self.loop(statement, before)
        if isinstance(statement, If):
            then, one = self.body(statement.then, before)
            orelse, two = self.body(statement.orelse, before)
            return replace(statement, then=then, orelse=orelse), (), one | two
        return statement, (), before

    def loop(self, loop: For, before: _Footprint) -> tuple[Statement, tuple[Sync, ...], _Footprint]:
        """A loop: each step comes after what is before it, and after any step that was earlier."""
        body, after = self.body(loop.body, before)
        once = loop.extent == 1 or (loop.kind == "block" and loop.index.name not in self.repeated)
        assumed = before
        while (
            not once
            and not (needed := before | self.step_before(loop.index, body, after)) <= assumed
        ):
            assumed = assumed | needed
            body, after = self.body(loop.body, assumed)
        after = after.earlier(loop.index, None)
        runs = loop.extent is not None and loop.extent > 0
        return replace(loop, body=body), (), after if runs else before | after

    def step_before(self, index: Index, body: Sequence[Statement], after: _Footprint) -> _Footprint:
        """What the steps before leave open: only the last one, where each waits somewhere."""
        return after.earlier(index, 1 if Sync() in body else None)

    def touched(self, nest: For) -> _Footprint:
        """What a nest of thread loops reads and writes in memory that other threads read or write too."""
        threads = nest_threads(nest)
        puts = [
            node.ref if isinstance(node, Store) else node.target
            for node in walk(nest)
            if isinstance(node, (Store, FragmentStore))
        ]
        written = {ref for ref in puts if self.is_common(ref)}
        read = {node for node in walk(nest) if isinstance(node, Ref) and self.is_common(node)}
        return _Footprint(
            frozenset(_access(ref, threads) for ref in read),
            frozenset(_access(ref, threads) for ref in written),
        )

    def is_common(self, ref: Ref) -> bool:
        return ref.buf.space == "shared" or ref.buf.name == self.function.output.name


def _access(ref: Ref, threads: int) -> _Access:
    first = ref.subscripts[0] if ref.subscripts else None
    return _Access(
        ref.buf.name,
        threads,
        first if first is not None and isinstance(first.as_atom(), Modulo) else None,
    )


def _with_barrier(before: _Footprint, touched: _Footprint) -> tuple[tuple[Sync, ...], _Footprint]:
    """The barrier in front of a nest, and what is still open after it."""
    threads = max(before.clashes(touched), default=0)
    if threads <= 1:  # the first thread does both
        return (), before
    return (
        ((Sync(),), NOTHING) if threads > WARP_THREADS else ((Sync("warp"),), before.without_warp())
    )
