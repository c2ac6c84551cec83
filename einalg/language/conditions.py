"""Conditions in a body that hold for NaN and infinities too, and not for real numbers alone.

SymPy knows real numbers: there `x != x` is false, `not x < 0` is `x >= 0`, and one of `x < 0` and
`x >= 0` holds. For NaN none of this is true. Tests for NaN and infinities are therefore nodes of
einalg's own, which only numbers evaluate, and a condition is negated and joined without these laws.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy.logic.boolalg import BooleanFunction

ORDERED = (sympy.StrictLessThan, sympy.LessThan, sympy.StrictGreaterThan, sympy.GreaterThan)


class isnan(BooleanFunction):
    """Whether a number is NaN: what `x != x` asks.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,)), ea.indices("i")
    >>> isnan(A[i]), isnan(sympy.nan), isnan(2)
    (isnan(A[i]), True, False)
    """

    nargs = (1,)

    @classmethod
    def eval(cls, value: Any) -> Any:
        """Return the truth for a number; None leaves the node as it is."""
        return _of_number(value, lambda number: number is sympy.nan)


class isinf(BooleanFunction):
    """Whether a number is infinite, of either sign.

    >>> isinf(-sympy.oo), isinf(sympy.nan), isinf(2)
    (True, False, False)
    """

    nargs = (1,)

    @classmethod
    def eval(cls, value: Any) -> Any:
        """Return the truth for a number; None leaves the node as it is."""
        return _of_number(value, lambda number: bool(number.is_infinite))


class isfinite(BooleanFunction):
    """Whether a number is neither infinite nor NaN.

    >>> isfinite(-sympy.oo), isfinite(sympy.nan), isfinite(2)
    (False, False, True)
    """

    nargs = (1,)

    @classmethod
    def eval(cls, value: Any) -> Any:
        """Return the truth for a number; None leaves the node as it is."""
        return _of_number(value, lambda number: bool(number.is_finite))


TESTS = (isnan, isinf, isfinite)


def _of_number(value: Any, test: Any) -> Any:
    if not value.is_number:
        return None
    return sympy.true if test(value) else sympy.false


def negation(condition: Any) -> Any:
    """Return the contrary of a condition: a comparison of elements stays as it is inside.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,)), ea.indices("i")
    >>> negation(A[i] < 0), negation(negation(A[i] < 0)), negation(sympy.Eq(A[i], 0))
    (~(A[i] < 0), A[i] < 0, Ne(A[i], 0))
    """
    if isinstance(condition, ORDERED) and _reads(condition):
        return sympy.Not(condition, evaluate=False)
    return sympy.Not(condition)


def disjunction(*conditions: Any) -> Any:
    """Return whether one of several conditions holds; two comparisons may both fail, for NaN.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,)), ea.indices("i")
    >>> disjunction(A[i] < 0, A[i] > 1)
    (A[i] > 1) | (A[i] < 0)
    >>> disjunction(A[i] < 0, A[i] >= 0)
    ~(~(A[i] >= 0) & ~(A[i] < 0))
    >>> disjunction(sympy.Eq(A[i], 0), sympy.Ne(A[i], 0))  # for NaN as well
    True
    """
    joined = sympy.Or(*conditions)
    if joined is not sympy.true or sympy.true in conditions:
        return joined
    if not any(map(_reads, conditions)):
        return joined
    refusal = sympy.And(*map(negation, conditions))
    if refusal is sympy.false:
        return sympy.true
    return sympy.Not(refusal, evaluate=False)


def exclusive(*conditions: Any) -> Any:
    """Return whether an odd number of conditions hold; what stands there twice, also with its sides
    exchanged, is left out first. SymPy fails where some of these have their contrary beside them.

    >>> import einalg as ea
    >>> i, j = ea.indices("i j")
    >>> exclusive(sympy.Ne(i, j), sympy.Eq(j, i), sympy.Ne(j, i), i < 2)
    Eq(j, i) ^ (i < 2)
    """
    odd: dict[Any, Any] = {}
    for operand in conditions:
        condition: Any = sympy.sympify(operand)
        form = condition.canonical if condition.is_Relational else condition
        if odd.pop(form, None) is None:
            odd[form] = condition
    return sympy.Xor(*odd.values())


def _reads(body: Any) -> bool:
    """Return whether a body reads a tensor: what depends on indices alone is a real number."""
    for part in sympy.preorder_traversal(body):
        if getattr(part, "is_access", False) or getattr(part, "is_reduction", False):
            return True
    return False
