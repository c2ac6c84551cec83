"""Parameters that are any number: what may be their values, judged by the numbers that stand in a body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, permutations, product
from typing import Any

from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access

MOST_TRIES = 48


def assignments_of(names: Sequence[str], body: Any, example: Any) -> Iterator[Mapping[str, Any]]:
    """Values for parameters, the likely ones first: those of which the body of the `example`, with other values, has nothing."""
    if not names:
        return iter([{}])
    usual = dict.fromkeys(numbers(example))
    own = [n for n in dict.fromkeys(numbers(body)) if n not in usual]
    values = proposals([*own, *(n for n in dict.fromkeys(numbers(body)) if n in usual)])
    rows = dict.fromkeys(
        islice(chain(permutations(own, len(names)), product(values, repeat=len(names))), MOST_TRIES)
    )
    return (dict(zip(names, row)) for row in rows)


def proposals(found: Sequence[Any]) -> list[Any]:
    """Numbers as they stand in a body, and what they may come from: the negative of a parameter, or one over it.

    >>> import sympy
    >>> proposals([sympy.Integer(4)])
    [4, -4, 1/4]
    """
    return list(
        dict.fromkeys([*found, *(-n for n in found), *(1 / n for n in found if n.is_nonzero)])
    )


def as_python(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with Python's numbers in the place of SymPy's, where there are such."""
    return {name: _number(value) for name, value in arguments.items()}


def _number(value: Any) -> Any:
    if getattr(value, "is_Integer", False):
        return int(value)
    return (
        float(value)
        if getattr(value, "is_Float", False) or getattr(value, "is_infinite", False)
        else value
    )


def numbers(body: Any) -> Iterator[Any]:
    """The numbers of a body, outside subscripts."""
    if isinstance(body, Reduce):
        yield from numbers(body.body)
    elif getattr(body, "is_number", False) and not body.args:
        yield body
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from numbers(argument)
