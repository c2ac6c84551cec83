"""The element type that a body computes, from those of the tensors that it reads."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, Integer

from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import is_float, promote
from einalg.language.ir.tensor import Access, unpadded


def result_dtype(body: Any) -> str:
    """Element type of a body: the promotion of what it reads; comparisons give bool, inexact
    functions a float.
    """
    found = _promoted(body)
    return "i64" if found == "bool" and not _is_truth(body) else found


def _is_truth(body: Any) -> bool:
    """Whether a body without a number type of its own holds truth values, and not integers."""
    if isinstance(body, (Access, sympy.Rel, sympy.logic.boolalg.Boolean)):
        return True
    if isinstance(body, Reduce):
        return _is_truth(body.body)
    if isinstance(body, sympy.Piecewise):
        return all(_is_truth(case.args[0]) for case in body.args)
    return isinstance(body, (sympy.Max, sympy.Min)) and all(_is_truth(a) for a in body.args)


def _promoted(body: Any) -> str:
    if isinstance(body, Access):
        return unpadded(body.base).dtype
    if isinstance(body, Reduce):
        inner = _promoted(body.body)
        return "i64" if inner == "bool" and body.op in ("Sum", "Prod") else inner
    if isinstance(body, (IndexArithmetic, Integer)):
        return "bool" if isinstance(body, Integer) else "i64"
    if isinstance(body, sympy.Piecewise):
        return promote(*(_promoted(case.args[0]) for case in body.args))
    if isinstance(body, (sympy.Rel, sympy.logic.boolalg.Boolean)):
        return "bool"
    if not body.args:
        return "f32" if body in (sympy.oo, -sympy.oo) or not body.is_Integer else "bool"
    constants, others = list[Any](), list[Any]()
    for a in body.args:
        (constants if a.is_number else others).append(a)
    inner = promote(*map(_promoted, others))
    if is_float(inner):
        return inner  # a constant never widens an f16
    return inner if _keeps_integers(body) and all(c.is_integer for c in constants) else "f32"


def _keeps_integers(body: Expr) -> bool:
    if isinstance(body, sympy.Pow):
        return bool(body.exp.is_Integer and body.exp >= 0)
    if isinstance(body, sympy.Mul):
        return not any(
            isinstance(a, sympy.Pow) and a.exp.is_negative or a.is_Rational and not a.is_Integer
            for a in body.args
        )
    return isinstance(body, (sympy.Add, sympy.Max, sympy.Min, sympy.Abs, sympy.sign))
