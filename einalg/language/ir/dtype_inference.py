"""Inference of the element type of a body from those of the tensors that it reads."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm
from typing import Any

import sympy
from sympy import Expr

from einalg.language.conversion import Conversion
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import is_float, promote, widened
from einalg.language.ir.tensor import Access, unpadded

ROUNDED = (sympy.floor, sympy.ceiling)
SIGNED = "i8"  # with which an unsigned type gives a signed one that holds its numbers
OPERATIONS = {sympy.Add: "add", sympy.Mul: "mul", sympy.Max: "max", sympy.Min: "min"}
KEEPING_INTEGERS = (sympy.Add, sympy.Max, sympy.Min, sympy.Abs, sympy.sign, Mod, Quotient)


def result_dtype(body: Any) -> str:
    """Return the element type of a body: the promotion of what it reads; comparisons give bool,
    inexact functions a float. Rounded quotients and remainders of integers are integers.
    """
    dtype = _promoted(body)
    if dtype == "bool" and not _is_truth(body):
        return _holding("i64", [body])
    return dtype


def _is_truth(body: Any) -> bool:
    """Return whether a body without a number type of its own holds truth values, and not
    integers.
    """
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
        return _promoted_reduction(body)
    if isinstance(body, IndexArithmetic):
        return "i64"
    if isinstance(body, Conversion):
        return body.dtype
    if isinstance(body, sympy.Piecewise):
        values = [case.args[0] for case in body.args]
        return _holding(promote(*map(_promoted, values)), values)
    if isinstance(body, (sympy.Rel, sympy.logic.boolalg.Boolean)):
        return "bool"
    if body.is_number:
        return "bool" if body.is_integer else "f32"
    return _promoted_operands(body)


def _promoted_reduction(node: Reduce) -> str:
    """Return the type of a reduction; sums and products count truth values."""
    inner = _promoted(node.body)
    if inner == "bool" and node.op in ("Sum", "Prod"):
        return "i64"
    return inner


def _promoted_operands(body: Any) -> str:
    """Return the promotion of the operands of an operation or function."""
    if isinstance(body, ROUNDED) and (quotient := integer_quotient(body.args[0])) is not None:
        return _promoted_quotient(*quotient)
    constants, others = _constants_and_others(body.args)
    inner = promote(*map(_promoted, others))
    if is_float(inner):
        return inner  # a constant never widens an f16
    if isinstance(body, (Mod, Quotient)) and body.args[1].is_negative:
        inner = promote(inner, SIGNED)
    if _keeps_integers(body) and all(constant.is_integer for constant in constants):
        if body.is_Pow:
            return inner
        return _holding(inner, constants, OPERATIONS.get(type(body), ""))
    return "f32"


def operation_dtype(operands: Iterable[Any], op: str = "") -> str:
    """Return the type of an operation that keeps the type of its operands; constants widen only
    integers that do not hold them.

    >>> import einalg as ea
    >>> n, m, i = ea.tensor("n", (8,), "u64"), ea.tensor("m", (8,), "u8"), ea.indices("i")
    >>> operation_dtype([n[i], m[i] - 7], "add"), operation_dtype([m[i], sympy.Integer(300)])
    ('u64', 'i16')
    """
    constants, others = _constants_and_others(operands)
    return _holding(promote(*map(_promoted, others)), constants, op)


def _constants_and_others(operands: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    constants, others = list[Any](), list[Any]()
    for operand in operands:
        (constants if operand.is_number else others).append(operand)
    return constants, others


def _holding(dtype: str, values: Iterable[Any], op: str = "") -> str:
    """Return a type, or a wider one that holds those of some values that are constants."""
    if is_float(dtype):
        return dtype
    constants = [int(value) for value in values if value.is_number and value.is_integer]
    return widened(dtype, constants, op)


def _keeps_integers(body: Expr) -> bool:
    """Return whether an operation gives integers for integers."""
    if isinstance(body, sympy.Pow):
        return bool(body.exp.is_Integer and body.exp >= 0)
    if isinstance(body, sympy.Mul):
        return not any(map(_is_divisor, body.args))
    return isinstance(body, KEEPING_INTEGERS)


def _is_divisor(factor: Any) -> bool:
    """Return whether a factor divides: `1/a`, or a fraction."""
    if isinstance(factor, sympy.Pow):
        return bool(factor.exp.is_negative)
    return bool(factor.is_Rational and not factor.is_Integer)


def integer_quotient(body: Any) -> tuple[Any, Any] | None:
    """Return the integers of which a body is the quotient, as one numerator and one divisor: what
    is rounded down or up is then an integer. None where it is no quotient of integers.

    >>> import einalg as ea
    >>> n, x, i = ea.tensor("n", (8,), "i32"), ea.tensor("x", (8,)), ea.indices("i")
    >>> integer_quotient(n[i] / 2 + sympy.Rational(1, 3)), integer_quotient(n[i] / n[0])
    ((3*n[i] + 2, 6), (n[i], n[0]))
    >>> integer_quotient(n[i] * (n[i] / 2 + sympy.Rational(1, 3)))
    ((3*n[i] + 2)*n[i], 6)
    >>> integer_quotient(x[i] / 2)
    """
    numerator, divisor = _over_one_divisor(body)
    if divisor.is_Integer and numerator.is_Mul and numerator.args[0] == -1:
        numerator, divisor = -numerator, -divisor  # the least integer has no opposite
    for part in (numerator, divisor):
        if not part.is_Integer and is_float(_promoted(part)):
            return None
    return numerator, divisor


def _promoted_quotient(numerator: Any, divisor: Any) -> str:
    """Return the type of a rounded quotient of integers; one with a minus is signed."""
    dtype = promote(*(_promoted(part) for part in (numerator, divisor) if not part.is_Integer))
    dtype = _holding(dtype, [numerator])
    terms = sympy.Add.make_args(numerator)
    if divisor.is_negative or any(term.as_coeff_Mul()[0].is_negative for term in terms):
        return promote(dtype, SIGNED)
    return dtype


def _over_one_divisor(body: Any) -> tuple[Any, Any]:
    """Return a body as a numerator and a divisor: of a sum with rational coefficients, or of a
    product or power of such sums, that is a number.
    """
    terms = sympy.Add.make_args(body)
    if len(terms) == 1:
        return _product_over_one_divisor(body)
    parts = list(map(_over_one_divisor, terms))
    if not all(divisor.is_Integer for _, divisor in parts):
        return body, sympy.S.One
    whole = sympy.Integer(lcm(*(int(divisor) for _, divisor in parts)))
    return sympy.Add(*(whole // divisor * numerator for numerator, divisor in parts)), whole


def _product_over_one_divisor(body: Any) -> tuple[Any, Any]:
    numerators, divisors = list[Any](), list[Any]()
    others: list[Any] = []
    for factor in sympy.Mul.make_args(body):
        base, exponent = factor.as_base_exp()
        if not base.is_Add or not exponent.is_Integer or exponent < 0:
            others.append(factor)
            continue
        numerator, divisor = _over_one_divisor(base)
        numerators.append(numerator**exponent)
        divisors.append(divisor**exponent)
    if all(divisor == 1 for divisor in divisors):
        return sympy.fraction(body, exact=True)
    numerator, divisor = sympy.fraction(sympy.Mul(*others), exact=True)
    return sympy.Mul(numerator, *numerators), sympy.Mul(divisor, *divisors)
