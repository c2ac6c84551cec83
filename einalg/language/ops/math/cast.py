"""Changes of the element type that widen it."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.ir.dtypes import dtype_name, promote
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant
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
    if promote(dtype, target) != target:
        raise ShapeError(
            f"x has dtype {dtype}, which {target} is narrower than\n"
            "  leave it as it is, or use a wider type"
        )
    one = Constant(f"{target}_one_", (), target, (1,))  # no name that a front end gives ends in _
    return element * one[()]
