"""Loads ahead of the selects that choose by them, in loops for vectors.

A compiler computes both cases of a select in vectors, and chooses then. But it does not read memory
where a program might not: a load in one of the cases keeps a whole loop from having vectors. An
element is inside its buffer unless a condition on indices guards it. So what only numbers choose is
read before into a variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from codegen.ir.extremes import is_register
from codegen.ir.names import unused_name
from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    IndexNumber,
    Predicate,
    Ref,
    Statement,
    Store,
    Value,
    value_parts,
)
from codegen.ir.substitute import referred
from codegen.ir.types import computed

LAZY = ("select", "and", "or")  # only their first operand is always computed


def with_early_loads(loop: For, names: set[str]) -> For:
    """Return a loop that reads ahead of each statement what only numbers choose there.

    The variables have names that are not in `names`, where they are added.

    >>> from einalg.language.index.affine import Index
    >>> from einalg.language.index.convert import affine
    >>> i, zero = Index("i"), affine(0)
    >>> x, a = Ref(Buf("x", (8,), "f32"), (affine(i),)), Ref(Buf("a", (1,), "f32"), (zero,))
    >>> scaled = Apply("mul", (a, x), "f32")
    >>> value = Apply("select", (Apply("gt", (x, scaled), "bool"), x, scaled), "f32")
    >>> body = (Store(Ref(Buf("O", (8,), "f32"), (affine(i),)), "=", value),)
    >>> loop = with_early_loads(For(i, zero, affine(8), (0, 8), body, "vec"), {"x", "a", "O"})
    >>> [s.ref.buf.name for s in loop.body if isinstance(s, Store)]
    ['x_here', 'a_here', 'O']
    """
    body: list[Statement] = []
    for statement in loop.body:
        if isinstance(statement, Store):
            body += _with_early_loads(statement, names)
        else:
            body.append(statement)
    if len(body) == len(loop.body):
        return loop
    return replace(loop, body=tuple(body))


def _with_early_loads(store: Store, names: set[str]) -> list[Statement]:
    """Return a statement behind the loads that it needs."""
    results: list[Statement] = []
    variables: dict[Ref, Ref] = {}
    for ref in dict.fromkeys(_chosen(store.value)):
        name = unused_name(f"{ref.buf.name}_here", names)
        names.add(name)
        variables[ref] = Ref(Buf(name, (), computed(ref.dtype), "reg"), ())
        results += [Alloc(variables[ref].buf), Store(variables[ref], "=", ref)]
    return [*results, replace(store, value=referred(store.value, variables))]


def _chosen(value: Value, is_chosen: bool = False) -> Iterator[Ref]:
    """Yield the elements in memory that are read or not as some numbers are.

    `is_chosen` says that the value itself is.
    """
    if isinstance(value, Ref) and is_chosen and not is_register(value.buf):
        yield value
    if not isinstance(value, Apply):
        return
    is_lazy = value.op in LAZY
    if is_lazy and _may_guard(value):
        return
    for position, argument in enumerate(value.arguments):
        yield from _chosen(argument, is_chosen or (is_lazy and position > 0))


def _may_guard(value: Apply) -> bool:
    """Return whether places decide which operands of a select, `and` or `or` are computed."""
    tests: Sequence[Value] = value.arguments
    if value.op == "select":
        tests = tests[:1]
    return any(
        isinstance(part, (Predicate, IndexNumber)) for test in tests for part in value_parts(test)
    )
