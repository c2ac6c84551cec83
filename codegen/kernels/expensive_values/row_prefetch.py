"""Rows that loops go through several times: the next one is asked for in time (design §10).

A softmax or a layer norm reads each row in several loops, one after the other. Processors see runs
of lines coming, but not the row behind the last loop: its first loop would wait for memory, all
others find it in a cache. So the loop with most work asks for the lines of the next row, of what is
read and of what is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.names import unused_name, used_names
from codegen.ir.nodes import For, Function, If, Prefetch, Ref, Statement, Store, value_parts
from codegen.ir.types import bytes_of
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.expensive_values.readers import constant_steps, with_bodies
from codegen.kernels.loop_cost.cycles import store_operations
from codegen.kernels.loop_cost.lines import element_step
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

CHUNK = 128  # elements, between which lines are asked for: few are under way at a time
MIN_STEPS = 512  # of a loop, which it takes longer to divide than to wait where it is shorter
FEWEST_LOOPS = 2  # over a row


def with_row_prefetch(function: Function, target: CpuModel | None = None) -> Function:
    """Return a function that asks for the next row while it computes one.

    >>> from codegen.ir.nodes import walk
    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> f = lower("O", ea.parse("O[i,j] = A[i,j]/Sum[r](A[i,r])", A=(512, 512)))
    >>> fetched = [n.ref for n in walk(with_row_prefetch(f, CpuModel())) if isinstance(n, Prefetch)]
    >>> sorted({ref.buf.name for ref in fetched})
    ['A', 'O']
    """
    writer = _RowWriter(target or machine(), used_names(function))
    return replace(function, body=writer.statements(function.body))


@dataclass(frozen=True)
class _WalkedRow:
    """An element of a row by the index of a loop, and the steps that go through the row."""

    ref: Ref
    index: Index
    steps: range
    is_written: bool
    loops: int = 1

    @property
    def line(self) -> int:
        """Return the elements of a line of the cache."""
        return CPU_COSTS.line_bytes // bytes_of(self.ref.buf.dtype)

    def prefetches(self, outer: Index, begin: Affine, count: int) -> Iterator[Prefetch]:
        """Yield what asks for the lines of so many elements of the next row from one on."""
        for element in range(0, count, self.line):
            at = {outer: affine(outer) + 1, self.index: begin + element}
            subscripts = tuple(subscript.substitute(at) for subscript in self.ref.subscripts)
            yield Prefetch(Ref(self.ref.buf, subscripts), self.is_written)


@dataclass(frozen=True)
class _RowWriter:
    """Rewrites the loops over rows; `names` are in use."""

    target: CpuModel
    names: set[str]

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        results: list[Statement] = []
        for statement in body:
            if isinstance(statement, For) and statement.kind in ("seq", "par"):
                statement = self.over_rows(statement)
            results.append(with_bodies(statement, self.statements))
        return tuple(results)

    def over_rows(self, outer: For) -> For:
        """Return a loop over rows with prefetches, where that pays."""
        rows = list(self.rows(outer))
        hosts = [loop for loop in outer.body if isinstance(loop, For) and _can_ask(loop)]
        if outer.extent == 1 or not rows or not hosts:
            return outer
        host = max(hosts, key=_work)
        body: list[Statement] = []
        for statement in outer.body:
            if statement is host:
                body += self.asking(host, rows, outer.index)
            else:
                body.append(statement)
        return replace(outer, body=tuple(body))

    def rows(self, outer: For) -> Iterator[_WalkedRow]:
        """Yield the rows that several loops go through, and others that they write.

        None where caches hold too little of them, or all.
        """
        found: dict[tuple[str, tuple[Affine, ...]], list[_WalkedRow]] = {}
        for loop, steps in _row_loops(outer.body):
            for ref, is_written in _refs(loop):
                if ref.buf.space != "global" or element_step(ref, loop.index) != 1:
                    continue
                if element_step(ref, outer.index) in (0, None):
                    continue
                place = tuple(s.substitute({loop.index: affine(0)}) for s in ref.subscripts)
                row = _WalkedRow(ref, loop.index, steps, is_written)
                found.setdefault((ref.buf.name, place), []).append(row)
        if max(map(len, found.values()), default=0) < FEWEST_LOOPS:
            return
        rows = [_joined(passes) for passes in found.values()]
        rows = [row for row in rows if row.loops >= FEWEST_LOOPS or row.is_written]
        row_bytes = sum(len(row.steps) * bytes_of(row.ref.buf.dtype) for row in rows)
        if row_bytes > self.target.level1:
            return
        for row in rows:
            buf = row.ref.buf
            if prod(buf.shape) * bytes_of(buf.dtype) > self.target.level1:
                yield row

    def asking(self, host: For, rows: Sequence[_WalkedRow], outer: Index) -> Iterator[Statement]:
        """Yield a loop in chunks, each of which asks for as many elements of the next rows."""
        steps = constant_steps(host)
        assert steps is not None
        chunks = len(steps) // CHUNK
        name = unused_name("chunk", self.names)
        self.names.add(name)
        chunk = Index(name)
        low = affine(chunk) * CHUNK
        asked: list[Statement] = []
        last: list[Statement] = []
        for row in rows:
            asked += row.prefetches(outer, low + row.steps.start, CHUNK)
            left = len(row.steps) - chunks * CHUNK
            last += row.prefetches(outer, affine(row.steps.start + chunks * CHUNK), left)
        inside = replace(host, low=low + steps.start, high=low + steps.start + CHUNK)
        yield For(chunk, affine(0), affine(chunks), (0, chunks), (*asked, inside))
        yield from last
        rest = steps.start + chunks * CHUNK
        if rest < steps.stop:
            yield replace(host, low=affine(rest), range=(rest, steps.stop))


def _row_loops(body: Sequence[Statement]) -> Iterator[tuple[For, range]]:
    """Yield the loops in vectors over the same steps each time; of a branch, those of its test."""
    for statement in body:
        if isinstance(statement, If):
            yield from _row_loops(statement.then)
        elif isinstance(statement, For) and statement.kind == "vec":
            steps = constant_steps(statement)
            if steps is not None:
                yield statement, steps


def _can_ask(loop: For) -> bool:
    """Whether a loop is long enough, and may be divided: extremes join vectors at the end."""
    if loop.kind != "vec" or constant_steps(loop) is None:
        return False
    stores = [statement for statement in loop.body if isinstance(statement, Store)]
    if len(stores) < len(loop.body) or any(store.op in ("max", "min") for store in stores):
        return False
    return (loop.extent or 0) >= MIN_STEPS


def _work(loop: For) -> float:
    """Return the operations of a loop."""
    stores = (statement for statement in loop.body if isinstance(statement, Store))
    return (loop.extent or 0) * sum(map(store_operations, stores))


def _refs(loop: For) -> Iterator[tuple[Ref, bool]]:
    """Yield the elements that a loop reads, and those that it writes, each once."""
    seen: dict[Ref, bool] = {}
    for statement in loop.body:
        if isinstance(statement, Store):
            for part in value_parts(statement.value):
                if isinstance(part, Ref):
                    seen.setdefault(part, False)
            seen[statement.ref] = True
    yield from seen.items()


def _joined(passes: Sequence[_WalkedRow]) -> _WalkedRow:
    """Return a row by all loops that go through it."""
    start = min(row.steps.start for row in passes)
    stop = max(row.steps.stop for row in passes)
    is_written = any(row.is_written for row in passes)
    return replace(passes[0], steps=range(start, stop), is_written=is_written, loops=len(passes))
