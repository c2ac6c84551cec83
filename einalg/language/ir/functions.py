"""The scalar functions that a body may apply, by their names in the notation (design §2)."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair

from einalg.language.conditions import TESTS
from einalg.language.conversion import CONVERSIONS
from einalg.language.index.cases import Case, Piecewise
from einalg.language.index.remainder import Mod, Quotient

SYMPY_FUNCTIONS = """
    exp log tanh sqrt erf erfc gamma loggamma Abs sign floor ceiling Max Min Piecewise
    sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh Eq Ne And Or Not Xor
"""


FUNCTIONS: dict[str, Any] = {name: getattr(sympy, name) for name in SYMPY_FUNCTIONS.split()}
FUNCTIONS.update({"Mod": Mod, "Quotient": Quotient, "Piecewise": Piecewise})
FUNCTIONS.update((test.__name__, test) for test in TESTS)
FUNCTIONS.update(CONVERSIONS)


OPERATIONS = frozenset(
    function for function in FUNCTIONS.values() if isinstance(function, type)
) | {
    sympy.Add,
    sympy.Mul,
    sympy.Pow,
    sympy.StrictLessThan,
    sympy.LessThan,
    sympy.StrictGreaterThan,
    sympy.GreaterThan,
    sympy.Piecewise,
    ExprCondPair,
    Case,
}


REMEDIES: dict[str, str] = {
    "max": "Max(a, b), or Max[i](A[i]) over an index",
    "min": "Min(a, b), or Min[i](A[i]) over an index",
    "abs": "Abs(a)",
    "sum": "Sum[i](A[i])",
    "prod": "Prod[i](A[i])",
    "mean": "Sum[i:8](A[i])/8",
    "pow": "a**b",
    "relu": "Max(a, 0)",
    "sigmoid": "1/(1 + exp(-a))",
    "rsqrt": "1/sqrt(a)",
    "where": "Piecewise((a, condition), (b, True))",
    "select": "Piecewise((a, condition), (b, True))",
    "einsum": "C[i,j] += A[i,k]*B[k,j]",
    "clip": "Min(Max(a, low), high)",
    "ceil": "ceiling(a)",
    "round": "floor(a + 1/2)",
    "arctan": "atan(a)",
    "arcsin": "asin(a)",
    "arccos": "acos(a)",
}


def not_a_function(name: str) -> str:
    """Return the message for a function that no part of einalg computes."""
    remedy = f"known: {known_functions()}"
    if name in REMEDIES:
        remedy = f"write {REMEDIES[name]}"
    return f"{name} is not a function of the notation\n  {remedy}"


def known_functions() -> str:
    """Return the names of all functions, in alphabetical order."""
    return ", ".join(sorted(FUNCTIONS))
