"""Numbers of NumPy beside indices and elements (design §3)."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import sympy

from einalg.errors import UseError

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


NUMPY_TO_SYMPY = {
    "absolute": "Abs",
    "maximum": "Max",
    "minimum": "Min",
    "fmax": "Max",
    "fmin": "Min",
    "ceil": "ceiling",
    "arctan2": "atan2",
}


class NumpyOperand:
    """A scalar of an expression, that numbers of NumPy may be combined with.

    `_numpy_noun` says it in errors, `_numpy_example` stands for it there.
    """

    __slots__ = ()
    _numpy_noun = "an element of an expression"
    _numpy_example = "A[i]"

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Join a number of NumPy and a scalar by an operator; `UseError` for arrays and for
        NumPy's functions.
        """
        name = function.__name__
        has_arrays = any(isinstance(x, np.ndarray) and np.ndim(x) for x in operands)
        if has_arrays or name not in OPERATORS or method != "__call__":
            raise UseError(
                f"NumPy's {name} has no value for {self._numpy_noun}\n"
                f"  {_remedy(name, self._numpy_example)}"
            )
        numbers = []
        for x in operands:
            numbers.append(x.item() if isinstance(x, (np.generic, np.ndarray)) else x)
        return OPERATORS[name](*numbers)


def _remedy(name: str, example: str) -> str:
    if name in OPERATORS:
        return (
            "combine elements with elements and numbers; an array is an input, given where the "
            "expression is evaluated"
        )
    function = _sympy_name(name)
    if hasattr(sympy, function):
        return f"use SymPy's functions: sympy.{function}({example})"
    return f"use SymPy's functions, such as sympy.Abs({example})"


def _sympy_name(name: str) -> str:
    """Return SymPy's name of a function of NumPy: `asin` for `arcsin`, `Abs` for `absolute`."""
    if name in NUMPY_TO_SYMPY:
        return NUMPY_TO_SYMPY[name]
    if name.startswith("arc"):
        return f"a{name.removeprefix('arc')}"
    return name
