"""Sums that lose the digits of small numbers, and are computed without a sum: `log(1 + x)` and
`exp(x) - 1`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy


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
