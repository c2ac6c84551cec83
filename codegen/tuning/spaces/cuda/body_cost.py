"""Instructions of a thread for what a statement computes at a point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access, Padded

OF_FUNCTION = 16.0  # instructions that a function as exp is worth
OF_POWER = 8.0
OF_GUARD = 5.0  # a read beside the borders of what is padded
OF_ADDRESS = 1.0
OF_QUOTIENT = 4.0  # of an index by a constant
RATES = {"f64": 2.0, "i64": 4.0, "i128": 12.0, "i32": 2.0}  # issues of a product


def rate(dtype: str) -> float:
    """Return how many times as long as one of f32 a product of a type takes.

    >>> rate("f64"), rate("f32")
    (2.0, 1.0)
    """
    return RATES.get(dtype, 1.0)


def instructions(body: Any) -> float:
    """Return the arithmetic of a body outside of its reductions and reads.

    >>> import einalg as ea
    >>> instructions(ea.parse("O[i] = A[i]*A[i] + 1", A=(3,)).body)
    9.0
    """
    if isinstance(body, (Access, Reduce)) or not getattr(body, "args", ()):
        return 0.0
    own = float(len(body.args) - 1)
    if body.is_Pow:
        own = OF_POWER
    elif not (body.is_Add or body.is_Mul) and len(body.args) == 1:
        own = OF_FUNCTION
    return own + sum(instructions(part) for part in body.args)


def reads(body: Any) -> Iterator[Access]:
    """Yield the reads of a body outside of its reductions, each once.

    >>> import einalg as ea
    >>> [str(read) for read in reads(ea.parse("O[i] = A[i] + Sum[j](B[j])", A=(3,), B=(4,)).body)]
    ['A[i]']
    """
    seen: set[Access] = set()
    waiting = [body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Access):
            if node not in seen:
                seen.add(node)
                yield node
        elif not isinstance(node, Reduce):
            waiting += getattr(node, "args", ())


def read_instructions(access: Access) -> float:
    """Return what a thread does for one read besides the arithmetic of its values."""
    total = OF_ADDRESS
    for form in access.subscripts:
        if not form.is_affine():
            total += OF_QUOTIENT
    if isinstance(access.base, Padded):
        total += OF_GUARD
    return total
