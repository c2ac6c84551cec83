"""Functions of SymPy as functions of values, each in the type in which it is computed."""

from __future__ import annotations

from math import inf
from typing import Any

import sympy

from codegen.ir.nodes import Apply, Number, Value
from codegen.ir.scalars.folding import apply
from codegen.ir.scalars.intervals import interval
from codegen.ir.types import (
    LONG,
    WEAK,
    are_integers,
    common,
    common_of_parts,
    computed,
    computed_float,
)
from einalg.errors import CodegenError
from einalg.language.analysis.ranges.value_ranges import value_range
from einalg.language.conditions import TESTS, isfinite, isnan
from einalg.language.conversion import HALVES, Conversion
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.ir.dtypes import holds, is_float

CALLED_FUNCTIONS: dict[Any, str] = {  # of a library, for numbers or for vectors of them
    sympy.exp: "exp",
    sympy.log: "log",
    sympy.tanh: "tanh",
    sympy.erf: "erf",
    sympy.erfc: "erfc",
    sympy.sin: "sin",
    sympy.cos: "cos",
    sympy.tan: "tan",
    sympy.sinh: "sinh",
    sympy.cosh: "cosh",
    sympy.asin: "asin",
    sympy.acos: "acos",
    sympy.atan: "atan",
    sympy.atan2: "atan2",
    sympy.asinh: "asinh",
    sympy.acosh: "acosh",
    sympy.atanh: "atanh",
    sympy.gamma: "tgamma",
    sympy.loggamma: "lgamma",
}
FLOAT_FUNCTIONS: dict[Any, str] = {
    **CALLED_FUNCTIONS,
    sympy.floor: "floor",
    sympy.ceiling: "ceil",
    Mod: "mod",
    Quotient: "quotient",
}
LARGEST_EXPONENT = 43  # of `exp_bounded`, whose scaled steps stay below the largest float
BOUNDED_FUNCTIONS = {"exp_bounded": "exp"}  # of single precision, and the general ones
INTEGER_FUNCTIONS: dict[Any, str] = {Mod: "mod", Quotient: "quotient"}  # of integers
SAME_TYPE_FUNCTIONS: dict[Any, str] = {
    sympy.Abs: "abs",
    sympy.sign: "sign",
    sympy.Max: "max",
    sympy.Min: "min",
}
COMPARISONS: dict[Any, str] = {
    sympy.StrictLessThan: "lt",
    sympy.LessThan: "le",
    sympy.StrictGreaterThan: "gt",
    sympy.GreaterThan: "ge",
    sympy.Eq: "eq",
    sympy.Ne: "ne",
}
BESIDE = {True: ("lt", "le"), False: ("gt", "ge")}  # what holds below a number, and above it
LOGIC: dict[Any, str] = {sympy.And: "and", sympy.Or: "or", sympy.Xor: "ne", sympy.Not: "not"}
ROUND = "round_"  # begins the names of the functions that round to a type of 16 bits


def calls_functions(body: Any) -> bool:
    """Return whether a body calls functions of a library, which compilers have in vectors.

    >>> import einalg as ea
    >>> x = ea.tensor("x", (8,))[0]
    >>> calls_functions(2 * sympy.exp(x)), calls_functions(x**sympy.Rational(1, 3))
    (True, True)
    >>> calls_functions(sympy.sqrt(x) + 1 / x**2 + sympy.floor(x))
    False
    """
    return any(map(_is_called, sympy.preorder_traversal(body)))


def _is_called(node: Any) -> bool:
    if isinstance(node, sympy.Pow):
        return not (node.exp.is_Integer or abs(node.exp) == sympy.S.Half)
    return isinstance(node, tuple(CALLED_FUNCTIONS))


def function_of(body: Any, arguments: list[Value]) -> Value:
    """Return the function that `body` is of some values; `CodegenError` where no printer has it."""
    kind = type(body)
    if isinstance(body, Conversion):
        return _converted(body.dtype, arguments[0])
    if kind in SAME_TYPE_FUNCTIONS:
        op = SAME_TYPE_FUNCTIONS[kind]
        dtype = common_of_parts(arguments, body.args, op)
        return apply(op, arguments, dtype)
    if kind in TESTS:
        return _test(kind, arguments[0])
    if kind in LOGIC:
        return apply(LOGIC[kind], arguments, "bool")
    if kind in INTEGER_FUNCTIONS and are_integers(arguments):
        dtype = common_of_parts(arguments, body.args)
        return of_integers(INTEGER_FUNCTIONS[kind], arguments, dtype)
    if kind is sympy.exp:
        return _exponential(body, arguments)
    if kind in FLOAT_FUNCTIONS:
        return of_float(FLOAT_FUNCTIONS[kind], arguments)
    raise CodegenError(
        f"no code can be generated for the function {kind.__name__}\n"
        "  write it with exp, log, tanh, erf, sqrt, powers and Piecewise"
    )


def _exponential(body: Any, arguments: list[Value]) -> Value:
    """Return an exponential, as one of small numbers where it is: no element of a row is larger
    than the largest.
    """
    if computed_float(common(arguments)) == "f32":
        _, high = value_range(body.args[0])
        if high <= LARGEST_EXPONENT:
            return of_float("exp_bounded", arguments)
    return of_float("exp", arguments)


def general_function(op: str) -> str:
    """Return the function of any numbers that one of bounded numbers is.

    >>> general_function("exp_bounded"), general_function("log")
    ('exp', 'log')
    """
    return BOUNDED_FUNCTIONS.get(op, op)


def of_float(op: str, arguments: list[Value]) -> Value:
    """Return a function with real values."""
    return Apply(op, tuple(arguments), computed_float(common(arguments)))


def of_integers(op: str, arguments: list[Value], dtype: str) -> Value:
    """Return a function of integers, which is one; truth values are computed as integers."""
    if dtype == "bool":
        dtype = LONG
    return Apply(op, tuple(arguments), dtype)


def rounded_quotient(operands: list[Value], dtype: str, is_up: bool) -> Value:
    """Return a quotient of integers, rounded down or up."""
    numerator, divisor = operands
    if isinstance(divisor, Number) and divisor.value == 1:
        return numerator
    quotient = of_integers("quotient", operands, dtype)
    if not is_up:
        return quotient
    rest = of_integers("mod", operands, dtype)
    has_rest = Apply("ne", (rest, Number(0, WEAK)), "bool")
    return apply("add", [quotient, has_rest], quotient.dtype)


def compared(relation: str, left: Value, right: Value) -> Value:
    """Return a comparison; an integer is on one side of a number that its type does not hold."""
    for number, other, sign in ((right, left, 1), (left, right, -1)):
        if not isinstance(number, Number) or number.dtype != WEAK:
            continue
        dtype = common([other])
        if is_float(dtype) or holds(dtype, number.value):
            continue
        low, high = interval(other)
        if low <= number.value <= high:
            continue
        is_above = sign * number.value > 0
        return Number(relation == "ne" or relation in BESIDE[is_above], "bool")
    return Apply(relation, (left, right), "bool")


def _test(kind: Any, value: Value) -> Value:
    """Return a test for NaN or infinities as a comparison, which integers do not need."""
    dtype = common([value])
    if not is_float(dtype):
        return Number(kind is isfinite, "bool")
    if kind is isnan:
        return Apply("ne", (value, value), "bool")
    relation = "eq"
    if kind is isfinite:
        relation = "lt"
    return Apply(relation, (Apply("abs", (value,), dtype), Number(inf, dtype)), "bool")


def _converted(dtype: str, value: Value) -> Value:
    """Return a number in single precision, rounded to a type of 16 bits where `dtype` is one; an
    integer in that of `dtype`.
    """
    if dtype in HALVES:
        return Apply(f"{ROUND}{dtype}", (value,), "f32")
    if computed(value.dtype) == dtype:
        return value
    return Apply("cast", (value,), dtype)
