"""Elements: the scalars of a body, and what numbers of NumPy make of them (design §3)."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import sympy

from einalg.errors import UseError
from einalg.language.index.remainder import remainder

OPERATORS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


SPELT = {
    "absolute": "Abs",
    "maximum": "Max",
    "minimum": "Min",
    "fmax": "Max",
    "fmin": "Min",
    "ceil": "ceiling",
    "arctan2": "atan2",
}


INVERSE = "arc"  # NumPy's arcsin is SymPy's asin


class Element:
    """A scalar of a body, that numbers of NumPy may be combined with."""

    __slots__ = ()

    def __mod__(self, other: Any) -> Any:
        return _remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return _remainder(other, self)

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        """A number of NumPy and an element, joined by an operator; `UseError` for arrays and for
        NumPy's functions.
        """
        name = function.__name__
        if (
            name not in OPERATORS
            or method != "__call__"
            or any(np.ndim(x) for x in operands if isinstance(x, np.ndarray))
        ):
            raise UseError(
                f"NumPy's {name} has no value for an element of an expression\n  {_remedy(name)}"
            )
        return OPERATORS[name](
            *(x.item() if isinstance(x, (np.generic, np.ndarray)) else x for x in operands)
        )


def _remainder(dividend: Any, modulus: Any) -> Any:
    """Return a remainder; `NotImplemented`, for Python to say so, where an operand is no number."""
    try:
        return remainder(dividend, modulus)
    except sympy.SympifyError:
        return NotImplemented


def _remedy(name: str) -> str:
    if name in OPERATORS:
        return (
            "combine elements with elements and numbers; an array is an input, given where the "
            "expression is evaluated"
        )
    spelt = SPELT.get(name, f"a{name.removeprefix(INVERSE)}" if name.startswith(INVERSE) else name)
    return f"use SymPy's functions: sympy.{spelt}(A[i])"
