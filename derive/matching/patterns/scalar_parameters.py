"""Parameters that are any number: which values they may have, judged by the numbers that stand in a
body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, permutations, product
from typing import Any

from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access

MAX_VALUE_TUPLES = 48  # that are tried for the parameters of one operator


def parameter_values(names: Sequence[str], body: Any, example: Any) -> Iterator[Mapping[str, Any]]:
    """Yield values for parameters, the likely ones first: numbers that do not stand in the body of
    the `example` too, which has other values for them.
    """
    if not names:
        yield {}
        return
    usual = set(numbers(example))
    likely, others = [], []
    for number in dict.fromkeys(numbers(body)):
        if number in usual:
            others.append(number)
        else:
            likely.append(number)
    count = len(names)
    tuples = chain(
        permutations(likely, count), product(proposals([*likely, *others]), repeat=count)
    )
    for values in dict.fromkeys(islice(tuples, MAX_VALUE_TUPLES)):
        yield dict(zip(names, values))


def proposals(candidates: Sequence[Any]) -> list[Any]:
    """Return numbers as they stand in a body, and what they may come from: the negative of a
    parameter, or one over it.

    >>> import sympy
    >>> proposals([sympy.Integer(4)])
    [4, -4, 1/4]
    """
    negatives = [-number for number in candidates]
    inverses = [1 / number for number in candidates if number.is_nonzero]
    return list(dict.fromkeys([*candidates, *negatives, *inverses]))


def as_python(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with Python's numbers in the place of SymPy's, where there are such."""
    return {name: _python_number(value) for name, value in arguments.items()}


def _python_number(value: Any) -> Any:
    if getattr(value, "is_Integer", False):
        return int(value)
    if getattr(value, "is_Float", False) or getattr(value, "is_infinite", False):
        return float(value)
    return value


def numbers(body: Any) -> Iterator[Any]:
    """Yield the numbers of a body, outside subscripts."""
    if isinstance(body, Reduce):
        yield from numbers(body.body)
    elif getattr(body, "is_number", False) and not body.args:
        yield body
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in getattr(body, "args", ()):
            yield from numbers(argument)
