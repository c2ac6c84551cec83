"""Sums of fractions that are rounded or compared, and are computed as one fraction: thirds that are
rounded need not add up to 1.
"""

from __future__ import annotations

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
