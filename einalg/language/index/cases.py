"""Cases of a body, which are left where they stand, and never moved by SymPy (design §2).

SymPy takes the cases of a condition out of that, also out of a sum, away from the indices of the
sum, and asks for sets of solutions on the way; it brings conditions into other forms. Cases are
therefore a node of einalg's own, of which SymPy knows only that it is its `Piecewise`.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Basic, Expr, Tuple
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean

from einalg.boundary import public
from einalg.errors import NotationError


class Case(ExprCondPair):
    """A value and the condition under which it is taken."""

    def __new__(cls, value: Any, condition: Any) -> Any:
        return Tuple.__new__(cls, value, condition)


@public
class Piecewise(sympy.Piecewise):
    """`Piecewise((a, condition), (b, other), …)`: the value of the first condition that holds, and
    NaN where none does; written `Piecewise((a, condition), (b, True))` where one always does.

    A condition may compare anything, also other cases, for which SymPy's own `Piecewise` has no
    place. Raises `NotationError` for what is no value with a condition.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,)), ea.indices("i")
    >>> positive = Piecewise((A[i], A[i] > 0), (0, True))
    >>> ea.L[i](Piecewise((1, positive > 1), (2, True)))
    L[i:8](Piecewise((1, Piecewise((A[i], A[i] > 0), (0, True)) > 1), (2, True)))
    """

    def __new__(cls, *pairs: Any, **options: Any) -> Any:
        possible: list[Case] = []
        for case in map(_case, pairs):
            condition = case.args[1]
            if condition is sympy.false:
                continue
            possible.append(case)
            if condition is sympy.true:
                break
        if not possible:
            return sympy.nan
        value, condition = possible[0].args
        if condition is sympy.true:
            return value
        return Basic.__new__(cls, *possible)


def _case(pair: Any) -> Case:
    if isinstance(pair, Case):
        return pair
    entries = tuple(pair) if isinstance(pair, (tuple, Tuple)) else ()
    if len(entries) == 2 and not isinstance(entries[0], tuple):
        value, condition = map(sympy.sympify, entries)
        if isinstance(condition, Boolean) and not isinstance(condition, Expr):
            return Case(value, condition)
    shown = pair
    if len(entries) == 2:
        shown = entries[1]
    raise NotationError(
        f"Piecewise takes values with conditions, and {shown} is none\n"
        "  write Piecewise((a, condition), (b, True))"
    )
