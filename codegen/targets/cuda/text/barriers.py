"""Where the threads of a block must wait for each other (design §10).

Between two nests of thread loops the threads of a block run on by themselves. Where one nest writes
memory of the block that the other one reads or writes, there must be a barrier; also from the end
of a loop round to its beginning. Where the threads of one warp only are concerned, these wait for
each other. Of a buffer in several parts that take turns (`part[step % 2]`), different parts do not
touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from codegen.hardware.gpu import WARP_THREADS
from codegen.ir.nodes import For, FragmentStore, Function, If, Ref, Statement, Store, Sync, walk
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
        """Return whether two accesses may be to the same element."""
        return self.name == other.name and not _never_equal(self.part, other.part)

    def earlier(self, index: Index, steps: int | None) -> _Access:
        """Return the access so many steps ago; in any step before where that is None."""
        if self.part is None or index not in self.part.indices:
            return self
        if steps is None:
            return replace(self, part=None)
        return replace(self, part=self.part.substitute({index: Affine(-steps) + index}))


def _never_equal(one: Affine | None, two: Affine | None) -> bool:
    """Return whether two remainders by the same number never agree: `k % 2` and `(k + 1) % 2`."""
    first, second = _remainder(one), _remainder(two)
    if first is None or second is None or first.divisor != second.divisor:
        return False
    difference = first.argument - second.argument
    return not difference.terms and difference.const % first.divisor != 0


def _remainder(form: Affine | None) -> Modulo | None:
    """Return an index expression as a remainder; None where it is another one."""
    if form is None:
        return None
    atom = form.as_atom()
    if isinstance(atom, Modulo):
        return atom
    return None


@dataclass(frozen=True)
class _Footprint:
    """The reads and writes of threads since the last barrier."""

    reads: frozenset[_Access] = frozenset()
    writes: frozenset[_Access] = frozenset()

    def __or__(self, other: _Footprint) -> _Footprint:
        return _Footprint(self.reads | other.reads, self.writes | other.writes)

    def __le__(self, other: _Footprint) -> bool:
        return self.reads <= other.reads and self.writes <= other.writes

    def waiting_threads(self, after: _Footprint) -> int:
        """Return how many threads must wait before what comes after; 0 where none does."""
        read_first = _clashing_threads(self.reads, after.writes)
        written_first = _clashing_threads(self.writes, after.reads | after.writes)
        return max(read_first, written_first)

    def without_warp(self) -> _Footprint:
        """Return what is still open after the threads of the first warp waited for each other."""
        return _Footprint(_of_several_warps(self.reads), _of_several_warps(self.writes))

    def earlier(self, index: Index, steps: int | None) -> _Footprint:
        """Return the footprint so many steps of a loop ago, as `_Access.earlier` does."""
        return _Footprint(
            frozenset(a.earlier(index, steps) for a in self.reads),
            frozenset(a.earlier(index, steps) for a in self.writes),
        )


def _clashing_threads(before: Iterable[_Access], after: Iterable[_Access]) -> int:
    """Return the most threads of two accesses that clash; 0 where none do."""
    threads = 0
    for one in before:
        for two in after:
            if one.clashes(two):
                threads = max(threads, one.threads, two.threads)
    return threads


def _of_several_warps(accesses: Iterable[_Access]) -> frozenset[_Access]:
    return frozenset(access for access in accesses if access.threads > WARP_THREADS)


NOTHING = _Footprint()


def nest_extents(loop: For) -> tuple[int, ...]:
    """Return the extents of a loop of threads or warps and of those directly inside it."""
    extents: list[int] = []
    kind, inner = loop.kind, loop
    while True:
        if inner.extent is None:
            raise CodegenError(f"the number of threads {inner.index} depends on outer loops")
        extents.append(inner.extent)
        if len(inner.body) != 1:
            return tuple(extents)
        following = inner.body[0]
        if not isinstance(following, For) or following.kind != kind:
            return tuple(extents)
        inner = following


def nest_threads(loop: For) -> int:
    """Return the number of threads that a nest of loops takes."""
    steps = prod(nest_extents(loop))
    if loop.kind == "warp":
        return steps * WARP_THREADS
    return steps


def with_barriers(function: Function, repeated: frozenset[str] = frozenset()) -> Function:
    """Return the function with every barrier that it needs.

    `repeated` are the names of the block loops of which one block runs several steps.

    >>> from codegen.ir.nodes import Buf
    >>> from einalg.language.index.convert import affine
    >>> t, part, out = Index("t"), Buf("part", (64,), "f32", "shared"), Buf("O", (64,), "f32")
    >>> def threads(target, source):
    ...     body = (Store(target, "=", source),)
    ...     return For(t, affine(0), affine(64), (0, 64), body, "thread")
    >>> one, other = Ref(part, (affine(t),)), Ref(part, (affine(63) - t,))
    >>> nests = (threads(one, one), threads(Ref(out, (affine(t),)), other))
    >>> [type(s).__name__ for s in with_barriers(Function("O", (), out, nests)).body]
    ['For', 'Sync', 'For']
    """
    return replace(function, body=_Inference(function, repeated).body(function.body, NOTHING)[0])


@dataclass(frozen=True)
class _Inference:
    """Goes through the statements of a function in the order in which a block runs them."""

    function: Function
    repeated: frozenset[str]

    def body(
        self, body: Sequence[Statement], before: _Footprint
    ) -> tuple[tuple[Statement, ...], _Footprint]:
        """Return statements with their barriers, and what is still open after them."""
        statements: list[Statement] = []
        for statement in body:
            barriers, statement, before = self.statement(statement, before)
            statements += [*barriers, statement]
        return tuple(statements), before

    def statement(
        self, statement: Statement, before: _Footprint
    ) -> tuple[tuple[Sync, ...], Statement, _Footprint]:
        """Return the barriers before a statement, the statement, and what is open after it."""
        if isinstance(statement, For) and statement.kind in THREADED:
            touched = self.touched(statement)
            barriers, before = _with_barrier(before, touched)
            return barriers, statement, before | touched
        if isinstance(statement, For):
            return (), *self.loop(statement, before)
        if isinstance(statement, If):
            then, after_then = self.body(statement.then, before)
            orelse, after_orelse = self.body(statement.orelse, before)
            return (), replace(statement, then=then, orelse=orelse), after_then | after_orelse
        return (), statement, before

    def loop(self, loop: For, before: _Footprint) -> tuple[Statement, _Footprint]:
        """Return a loop: each step comes after what is before it, and after earlier steps."""
        body, after = self.body(loop.body, before)
        if not self.runs_once(loop):
            assumed, needed = before, before | _open_after_step(loop.index, body, after)
            while not needed <= assumed:
                assumed = assumed | needed
                body, after = self.body(loop.body, assumed)
                needed = before | _open_after_step(loop.index, body, after)
        after = after.earlier(loop.index, None)
        if loop.extent is None or loop.extent <= 0:
            after = before | after
        return replace(loop, body=body), after

    def runs_once(self, loop: For) -> bool:
        """Return whether a block runs one step of a loop only."""
        if loop.extent == 1:
            return True
        return loop.kind == "block" and loop.index.name not in self.repeated

    def touched(self, nest: For) -> _Footprint:
        """Return what a nest of thread loops reads and writes in memory that threads share."""
        threads = nest_threads(nest)
        reads: set[_Access] = set()
        writes: set[_Access] = set()
        for node in walk(nest):
            if isinstance(node, Ref) and self.is_shared(node):
                reads.add(_access(node, threads))
            elif isinstance(node, Store) and self.is_shared(node.ref):
                writes.add(_access(node.ref, threads))
            elif isinstance(node, FragmentStore) and self.is_shared(node.target):
                writes.add(_access(node.target, threads))
        return _Footprint(frozenset(reads), frozenset(writes))

    def is_shared(self, ref: Ref) -> bool:
        """Return whether other threads read or write a buffer, too."""
        return ref.buf.space == "shared" or ref.buf.name == self.function.output.name


def _open_after_step(index: Index, body: Sequence[Statement], after: _Footprint) -> _Footprint:
    """Return what earlier steps leave open: only the last one, where each waits somewhere."""
    steps = None
    if Sync() in body:
        steps = 1
    return after.earlier(index, steps)


def _access(ref: Ref, threads: int) -> _Access:
    """Return the access to an element: of one part, where a remainder says which."""
    part = None
    if ref.subscripts and _remainder(ref.subscripts[0]) is not None:
        part = ref.subscripts[0]
    return _Access(ref.buf.name, threads, part)


def _with_barrier(before: _Footprint, touched: _Footprint) -> tuple[tuple[Sync, ...], _Footprint]:
    """Return the barrier in front of a nest, and what is still open after it."""
    threads = before.waiting_threads(touched)
    if threads <= 1:  # the first thread does both
        return (), before
    if threads > WARP_THREADS:
        return (Sync(),), NOTHING
    return (Sync("warp"),), before.without_warp()
