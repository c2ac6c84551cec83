"""Sums that lose digits, and the forms in which they are computed without a loss.

Thirds that are rounded need not add up to 1: a sum of fractions that is rounded or compared is
computed as one fraction. `log(1 + x)` and `exp(x) - 1` lose the digits of a small `x`, and are
functions of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm
from typing import Any

import sympy

from einalg.language.index.remainder import Mod

STEPS = (sympy.floor, sympy.ceiling, Mod, sympy.sign)  # which jump
LARGEST_DIVISOR = 1 << 24  # to which every float type but a half counts


def steps(body: Any) -> bool:
    """Return whether a function jumps, so that the last digit of an operand may decide."""
    return isinstance(body, (*STEPS, sympy.core.relational.Relational))


def as_one_fraction(body: Any) -> tuple[Any, Any] | None:
    """Return a sum of fractions as one numerator and one divisor; None where a body is no such sum.

    >>> x, y = sympy.symbols("x y")
    >>> as_one_fraction(x*y/3 + x**2/2 + 1)
    (3*x**2 + 2*x*y + 6, 6)
    """
    if not isinstance(body, sympy.Add):
        return None
    coefficients: list[Any] = [term.as_coeff_Mul()[0] for term in body.args]
    if not all(coefficient.is_Rational for coefficient in coefficients):
        return None
    divisor = sympy.Integer(lcm(*(int(coefficient.q) for coefficient in coefficients)))
    if divisor == 1 or divisor > LARGEST_DIVISOR:
        return None
    return sympy.Add(*(divisor * term for term in body.args)), divisor


def log_of_one_more(body: Any) -> Any:
    """Return the `x` of `log(1 + x)`; None for anything else.

    >>> x, y = sympy.symbols("x y")
    >>> log_of_one_more(sympy.log(1 + x + y)), log_of_one_more(sympy.log(2 + x)) is None
    (x + y, True)
    """
    if not isinstance(body, sympy.log):
        return None
    total = body.args[0]
    if not isinstance(total, sympy.Add) or sympy.S.One not in total.args:
        return None
    return sympy.Add(*_without(total.args, sympy.S.One))


def _without(terms: Iterable[Any], *removed: Any) -> tuple[Any, ...]:
    """Return all terms but some, which are these objects."""
    return tuple(term for term in terms if not any(term is other for other in removed))


def exp_less_one(body: Any) -> tuple[Any, Any, tuple[Any, ...]] | None:
    """Return `c`, `x` and the other terms of the sum `c·(exp(x) - 1) + …`; None for anything else.

    >>> x, y = sympy.symbols("x y")
    >>> exp_less_one(2*sympy.exp(x) - 2 + y), exp_less_one(sympy.exp(x) + 1) is None
    ((2, x, (y,)), True)
    """
    if not isinstance(body, sympy.Add):
        return None
    number = next((term for term in body.args if term.is_Number), None)
    if number is None:
        return None
    for term in body.args:
        factor, function = term.as_coeff_Mul()
        if isinstance(function, sympy.exp) and factor == -number:
            return factor, function.args[0], _without(body.args, number, term)
    return None
