"""Expensive values that are the same in all steps of a loop, computed before it (design §10).

A C compiler leaves them in the loop: `(x[j] - m[i]) / sqrt(v[i] + c)` has a root and a quotient for
each `j`. A quotient by such a root is a product with its reciprocal, which no float makes infinite
but 0; so is one by `1 + exp(y[i])`, of a sigmoid.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from codegen.ir.names import unused_name, used_names
from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    Function,
    Number,
    Ref,
    Statement,
    Store,
    Value,
    walk,
)
from codegen.ir.scalars.functions import general_function
from codegen.kernels.expensive_values.readers import (
    SHORT_CIRCUIT,
    buffer_names,
    changed_names,
    constant_steps,
    indices_of,
    is_expensive,
    with_bodies,
)
from einalg.language.ir.dtypes import is_float

TYPES = ("f32", "f64")  # of which a local number holds every value


def with_values_before_loops(function: Function) -> Function:
    """Return a function that computes expensive values before the loops in which these are fixed.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> f = lower("O", ea.parse("O[i,j] = A[i,j]/sqrt(B[i])", A=(8, 64), B=(8,)))
    >>> (rows,) = with_values_before_loops(f).body
    >>> [type(statement).__name__ for statement in rows.body]
    ['Alloc', 'Store', 'For']
    """
    if not any(map(is_expensive, walk(function))):
        return function
    writer = _InvariantWriter(used_names(function))
    return replace(function, body=writer.statements(function.body))


@dataclass
class _KnownValues:
    """The values that are computed before some loops, and the numbers that hold them."""

    numbers: dict[Value, Ref] = field(default_factory=dict)

    def forget(self, changed: Collection[str]) -> None:
        """Drop the values of buffers that change."""
        for value in list(self.numbers):
            if buffer_names(value) & set(changed):
                del self.numbers[value]


class _InvariantWriter:
    """Rewrites the statements of a function, inner loops first."""

    def __init__(self, names: set[str]):
        self.names = names

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        results: list[Statement] = []
        known = _KnownValues()
        for statement in body:
            inside = with_bodies(statement, self.statements)
            if isinstance(inside, For) and inside.kind != "par" and constant_steps(inside):
                inside = self.before(inside, known, results)
            known.forget(changed_names(inside))
            results.append(inside)
        return tuple(results)

    def before(self, loop: For, known: _KnownValues, results: list[Statement]) -> For:
        """Return a loop that reads what is computed before it; that is added to `results`."""
        changing = _Changing(loop, known, changed_names(loop))
        body: list[Statement] = []
        for statement in loop.body:
            if isinstance(statement, Store):
                value = self.reading(statement.value, changing, results)
                statement = replace(statement, value=value)
            body.append(statement)
        return replace(loop, body=tuple(body))

    def reading(self, value: Value, changing: _Changing, results: list[Statement]) -> Value:
        """Return a value that reads the parts that are computed before a loop."""
        if not isinstance(value, Apply):
            return value
        if changing.is_worth_a_number(value):
            return self.number(value, changing.known, results)
        value = _by_reciprocal(value, changing)
        count = len(value.arguments)
        if value.op in SHORT_CIRCUIT:
            count = 1
        arguments = [self.reading(part, changing, results) for part in value.arguments[:count]]
        return replace(value, arguments=(*arguments, *value.arguments[count:]))

    def number(self, value: Apply, known: _KnownValues, results: list[Statement]) -> Ref:
        """Return the number that holds a value; where there is none, compute it now."""
        if value not in known.numbers:
            name = unused_name("value", self.names)
            self.names.add(name)
            known.numbers[value] = Ref(Buf(name, (), value.dtype, "reg"), ())
            results += [Alloc(known.numbers[value].buf), Store(known.numbers[value], "=", value)]
        return known.numbers[value]


@dataclass(frozen=True)
class _Changing:
    """A loop, the values that are known before it, and the names of what changes inside of it."""

    loop: For
    known: _KnownValues
    names: Collection[str]

    def is_worth_a_number(self, value: Value) -> bool:
        """Whether a value is expensive, and the same in all steps of the loop."""
        if not isinstance(value, Apply) or value.dtype not in TYPES:
            return False
        if self.loop.index in indices_of(value) or buffer_names(value) & set(self.names):
            return False
        return any(map(is_expensive, walk(value)))


def _by_reciprocal(value: Apply, changing: _Changing) -> Apply:
    """Return a quotient by a value whose reciprocal is worth a number as a product, and others as
    they are.
    """
    if value.op != "div" or not is_float(value.dtype):
        return value
    dividend, divisor = value.arguments
    if not isinstance(divisor, Apply) or not changing.is_worth_a_number(divisor):
        return value
    if divisor.op != "sqrt" and not _is_one_or_more(divisor):
        return value
    reciprocal = Apply("div", (Number(1, divisor.dtype), divisor), divisor.dtype)
    return Apply("mul", (dividend, reciprocal), value.dtype)


def _is_one_or_more(value: Apply) -> bool:
    """Whether a value is the sum of an exponential and of a number from 1 on, as in a sigmoid."""
    if value.op != "add" or len(value.arguments) != 2:
        return False
    numbers = [part.value for part in value.arguments if isinstance(part, Number)]
    powers = [
        part
        for part in value.arguments
        if isinstance(part, Apply) and general_function(part.op) == "exp"
    ]
    return len(numbers) == len(powers) == 1 and numbers[0] >= 1
