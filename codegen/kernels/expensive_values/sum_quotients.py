"""Quotients by a sum that a loop does not change, as products with its reciprocal (design §10).

A softmax divides each element of a row by the sum of all, which takes a core as long as several
products. The sum is rounded itself, so that its reciprocal, which is rounded once more, deviates
hardly more. Where that is no normal float, a loop behind a test divides. Quotients of which a
function is taken that may have steps, as `floor`, stay: those that are whole numbers are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from codegen.ir.names import unused_name, used_names
from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    Function,
    If,
    Number,
    Ref,
    Statement,
    Store,
    Value,
    walk,
)
from codegen.ir.scalars.elements import LANEWISE
from codegen.kernels.expensive_values.readers import changed_names, with_bodies

SMOOTH = LANEWISE | {"div"}  # of which small deviations have small effects
MIN_STEPS = 64  # of a loop, from which on a second one is worth its code
# Beyond these, a reciprocal or what it is of is no normal float.
NORMAL = {
    "f32": (Fraction(1, 1 << 125), Fraction(1 << 125)),
    "f64": (Fraction(1, 1 << 1021), Fraction(1 << 1021)),
}


def with_sum_reciprocals(function: Function) -> Function:
    """Return a function whose loops multiply by reciprocals of sums.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> f = lower("O", ea.parse("O[i,j] = A[i,j]/Sum[r](A[i,r])", A=(8, 128)))
    >>> (rows,) = with_sum_reciprocals(f).body
    >>> [type(statement).__name__ for statement in rows.body[-3:]]
    ['Alloc', 'Store', 'If']
    """
    sums: set[Buf] = set()
    for node in walk(function):
        if isinstance(node, Store) and node.op == "+=" and node.ref.buf.space == "reg":
            sums.add(node.ref.buf)
    if not sums:
        return function
    writer = _ReciprocalWriter(sums, used_names(function))
    return replace(function, body=writer.statements(function.body))


@dataclass(frozen=True)
class _ReciprocalWriter:
    """Rewrites statements; `sums` are the registers to which loops add."""

    sums: set[Buf]
    names: set[str]

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        results: list[Statement] = []
        for statement in body:
            inside = with_bodies(statement, self.statements)
            divisor = None
            if isinstance(inside, For):
                divisor = self.divisor(inside)
            if isinstance(inside, For) and divisor is not None:
                inside = self.tested(inside, divisor, results)
            results.append(inside)
        return tuple(results)

    def divisor(self, loop: For) -> Ref | None:
        """Return the sum by which a loop divides, the first one of several; None without any."""
        if loop.kind != "vec" or (loop.extent or 0) < MIN_STEPS:
            return None
        found: dict[Ref, None] = {}
        changed = changed_names(loop)
        for statement in loop.body:
            if not isinstance(statement, Store):
                return None
            for part in _smooth_parts(statement.value):
                divisor = _divisor(part)
                if divisor is not None and divisor.buf in self.sums:
                    found[divisor] = None
        return next((divisor for divisor in found if divisor.buf.name not in changed), None)

    def tested(self, loop: For, divisor: Ref, results: list[Statement]) -> If:
        """Return a loop with a reciprocal, where that is a normal float, else the loop itself."""
        name = unused_name("reciprocal", self.names)
        self.names.add(name)
        dtype = divisor.dtype
        reciprocal = Ref(Buf(name, (), dtype, "reg"), ())
        quotient = Apply("div", (Number(1, dtype), divisor), dtype)
        results += [Alloc(reciprocal.buf), Store(reciprocal, "=", quotient)]
        body: list[Statement] = []
        for statement in loop.body:
            assert isinstance(statement, Store)
            value = _multiplied(statement.value, divisor, reciprocal)
            body.append(replace(statement, value=value))
        return If(_is_normal(divisor), (replace(loop, body=tuple(body)),), (loop,))


def _smooth_parts(value: Value) -> Iterator[Apply]:
    """Yield the operations that a value is made of by smooth ones alone."""
    if isinstance(value, Apply) and value.op in SMOOTH:
        yield value
        for part in value.arguments:
            yield from _smooth_parts(part)


def _divisor(value: Apply) -> Ref | None:
    """Return the number by which a value is a quotient."""
    if value.op == "div" and value.dtype in NORMAL:
        divisor = value.arguments[1]
        if isinstance(divisor, Ref) and divisor.dtype == value.dtype:
            return divisor
    return None


def _multiplied(value: Value, divisor: Ref, reciprocal: Ref) -> Value:
    """Return a value with products in the place of quotients by a number."""
    if not isinstance(value, Apply) or value.op not in SMOOTH:
        return value
    parts = [_multiplied(part, divisor, reciprocal) for part in value.arguments]
    if _divisor(value) == divisor:
        return Apply("mul", (parts[0], reciprocal), value.dtype)
    return replace(value, arguments=tuple(parts))


def _is_normal(number: Ref) -> Apply:
    """Return whether a number and its reciprocal are normal floats."""
    low, high = (Number(bound, number.dtype) for bound in NORMAL[number.dtype])
    size = Apply("abs", (number,), number.dtype)
    above, below = Apply("lt", (low, size), "bool"), Apply("lt", (size, high), "bool")
    return Apply("and", (above, below), "bool")
