"""Operators of models on NaN and infinities, where mathematics would leave out what is read.

Over the real numbers `x - x` and `0*x` are 0, and `x != x` is false. A framework gives NaN for the
first two, and tests for NaN by the third.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from einalg.language import ops
from einalg.language.conditions import isnan, negation
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.tensor import Indexable, Tensor
from einalg.language.ops.math.elementwise import elementwise


def is_read(result: Any, *operands: Any) -> bool:
    """Return whether a result depends on every tensor of floats among the operands.

    >>> import einalg as ea
    >>> x, y = ea.tensor("x", (3,)), ea.tensor("y", (3,))
    >>> is_read(ops.sub(x, y), x, y), is_read(ops.sub(x, x), x, x), is_read(ops.mul(x, 0), x, 0)
    (True, False, False)
    """
    read: set[str] = {result.name} if isinstance(result, Tensor) else set(result.tensors)
    for operand in operands:
        if isinstance(operand, Tensor) and is_float(operand.dtype) and operand.name not in read:
            return False
    return True


def equal(a: Any, b: Any) -> Any:
    """Return `ops.equal`; of a tensor with itself, a test for what is no NaN."""
    if _is_same(a, b):
        return elementwise(a, lambda v: negation(isnan(v)))
    return ops.equal(a, b)


def not_equal(a: Any, b: Any) -> Any:
    """Return `ops.not_equal`; of a tensor with itself, a test for NaN."""
    if _is_same(a, b):
        return elementwise(a, isnan)
    return ops.not_equal(a, b)


def _is_same(a: Any, b: Any) -> bool:
    return isinstance(a, Indexable) and isinstance(b, Indexable) and a == b and is_float(a.dtype)


def truth_of(test: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a test for NaN or infinities as an operator, which every integer answers the same.

    >>> import einalg as ea
    >>> truth_of(isnan)(ea.tensor("x", (3,)))
    L[i:3](isnan(x[i]))
    """

    def operator(x: Any) -> Any:
        if x.dtype == "bool":
            return elementwise(x, lambda v: test(sympy.S.Zero), "any")
        return elementwise(x, test)

    return operator
