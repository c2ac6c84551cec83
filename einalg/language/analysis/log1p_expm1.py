"""What is written with a difference that loses the digits of small numbers, and is computed without
it: `log(1 + x)` and `exp(x) - 1`.
"""

from __future__ import annotations

from typing import Any

import sympy


def log_of_one_more(body: Any) -> Any:
    """The `x` of `log(1 + x)`; None for anything else.

    >>> x, y = sympy.symbols("x y")
    >>> log_of_one_more(sympy.log(1 + x + y)), log_of_one_more(sympy.log(2 + x)) is None
    (x + y, True)
    """
    inner = body.args[0] if isinstance(body, sympy.log) else None
    return (
        sympy.Add(*(a for a in inner.args if a is not sympy.S.One))
        if isinstance(inner, sympy.Add) and sympy.S.One in inner.args
        else None
    )


def exp_less_one(body: Any) -> tuple[Any, Any, tuple[Any, ...]] | None:
    """`c`, `x` and the other terms of the sum `c·(exp(x) - 1) + …`; None for anything else.

    >>> x, y = sympy.symbols("x y")
    >>> exp_less_one(2*sympy.exp(x) - 2 + y), exp_less_one(sympy.exp(x) + 1) is None
    ((2, x, (y,)), True)
    """
    number = (
        next((a for a in body.args if a.is_Number), None) if isinstance(body, sympy.Add) else None
    )
    if number is None:
        return None
    for term in body.args:
        times, function = term.as_coeff_Mul()
        if isinstance(function, sympy.exp) and times == -number:
            return (
                times,
                function.args[0],
                tuple(a for a in body.args if a is not number and a is not term),
            )
    return None
