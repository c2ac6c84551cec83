"""The words and signs of the text notation, and what to write instead of those of Python that it
has not.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import sympy
from sympy.logic.boolalg import Boolean

from einalg.language.conditions import disjunction
from einalg.language.index.remainder import quotient, remainder


def _either(left: Any, right: Any) -> Any:
    if isinstance(left, Boolean) and isinstance(right, Boolean):
        return disjunction(left, right)
    return operator.or_(left, right)


BINDERS = ("L", "Sum", "Max", "Min", "Prod")
CONSTANTS: dict[str, Any] = {"inf": sympy.oo, "oo": sympy.oo, "pi": sympy.pi, "E": sympy.E}
BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: quotient,
    ast.Mod: remainder,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: _either,
}
UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: sympy.Not,
}
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
}
MAX_TEXT = 100_000  # characters
MAX_DEPTH = 80  # nested brackets
MAX_PARTS = 20_000  # nodes of the grammar in one statement
MAX_ARGUMENTS = 64  # of one function, for SymPy compares those of Max and of Piecewise pairwise
MAX_NUMBER = 10**300  # what a float can hold, nearly
MAX_EXPONENT = 1000
MAX_GAMMA_ARGUMENT = 170  # the largest whole number whose factorial a float holds

REMEDIES_BY_NODE: dict[type, str] = {
    ast.BoolOp: "write & and | between comparisons in brackets: (i >= j) & (j >= 0)",
    ast.IfExp: "write Piecewise((a, condition), (b, True))",
    ast.ListComp: "write a reduction: Sum[i](A[i])",
    ast.GeneratorExp: "write a reduction: Sum[i](A[i])",
    ast.List: "write a tuple: (a, b)",
    ast.BitXor: "write a power as a**b",
    ast.MatMult: "write the sum that it stands for: C[i,j] += A[i,k]*B[k,j]",
    ast.In: "write a range: L[i:size](...)",
    ast.Is: "write Eq(a, b)",
    ast.Not: "write ~condition",
}
DEFAULT_REMEDY = "a body is made of accesses, numbers, indices and functions of them"
NODE_NAMES: dict[type, str] = {
    ast.BoolOp: "`and` and `or`",
    ast.IfExp: "`if`",
    ast.Lambda: "`lambda`",
    ast.JoinedStr: "text",
    ast.NamedExpr: "`:=`",
    ast.Starred: "`*`",
    ast.ListComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.List: "a list",
    ast.Dict: "a dictionary",
    ast.Set: "a set",
    ast.Await: "`await`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield`",
    ast.BitXor: "`^`",
    ast.MatMult: "`@`",
    ast.LShift: "`<<`",
    ast.RShift: "`>>`",
    ast.Slice: "a slice",
    ast.In: "`in`",
    ast.NotIn: "`not in`",
    ast.Is: "`is`",
    ast.IsNot: "`is not`",
    ast.Not: "`not`",
}


def not_in_notation(kind: type) -> str:
    """Return the message for a part of Python's grammar that is not part of the notation."""
    name = NODE_NAMES.get(kind, kind.__name__)
    verb = "are" if kind is ast.BoolOp else "is"
    return f"{name} {verb} not part of the notation\n  {REMEDIES_BY_NODE.get(kind, DEFAULT_REMEDY)}"
