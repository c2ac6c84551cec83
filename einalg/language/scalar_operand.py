"""Indices and elements, and what is made of them, where Python or NumPy wants a number or a truth
value (design §3, §13).

Numbers of NumPy are combined with them. The rest is refused with what to write, with the operands
that are there: an index stands for all numbers of its range, and an element for all of a tensor.
SymPy's sums, products and conditions of them are of SymPy's own classes, so that their conversions
are told here to refuse in the same words; what has no index and no element in it is SymPy's alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np
import sympy
from sympy import Expr
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from einalg.boundary import hide_inside, public
from einalg.errors import EinalgError, UseError

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
MAX_OPERAND = 60  # characters of an operand in a remedy
NUMPY_TO_SYMPY = {
    "absolute": "Abs",
    "maximum": "Max",
    "minimum": "Min",
    "fmax": "Max",
    "fmin": "Min",
    "ceil": "ceiling",
    "arctan2": "atan2",
}


@public
class ScalarOperand:
    """A scalar of an expression, that numbers of NumPy may be combined with.

    `_numpy_noun` says it in errors.
    """

    __slots__ = ()
    _numpy_noun = "an element of an expression"

    def __index__(self) -> int:
        raise _no_number(self)

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Join a number of NumPy and a scalar by an operator; `UseError` for arrays and for
        NumPy's functions.
        """
        name = function.__name__
        has_arrays = any(isinstance(x, np.ndarray) and np.ndim(x) for x in operands)
        if has_arrays or name not in OPERATORS or method != "__call__":
            raise UseError(
                f"NumPy's {name} has no value for {self._numpy_noun}\n  {_remedy(name, operands)}"
            )
        numbers = []
        for x in operands:
            numbers.append(x.item() if isinstance(x, (np.generic, np.ndarray)) else x)
        return OPERATORS[name](*numbers)


def _remedy(name: str, operands: tuple[Any, ...]) -> str:
    if name in OPERATORS:
        return (
            "combine elements with elements and numbers; an array is an input, given where the "
            "expression is evaluated"
        )
    function = _sympy_name(name)
    written = ", ".join(map(_short, operands))
    if hasattr(sympy, function):
        return f"use SymPy's functions: sympy.{function}({written})"
    return f"use SymPy's functions, such as sympy.Abs({_short(operands[0])})"


def _sympy_name(name: str) -> str:
    """Return SymPy's name of a function of NumPy: `asin` for `arcsin`, `Abs` for `absolute`."""
    if name in NUMPY_TO_SYMPY:
        return NUMPY_TO_SYMPY[name]
    if name.startswith("arc"):
        return f"a{name.removeprefix('arc')}"
    return name


def _short(operand: Any) -> str:
    """Return an operand as it is written; of one that is long, a name for it.

    >>> _short(3), _short(np.arange(100))
    ('3', '...')
    """
    text = str(operand)
    return text if len(text) <= MAX_OPERAND and "\n" not in text else "..."


def scalars(expression: Any) -> Iterator[Any]:
    """Yield the indices and elements of a SymPy expression, outer before inner.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,)), ea.indices("i")
    >>> next(scalars(2*A[i] + 1))
    A[i]
    """
    for node in sympy.preorder_traversal(expression):
        if isinstance(node, ScalarOperand):
            yield node


def _elements(expression: Any) -> list[Any]:
    return [node for node in scalars(expression) if not getattr(node, "is_index", False)]


def has_sizes_alone(expression: Any) -> bool:
    """Return whether symbolic sizes are all that an expression is made of."""
    symbols = expression.free_symbols
    if not symbols or not all(getattr(symbol, "is_size", False) for symbol in symbols):
        return False
    return not _elements(expression)


def _no_number(expression: Any) -> UseError:
    """Return the error of an index, an element or what is made of them where a number is due."""
    text = _short(expression)
    indices = ", ".join(sorted(map(str, expression.free_symbols)))
    if has_sizes_alone(expression):
        return UseError(
            f"{text} is a symbolic size, and here a number is due\n"
            f"  write the number, or use .at({indices}=8) of an expression"
        )
    if not _elements(expression):
        return UseError(
            f"{text} is no number: it stands for all those in a range\n"
            f"  in place of a loop over it write ea.L[{indices}](...), or ea.Sum[{indices}](...) "
            "for a sum"
        )
    return UseError(
        f"{text} is no number before the expression is evaluated\n"
        f"  evaluate it: ea.evaluate(ea.L[{indices or '()'}]({text}), ...); functions of it are "
        f"SymPy's: sympy.sin({text})"
    )


def _no_truth_value(condition: Any) -> UseError:
    """Return the error of a condition on indices or elements where a truth value is due."""
    text = _short(condition)
    if has_sizes_alone(condition):
        name = min(map(str, condition.free_symbols))
        return UseError(
            f"{text} holds at some sizes, and at others not\n"
            f"  give a size bounds or a divisor: {name} = ea.size({name!r}, at_least=8, "
            "multiple_of=8)"
        )
    wrong = f"{text} is neither true nor false: that depends on the point"
    cases = f"ea.Piecewise((a, {text}), (b, True))"
    if not _elements(condition):
        indices = ", ".join(sorted(map(str, condition.free_symbols)))
        return UseError(f"{wrong}\n  write {cases}, or ea.L[{indices}](..., where={text})")
    larger = ""
    if isinstance(condition, Relational):
        operands = f"{_short(condition.lhs)}, {_short(condition.rhs)}"
        larger = f", ea.Max({operands}) or ea.Min({operands}) for one of the two"
    return UseError(f"{wrong}\n  write {cases} for a choice{larger}; & | ~ for and, or, not")


def _no_factor(condition: Any, other: Any) -> UseError:
    """Return the error of a condition that is multiplied, as masks of arrays are."""
    text = _short(condition)
    return UseError(
        f"{text} is a condition, and no number to multiply with\n"
        f"  write ea.Piecewise(({_short(other)}, {text}), (0, True))"
    )


def _refusing(method: Callable[..., Any], refusal: Callable[[Any], UseError]) -> Any:
    """Return a method of SymPy whose `TypeError` for indices and elements is a `UseError`."""

    @wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        try:
            try:
                return method(self, *arguments)
            except TypeError as error:
                if isinstance(error, EinalgError) or next(scalars(self), None) is None:
                    raise
                raise refusal(self) from None
        except EinalgError as error:
            hide_inside(error)
            raise

    return call


def _multiplied(self: Any, other: Any) -> Any:
    """Refuse to multiply a condition on indices or elements; others are SymPy's matter."""
    try:
        if next(scalars(self), None) is None:
            return NotImplemented
        raise _no_factor(self, other)
    except EinalgError as error:
        hide_inside(error)
        raise


for _name in ("__float__", "__int__", "__complex__", "__round__"):
    setattr(Expr, _name, _refusing(getattr(Expr, _name), _no_number))
Relational.__bool__ = _refusing(Relational.__bool__, _no_truth_value)
for _name in ("__mul__", "__rmul__"):
    if not hasattr(Boolean, _name):
        setattr(Boolean, _name, _multiplied)
