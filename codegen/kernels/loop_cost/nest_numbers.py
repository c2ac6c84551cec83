"""Numbers of a loop nest besides its cycles, from which a learned model corrects these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from statistics import fmean

from codegen.ir.nodes import Alloc, For, Function, If, Statement, Store, walk

VECTOR_KINDS = ("vec", "lanes")  # of loops


def nest_numbers(function: Function, computed: float, waited: float) -> Mapping[str, float]:
    """Return numbers that mean the same for all statements.

    `computed` and `waited` are the terms of its cost, and "waits" their ratio. "steps" and
    "vectors" are the mean steps of the innermost loops, and the share of these in vectors.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> row = lower("O", ea.parse("O[i,j] = A[i,j] + 1", A=(512, 256)))
    >>> numbers = nest_numbers(row, 400.0, 100.0)
    >>> [numbers[name] for name in ("waits", "stores", "loops", "steps", "vectors")]
    [0.25, 1, 2, 256.0, 1.0]
    """
    nodes = list(walk(function))
    inner = list(_innermost(function.body))
    numbers: dict[str, float] = {
        "waits": waited / max(1.0, computed),
        "stores": sum(isinstance(node, Store) for node in nodes),
        "loops": sum(isinstance(node, For) for node in nodes),
        "branches": sum(isinstance(node, If) for node in nodes),
        "local elements": sum(prod(node.buf.shape) for node in nodes if isinstance(node, Alloc)),
        "steps": 1,
        "vectors": 0,
    }
    if inner:
        numbers["steps"] = fmean(max(1, loop.range[1] - loop.range[0]) for loop in inner)
        numbers["vectors"] = fmean(loop.kind in VECTOR_KINDS for loop in inner)
    return numbers


def _innermost(body: Sequence[Statement]) -> Iterator[For]:
    """Yield the loops that have no others inside."""
    for statement in body:
        if isinstance(statement, For):
            inside = list(_innermost(statement.body))
            yield from inside or [statement]
        elif isinstance(statement, If):
            yield from _innermost((*statement.then, *statement.orelse))
