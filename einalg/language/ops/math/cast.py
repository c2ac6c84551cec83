"""Changes of the element type that widen it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.conversion import HALVES, converted
from einalg.language.ir.dtypes import dtype_name, is_float, promote
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Indexable
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import result_indices
from einalg.language.ops.definition.operands import operand, spans
from einalg.language.ops.definition.registry import operator


@operator
def cast(x: Any, dtype: Any) -> Scope:
    """`x` with a wider element type, a float for integers, or as bool: whether an element is not 0.

    `x` has any shape. Its elements are multiplied by a constant 1 of that type. Raises `ShapeError`
    for a type that is unknown, or narrower than that of `x`.

    >>> import einalg as ea
    >>> cast(ea.tensor("x", (3,), "i32"), "f64").dtype, cast(ea.tensor("x", (3,)), "bool")
    ('f64', L[i:3](Ne(x[i], 0)))
    """
    view, target = operand(x, "x", dtype="any"), dtype_name(dtype)
    at = result_indices(view.rank)
    return L[spans(at, view.shape)](_element(view[at], view.dtype, target))


def _element(element: Any, dtype: str, target: str) -> Any:
    if dtype == target:
        return element
    if target == "bool":
        return sympy.Ne(element, 0)
    if target in HALVES and is_float(dtype) and dtype != "f64":
        return converted(element, target)
    if promote(dtype, target) != target:
        raise ShapeError(
            f"x has dtype {dtype}, which {target} is narrower than\n"
            "  leave it as it is, or use a wider type"
        )
    one = Constant(f"{target}_one_", (), target, (1,))  # no name that a front end gives ends in _
    return element * one[()]


def in_single(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator that computes with elements of 16 bits in single precision, and rounds
    its result, as frameworks do within one operator.

    >>> import einalg as ea
    >>> from einalg.language.ops.math.elementwise import elementwise
    >>> thrice = in_single(lambda x: elementwise(elementwise(x, lambda v: 2*v), lambda v: 1.5*v))
    >>> thrice(ea.tensor("x", (2,), "f16")).dtype
    'f16'
    """

    @wraps(operation)
    def wrapped(*arguments: Any) -> Any:
        tensors = [value for value in arguments if isinstance(value, Indexable)]
        dtype = promote(*(tensor.dtype for tensor in tensors))
        if dtype not in HALVES:
            return operation(*arguments)
        return cast(operation(*map(_as_single, arguments)), dtype)

    return wrapped


def _as_single(value: Any) -> Any:
    if isinstance(value, Indexable) and value.dtype in HALVES:
        return cast(value, "f32")
    return value
