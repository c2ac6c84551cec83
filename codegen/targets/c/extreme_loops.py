"""Loops that take a maximum or minimum as C, which is NaN where some element is (design §10).

A comparison passes over a NaN. So a loop has variables of its own: extremes of its elements, which
are never NaN, and one that a NaN among these turns into NaN; behind the loop they are joined. The
compiler knows each of them as a reduction of vectors, and no test for NaN is between a step and the
next one. Where a loop does nothing else, a step takes two elements: see `codegen.ir.extremes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from codegen.ir.extremes import EXTREMES, PairLoop, Span, loop_over_pairs
from codegen.ir.nodes import Buf, For, Ref, Store, Value
from codegen.ir.types import computed
from codegen.targets.c.expressions import BOUNDS
from codegen.targets.c.literals import literal
from einalg.language.index.affine import Index
from einalg.language.ir.dtypes import is_float

NEUTRAL = {"max": -inf, "min": inf}


class LoopPrinter(Protocol):
    """The part of the printer of loops that those of extremes need."""

    types: Mapping[str, str]
    index: str
    ranges: dict[Index, tuple[int, int]]

    def bound(self, bound: Any) -> str: ...
    def index_call(self, name: str) -> str: ...
    def names(self, kind: str, name: str) -> str: ...
    def line(self, text: str) -> None: ...
    def braces(self, head: str = "") -> AbstractContextManager[None]: ...
    def ref(self, ref: Ref) -> str: ...
    def operand(self, value: Value, dtype: str) -> str: ...
    def call(self, name: str, dtype: str) -> str: ...
    def largest(self, op: str, texts: Sequence[str], dtype: str) -> str: ...
    def loop_head(self, loop: For) -> str: ...
    def counting_loop(self, loop: For) -> None: ...
    def index_range(self, loop: For) -> AbstractContextManager[None]: ...
    def vector_pragma(self, loop: For) -> str: ...


@dataclass(frozen=True)
class _Part:
    """The variables of a loop for an extreme: those of its numbers, and one for a NaN."""

    op: str
    dtype: str
    numbers: tuple[str, ...]
    nan: str

    def clauses(self) -> str:
        """Return the reductions of OpenMP. A sum with a NaN is NaN, too."""
        return f"reduction({self.op}:{', '.join(self.numbers)}) reduction(+:{self.nan})"


class ExtremeLoops:
    """Prints loops that take extremes of floats in registers."""

    def __init__(self, loops: LoopPrinter):
        self.loops = loops
        self.parts: dict[Buf, _Part] = {}

    def loop(self, loop: For, registers: Mapping[Buf, str]) -> None:
        """Print a loop over steps in vectors; `registers` are those of the extremes, each with
        `max` or `min`.
        """
        loops = self.loops
        pairs = loop_over_pairs(loop, loops.ranges)
        count = 1
        if pairs is not None:
            count = len(pairs.values)
        with loops.braces():
            for buf, op in registers.items():
                self.parts[buf] = self._declared(buf, op, count)
            if pairs is not None and pairs.span is not None:
                self._declare_span(pairs.span, loop)
            loops.line(loops.vector_pragma(loop))
            if pairs is None:
                loops.counting_loop(loop)
            else:
                self._over_pairs(pairs)
            for buf in registers:
                self._join(self.parts.pop(buf), loops.ref(Ref(buf, ())))

    def _declared(self, buf: Buf, op: str, count: int) -> _Part:
        """Declare the variables of an extreme, `largest_1`, …, which change nothing at first."""
        names, dtype = self.loops.names, computed(buf.dtype)
        numbers = tuple(names("part", f"{buf.name}_{k}") for k in range(1, count + 1))
        part = _Part(op, dtype, numbers, names("part", f"{buf.name}_nan"))
        neutral = literal(NEUTRAL[op], dtype)
        declared = ", ".join(f"{name} = {neutral}" for name in (*numbers, part.nan))
        self.loops.line(f"{self.loops.types[dtype]} {declared};")
        return part

    def _join(self, part: _Part, name: str) -> None:
        """Add the variables of a loop to the extreme that they are of."""
        bound = self.loops.call(BOUNDS[part.op], part.dtype)
        number, *others = part.numbers
        for other in others:
            number = f"{bound}({other}, {number})"
        joined = self.loops.largest(part.op, [name, number, part.nan], part.dtype)
        self.loops.line(f"{name} = {joined};")

    def put(self, store: Store) -> None:
        """Print what a step does with one element."""
        part = self.parts[store.ref.buf]
        with self.loops.braces():
            self._elements(part, [store.value])

    def _declare_span(self, span: Span, loop: For) -> None:
        """Declare the bounds of a loop over pairs.

        They are half of the elements apart, up to whole vectors, where there are so many elements.
        """
        loops, pair = self.loops, 2 * span.width
        indices = (span.first, span.count, span.end, span.apart)
        first, count, end, apart = (loops.names("index", index.name) for index in indices)
        half = f"({count} + {pair - 1}) / {pair} * {span.width}"
        lines = (
            f"{first} = {loops.bound(loop.low)}, {count} = {loops.bound(loop.high)} - {first}",
            f"{end} = {first} + {loops.index_call('index_min')}({half}, {count})",
            f"{apart} = {first} + {count} - {end}",
        )
        for line in lines:
            loops.line(f"const {loops.index} {line};")
        loops.ranges[span.apart] = (0, loop.range[1] - loop.range[0])

    def _over_pairs(self, pairs: PairLoop) -> None:
        """Print a loop that takes two elements in a step."""
        loops, part = self.loops, self.parts[pairs.store.ref.buf]
        with loops.index_range(pairs.loop), loops.braces(loops.loop_head(pairs.loop)):
            self._elements(part, pairs.values)

    def _elements(self, part: _Part, values: Sequence[Value]) -> None:
        """Print what a step does with an element for each variable."""
        loops, c = self.loops, self.loops.types[part.dtype]
        elements: list[str] = []
        for value in values:
            elements.append(loops.names("part", f"element_{len(elements) + 1}"))
            loops.line(f"const {c} {elements[-1]} = {loops.operand(value, part.dtype)};")
        bound = loops.call(BOUNDS[part.op], part.dtype)
        for number, element in zip(part.numbers, elements):
            loops.line(f"{number} = {bound}({element}, {number});")
        test = f"isunordered({elements[0]}, {elements[-1]})"
        loops.line(f"{part.nan} = {test} ? NAN : {part.nan};")


def float_extremes(registers: Mapping[Buf, str]) -> dict[Buf, str]:
    """Return the registers of floats to which extremes are added.

    >>> float_extremes({Buf("m", (), "f32", "reg"): "max", Buf("n", (), "i64", "reg"): "min"})
    {Buf(name='m', shape=(), dtype='f32', space='reg'): 'max'}
    """
    extremes: dict[Buf, str] = {}
    for buf, op in registers.items():
        if op in EXTREMES and is_float(computed(buf.dtype)):
            extremes[buf] = op
    return extremes
