"""The cycles for the lines of memory that loops read and write (design §10).

A line comes from the second cache or from memory unless what was used since it came fits into a
nearer cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import For, If, Ref, Statement, Store, Transpose, value_parts
from codegen.ir.types import bytes_of
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.loop_cost.open_loops import OpenLoop, branches, walked
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine


def cache_cycles(body: Sequence[Statement], machine: CpuModel) -> float:
    """Return the cycles for lines that are not in the first cache."""
    total = 0.0
    earlier: list[_Nest] = []
    for loops, straight in _nests(body, ()):
        nest = _Nest(loops, _streams(straight, loops))
        for stream in nest.streams:
            total += _stream_cycles(stream, nest, earlier, machine)
        earlier.append(nest)
    return total


def _stream_cycles(
    stream: _Stream, nest: _Nest, earlier: Sequence[_Nest], machine: CpuModel
) -> float:
    """Return the cycles for the lines of one stream of elements.

    The loops inside of which all that is used fits into a cache fetch a line once, and so do
    the nests behind one another in such a loop.
    """
    loops, streams, total = nest.loops, nest.streams, 0.0
    for level_bytes, line in (
        (machine.level1, CPU_COSTS.level2_line),
        (machine.level2, CPU_COSTS.memory_line - CPU_COSTS.level2_line),
    ):
        depth = len(loops)
        while depth and _used_bytes(streams, depth - 1) <= level_bytes:
            if stream.kept_lines(machine, depth - 1, level_bytes):
                depth -= 1
            else:
                break
        if not depth or _is_kept(stream, nest, earlier, level_bytes):
            continue
        fetched = stream.lines(depth)
        for outer in loops[:depth]:
            fetched *= max(1.0, outer.steps)
        fetched = max(stream.lines(0), min(fetched, fetched / stream.shared(depth)))
        total += fetched * line
    return total


@dataclass(frozen=True)
class _Stream:
    """The elements that a reference walks, as steps in bytes for each loop around it.

    `name` is that of their buffer, and `number` are those that walk so, in other lines.
    """

    name: str
    element_bytes: int
    steps: tuple[tuple[float, float], ...]  # bytes and number, outer first
    number: int = 1

    def place(self, distance: float) -> int:
        """Return how many lines remain of a distance in bytes after whole steps of all loops."""
        for step, count in sorted(self.steps, reverse=True):
            if step and distance // step < count:
                distance %= step
        return int(distance // CPU_COSTS.line_bytes)

    def lines(self, depth: int) -> float:
        """Return the lines that the loops from `depth` on touch."""
        line = CPU_COSTS.line_bytes
        bytes_in_row, rows = float(self.element_bytes), 1.0
        for step, count in sorted(self.steps[depth:]):
            if not step or count <= 1:
                continue
            if step < line or step <= bytes_in_row:
                bytes_in_row += step * (count - 1)
            else:
                rows *= count
        return self.number * rows * max(1.0, bytes_in_row / line)

    def shared(self, depth: int) -> float:
        """Return how many steps of the loop around `depth` share a line."""
        if not depth:
            return 1.0
        step, count = self.steps[depth - 1]
        line = CPU_COSTS.line_bytes
        inner = self.lines(depth)
        whole = self.lines(depth - 1)
        if step and step < line and count > 1:
            return max(1.0, min(line / step, inner * count / max(1.0, whole)))
        return 1.0

    def kept_lines(self, machine: CpuModel, depth: int, level_bytes: int) -> bool:
        """Return whether the sets of a cache hold the lines of the loops from `depth` on.

        Lines that a power of 2 is apart are of few sets.
        """
        ways = max(1, machine.level1 // CPU_COSTS.page_bytes)
        way_bytes = level_bytes // ways
        for step, count in self.steps[depth:]:
            if step < CPU_COSTS.line_bytes or count <= 1:
                continue
            sets = way_bytes // gcd(int(step), way_bytes)
            if count > ways * max(1, sets):
                return False
        return True


@dataclass(frozen=True)
class _Nest:
    """Straight code as the streams that it walks, with the loops around it."""

    loops: tuple[OpenLoop, ...]
    streams: Sequence[_Stream]

    def shared_depth(self, other: _Nest) -> int:
        """Return the number of loops that are around another nest too."""
        depth = 0
        for own, others in zip(self.loops, other.loops):
            if own is not others:
                break
            depth += 1
        return depth


def _is_kept(stream: _Stream, nest: _Nest, earlier: Sequence[_Nest], level_bytes: int) -> bool:
    """Return whether a cache still holds the lines of a stream from an earlier nest.

    It does where it has room for all that is used in the loop around both, from there on.
    """
    between = [nest]
    for other in reversed(earlier):
        between.append(other)
        depth = nest.shared_depth(other)
        lines: dict[str, float] = {}
        for one in between:
            for used in one.streams:
                lines[used.name] = max(lines.get(used.name, 0.0), used.lines(depth))
        if sum(lines.values()) * CPU_COSTS.line_bytes > level_bytes:
            return False
        for used in other.streams:
            if used.name == stream.name and used.lines(depth) >= stream.lines(depth):
                return True
    return False


def _used_bytes(streams: Sequence[_Stream], depth: int) -> float:
    return sum(stream.lines(depth) for stream in streams) * CPU_COSTS.line_bytes


def _nests(
    body: Iterable[Statement], outer: tuple[OpenLoop, ...]
) -> Iterator[tuple[tuple[OpenLoop, ...], list[Statement]]]:
    """Yield the loops around straight code, with this."""
    straight: list[Statement] = []
    for statement in body:
        if isinstance(statement, For):
            loops = (*outer, walked(statement, outer))
            yield from _nests(statement.body, loops)
        elif isinstance(statement, If):
            for branch in branches(statement, outer):
                yield from _nests(branch.body, branch.loops)
        else:
            straight.append(statement)
    if straight:
        yield outer, straight


def _streams(nest: Sequence[Statement], loops: Sequence[OpenLoop]) -> list[_Stream]:
    """Return the streams of what straight code reads and writes.

    Those that begin where another one comes in later steps are one with it.
    """
    begins: dict[_Stream, set[int]] = {}
    for ref in _references(nest):
        if ref.buf.space == "global":
            begin = _element(ref.subscripts, ref.buf.shape).const
            begins.setdefault(_stream(ref, loops), set()).add(begin)
    streams = []
    for stream, places in begins.items():
        first = min(places)
        apart = {stream.place((place - first) * stream.element_bytes) for place in places}
        streams.append(replace(stream, number=len(apart)))
    return streams


def _references(nest: Sequence[Statement]) -> Iterator[Ref]:
    """Yield what straight code reads and writes."""
    for statement in nest:
        if isinstance(statement, Store):
            yield statement.ref
            for node in value_parts(statement.value):
                if isinstance(node, Ref):
                    yield node
        elif isinstance(statement, Transpose):
            yield from (statement.source, statement.target)


def _stream(ref: Ref, loops: Sequence[OpenLoop]) -> _Stream:
    size = bytes_of(ref.dtype)
    steps = []
    for loop in loops:
        step = element_step(ref, loop.index)
        if step is None:
            step = CPU_COSTS.line_bytes
        steps.append((float(abs(step) * size), loop.steps))
    return _Stream(ref.buf.name, size, tuple(steps))


@lru_cache(maxsize=1 << 14)
def _element(subscripts: tuple[Affine, ...], shape: tuple[int, ...]) -> Affine:
    """Return the element of a reference, counted as it lies in memory."""
    total = affine(0)
    for subscript, extent in zip(subscripts, shape):
        total = total * extent + subscript
    return total


def element_step(ref: Ref, index: Index) -> int | None:
    """Return how many elements on the next step of an index is; None where that varies."""
    element = _element(ref.subscripts, ref.buf.shape)
    step = 0
    for atom, factor in element.terms:
        if atom == index:
            step = factor
        elif not isinstance(atom, Index) and index in atom.argument.indices:
            return None
    return step
