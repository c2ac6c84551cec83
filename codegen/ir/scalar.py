"""Scalar bodies as IR values (design §2).

The types in which they are computed are chosen, and constants folded. Element types narrower than a
machine word are computed in a wider one (f16 in f32, i8 in i32) and rounded where they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, Protocol

import sympy
from sympy.core.relational import Relational

from codegen.ir import mixed_signs
from codegen.ir.folding import FOLDS
from codegen.ir.nodes import Apply, IndexNumber, Number, Value
from codegen.ir.settled_types import settled
from einalg.errors import CodegenError, NotationError
from einalg.language.analysis.log1p_expm1 import exp_less_one, log_of_one_more
from einalg.language.analysis.one_fraction import as_one_fraction, steps
from einalg.language.conditions import TESTS, isfinite, isnan
from einalg.language.conversion import HALVES, Conversion
from einalg.language.index.affine import Affine, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.remainder import ROUNDING, Mod, Quotient
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import (
    ROUNDED,
    integer_quotient,
    operation_dtype,
    result_dtype,
)
from einalg.language.ir.dtypes import bounds, holds, is_float, promote, widened
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

WEAK, WEAK_FLOAT = "weak", "weak float"  # the types of constants: those of what they meet
FLOAT_FUNCTIONS: dict[Any, str] = {
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
    sympy.floor: "floor",
    sympy.ceiling: "ceil",
    Mod: "mod",
    Quotient: "quotient",
}
LONG = "i64"
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
COMPUTED = {"bf16": "f32", "f16": "f32", "i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32"}


class Leaves(Protocol):
    """The values of the parts of a body that depend on the place in the loop nest."""

    def access(self, access: Access) -> Value: ...
    def reduction(self, reduce: Reduce) -> Value: ...
    def holds(self, condition: Constraint) -> Value: ...
    def index(self, form: Affine) -> Affine: ...


# Constants and types.


def computed(dtype: str) -> str:
    """Return the type in which elements of `dtype` are computed.

    >>> computed("f16"), computed("u8"), computed("f64")
    ('f32', 'i32', 'f64')
    """
    return COMPUTED.get(dtype, dtype)


def computed_float(dtype: str) -> str:
    """Return the type in which a function with real values is computed of values of a type."""
    if is_float(dtype):
        return dtype
    return "f32"


def constant(value: Any) -> Number:
    """Return a SymPy number, exactly where it is rational.

    >>> import sympy
    >>> constant(sympy.Rational(1, 3))
    Number(value=Fraction(1, 3), dtype='weak float')
    """
    if value is sympy.true or value is sympy.false:
        return Number(bool(value), "bool")
    if value.is_Integer:
        return Number(int(value), WEAK)
    if value.is_Rational and value.is_finite:
        return Number(Fraction(int(value.p), int(value.q)), WEAK_FLOAT)
    return Number(float(value), WEAK_FLOAT)


def element(value: Any, dtype: str) -> Number:
    """Return a SymPy number as an element of a type.

    An infinity is the least or the largest integer, whatever wider type it is computed in.

    >>> import sympy
    >>> element(-sympy.oo, "i8"), element(sympy.oo, "f16")
    (Number(value=-128, dtype='i32'), Number(value=inf, dtype='f32'))
    """
    if is_float(dtype) or value.is_finite:
        return Number(constant(value).value, computed(dtype))
    least, largest = bounds(dtype)
    if value > 0:
        return Number(largest, computed(dtype))
    return Number(least, computed(dtype))


def common(values: Sequence[Value], op: str = "") -> str:
    """Return the type in which a function of some values is computed; constants widen nothing but
    truth values, where they are none, and integers that do not hold them.
    """
    has_float_constant = any(value.dtype == WEAK_FLOAT for value in values)
    constants = [value for value in values if value.dtype == WEAK]
    dtypes = [computed(v.dtype) for v in values if v.dtype not in (WEAK, WEAK_FLOAT)]
    if dtypes:
        dtype = promote(*dtypes)
        if has_float_constant:
            return computed_float(dtype)
        if is_float(dtype):
            return dtype
        if dtype == "bool" and not all(map(_is_truth_constant, constants)):
            dtype = LONG
        return widened(dtype, _integers(constants), op)
    if has_float_constant:
        return "f32"
    if all(map(_is_truth_constant, values)):
        return "bool"
    return widened(LONG, _integers(constants), op)


def _common_of_parts(values: Sequence[Value], parts: Sequence[Any], op: str = "") -> str:
    """Return the type in which a function of some parts of a body is computed.

    Integers of 64 bits without sign stay integers beside narrow ones without, which are computed
    with a sign: their own types count.
    """
    dtype = common(values, op)
    if dtype == "f64" and _are_integers(values):
        return computed(operation_dtype(parts, op))
    return dtype


def _integers(constants: Iterable[Value]) -> list[int]:
    """Return the numbers among some constants, without infinities."""
    numbers = [constant.value for constant in constants if isinstance(constant, Number)]
    return [int(number) for number in numbers if abs(number) != inf]


def _is_truth_constant(value: Value) -> bool:
    return isinstance(value, Number) and value.value in (0, 1)


def computed_in(scope: Scope) -> str:
    """Return the type in which the products of a scope are summed.

    Half precision is summed in single precision, truth values in integers; BLAS has neither.
    """
    factors = map(result_dtype, _factors(scope.body))
    return computed(promote(scope.dtype, *factors))


def _factors(body: Any) -> list[Access]:
    """Return the two reads of which a body is the product, or a sum of products; else none."""
    if isinstance(body, Reduce):
        body = body.body
    factors: Sequence[Any] = sympy.Mul.make_args(body)
    if isinstance(body, sympy.Pow) and body.exp == 2:
        factors = (body.base, body.base)
    reads = [factor for factor in factors if isinstance(factor, Access)]
    if len(reads) == len(factors) == 2:
        return reads
    return []


# Bodies.


def translate(body: Any, leaves: Leaves) -> Value:
    """Return the value of a scalar body; `CodegenError` for a function that no printer has."""
    return settled(_value(body, leaves))


def _value(body: Any, leaves: Leaves) -> Value:
    if isinstance(body, Access):
        return leaves.access(body)
    if isinstance(body, Reduce):
        return leaves.reduction(body)
    if not isinstance(body, sympy.Integer) and (arithmetic := index_form(body)) is not None:
        return _index_number(leaves.index(arithmetic))
    if isinstance(body, sympy.Piecewise):
        return _piecewise(body, leaves)
    if isinstance(body, Relational):
        return _comparison(body, leaves)
    if not body.args or body.is_number:
        return constant(body)
    if isinstance(body, (sympy.Mul, sympy.Pow)):
        return _product(body, leaves)
    return _sum_or_function(body, leaves)


def _index_number(form: Affine) -> Value:
    if form.terms:
        return IndexNumber(form)
    return Number(form.const, "i64")


def _sum_or_function(body: Any, leaves: Leaves) -> Value:
    accurate = _near_zero(body, leaves)
    if accurate is not None:
        return accurate
    if isinstance(body, ROUNDED) and (quotient := integer_quotient(body.args[0])) is not None:
        operands = [_wide(part, leaves) for part in quotient]
        dtype = _common_of_parts(operands, quotient)
        return _rounded_integers(operands, dtype, isinstance(body, sympy.ceiling))
    if steps(body):
        return _function(body, [_operand(argument, leaves) for argument in body.args])
    arguments = [_value(argument, leaves) for argument in body.args]
    if isinstance(body, sympy.Add):
        return apply("add", arguments, _common_of_parts(arguments, body.args, "add"))
    return _function(body, arguments)


def _operand(body: Any, leaves: Leaves) -> Value:
    """Return the operand of a function that jumps, with a sum of fractions as one of them."""
    fraction = as_one_fraction(body)
    if fraction is None:
        return _value(body, leaves)
    return _of_float("div", [_wide(part, leaves) for part in fraction])


def _wide(body: Any, leaves: Leaves) -> Value:
    """Return a part of a fraction, which may be larger than the fraction: sums and products of
    integers are computed in the longest type.
    """
    if isinstance(body, sympy.Add):
        terms = [_wide(term, leaves) for term in body.args]
        return apply("add", terms, _long(_common_of_parts(terms, body.args, "add")))
    if isinstance(body, sympy.Mul):
        return _product(body, leaves, is_wide=True)
    return _value(body, leaves)


def _long(dtype: str) -> str:
    """Return the longest type of integers for one of them; a float as it is."""
    if is_float(dtype) or dtype == "u64":
        return dtype
    return LONG


def _rounded_integers(operands: list[Value], dtype: str, is_up: bool) -> Value:
    """Return a quotient of integers, rounded down or up."""
    numerator, divisor = operands
    if isinstance(divisor, Number) and divisor.value == 1:
        return numerator
    quotient = _of_integers("quotient", operands, dtype)
    if not is_up:
        return quotient
    rest = _of_integers("mod", operands, dtype)
    has_rest = Apply("ne", (rest, Number(0, WEAK)), "bool")
    return apply("add", [quotient, has_rest], quotient.dtype)


def _near_zero(body: Any, leaves: Leaves) -> Value | None:
    """Return a sum or a logarithm by the function that keeps the digits of small numbers.

    None where there is none.
    """
    inner = log_of_one_more(body)
    if inner is not None:
        return _of_float("log1p", [_value(inner, leaves)])
    parts = exp_less_one(body)
    if parts is None:
        return None
    times, inner, rest = parts
    value: Value = _of_float("expm1", [_value(inner, leaves)])
    if times != 1:
        value = apply("mul", [constant(times), value])
    if not rest:
        return value
    return apply("add", [value, *(_value(term, leaves) for term in rest)])


def _are_integers(values: Sequence[Value]) -> bool:
    return not any(value.dtype == WEAK_FLOAT or is_float(computed(value.dtype)) for value in values)


def _of_integers(op: str, arguments: list[Value], dtype: str) -> Value:
    """Return a function of integers, which is one; truth values are computed as integers."""
    if mixed_signs.is_mixed(arguments):
        left, right = arguments
        return mixed_signs.FUNCTIONS[op](left, right, dtype)
    if dtype == "bool":
        dtype = LONG
    return Apply(op, tuple(arguments), dtype)


def _of_float(op: str, arguments: list[Value]) -> Value:
    return Apply(op, tuple(arguments), computed_float(common(arguments)))


def _function(body: Any, arguments: list[Value]) -> Value:
    kind = type(body)
    if isinstance(body, Conversion):
        return _converted(body.dtype, arguments[0])
    if kind in SAME_TYPE_FUNCTIONS:
        op = SAME_TYPE_FUNCTIONS[kind]
        dtype = _common_of_parts(arguments, body.args, op)
        if op == "max" and dtype == "u64":
            arguments = list(map(mixed_signs.from_zero, arguments))
        return apply(op, arguments, dtype)
    if kind in TESTS:
        return _test(kind, arguments[0])
    if kind in LOGIC:
        return apply(LOGIC[kind], arguments, "bool")
    if kind in INTEGER_FUNCTIONS and _are_integers(arguments):
        dtype = common(arguments)
        if dtype == "f64":
            dtype = computed(result_dtype(body))
        return _of_integers(INTEGER_FUNCTIONS[kind], arguments, dtype)
    if kind in FLOAT_FUNCTIONS:
        return _of_float(FLOAT_FUNCTIONS[kind], arguments)
    raise CodegenError(
        f"no code can be generated for the function {kind.__name__}\n"
        "  write it with exp, log, tanh, erf, sqrt, powers and Piecewise"
    )


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
    """Return a number in single precision, rounded to a type of 16 bits where `dtype` is one."""
    op = "cast"
    if dtype in HALVES:
        op = f"{ROUND}{dtype}"
    elif computed(value.dtype) == dtype:
        return value
    return Apply(op, (value,), "f32")


# Products.


@dataclass(frozen=True)
class _Factor:
    """A factor of a product, the part of the body that it is, and how often it is one."""

    value: Value
    part: Any
    times: int = 1


def _product(body: Any, leaves: Leaves, is_wide: bool = False) -> Value:
    """Return a product with its negative powers as one division.

    What is divided may be larger than the quotient, and is as wide as a part of a fraction.
    """
    above: list[_Factor] = []
    below: list[_Factor] = []
    fraction = sympy.S.One
    for factor in sympy.Mul.make_args(body):
        if isinstance(factor, sympy.Rational) and not factor.is_Integer and factor.is_finite:
            fraction = factor
            continue
        base, exponent = factor, sympy.S.One
        if factor.is_Pow:
            base, exponent = factor.as_base_exp()
        if factor.is_number:
            above.append(_Factor(constant(factor), factor))
        elif exponent.is_Number and exponent.is_negative:
            below.append(_power(base, -exponent, leaves))
        else:
            above.append(_power(base, exponent, leaves))
    if _is_scaled_first(fraction, above):
        place = [isinstance(factor.value, Number) for factor in above].index(False)
        above[place] = _scaled(above[place], fraction)
    elif fraction != 1:
        above.insert(0, _integer_factor(fraction.p))
        below.insert(0, _integer_factor(fraction.q))
    top = _multiplied(above, is_wide=is_wide or bool(below))
    if not below:
        return top
    bottom = _multiplied(below, is_wide=True)
    return apply("div", [top, bottom], computed_float(common([top, bottom])))


def _is_scaled_first(fraction: Any, factors: Sequence[_Factor]) -> bool:
    """Return whether a product of floats is multiplied by a fraction first, which rounds nothing.

    The product alone may be too large for its type.
    """
    elements = [f.value for f in factors if not isinstance(f.value, Number)]
    if len(elements) < 2 or abs(fraction) > 1 or int(fraction.q).bit_count() > 1:
        return False
    return fraction != 1 and all(is_float(computed(value.dtype)) for value in elements)


def _scaled(factor: _Factor, fraction: Any) -> _Factor:
    """Return a factor times a number, as a function: a compiler would multiply by numbers last."""
    value = _multiplied([factor])
    return _Factor(_of_float("scale", [value, constant(fraction)]), factor.part)


def _multiplied(factors: Sequence[_Factor], is_wide: bool = False) -> Value:
    """Return the product of some factors, all of which is computed in one type."""
    values = [factor.value for factor in factors]
    dtype = _common_of_parts(values, [factor.part for factor in factors], "mul")
    if is_wide and (len(factors) != 1 or factors[0].times != 1):
        dtype = _long(dtype)
    values = []
    tests: list[Apply] = []
    for factor in factors:
        value = factor.value
        test = _test_of(value)
        if is_float(dtype) and test is not None:
            tests.append(test)
            continue
        if factor.times != 1:
            value = apply("ipow", [value, Number(factor.times, WEAK)], dtype)
        values.append(value)
    if tests and (not values or common(values) != dtype):
        return apply("mul", [*values, *tests])
    product = apply("mul", values, dtype)
    for test in tests:
        product = _where_true(test, product, dtype)
    return product


def _test_of(value: Value) -> Apply | None:
    """Return a value that is 1 where a condition holds, and 0 elsewhere; None for any other."""
    if not isinstance(value, Apply) or value.op != "select":
        return None
    _, yes, no = value.arguments
    if isinstance(yes, Number) and isinstance(no, Number) and (yes.value, no.value) == (1, 0):
        return value
    return None


def _where_true(test: Apply, product: Value, dtype: str) -> Value:
    """Return a product times 1 or 0: what is NaN or infinite makes NaN with the 0.

    It is a difference, for gcc takes 0 for the product with 0 in its vectors.
    """
    rest = apply("select", [test.arguments[0], Number(0, dtype), product], dtype)
    return apply("add", [product, Apply("neg", (rest,), dtype)], dtype)


def _integer_factor(number: int) -> _Factor:
    return _Factor(Number(int(number), WEAK), sympy.Integer(number))


def _power(base: Any, exponent: Any, leaves: Leaves) -> _Factor:
    value = _value(base, leaves)
    if exponent.is_Integer and not exponent.is_negative:
        return _Factor(value, base, int(exponent))
    if exponent == sympy.S.Half:
        return _Factor(_of_float("sqrt", [value]), base)
    return _Factor(_of_float("pow", [value, _value(exponent, leaves)]), base)


# Conditions.


def _piecewise(body: Any, leaves: Leaves) -> Value:
    pieces = []
    for value, condition in body.args:
        test = _value(condition, leaves)
        pieces.append((test, _value(value, leaves)))
    dtype = _common_of_parts([value for _, value in pieces], [case.args[0] for case in body.args])
    total: Value = Number(0, dtype)
    if is_float(dtype):
        total = Number(float("nan"), dtype)
    for test, value in reversed(pieces):
        total = apply("select", [test, value, total], dtype)
    return total


def _comparison(body: Any, leaves: Leaves) -> Value:
    condition = index_condition(body)
    if condition is None:
        sides = _operand(body.lhs, leaves), _operand(body.rhs, leaves)
        return _compared(COMPARISONS[type(body)], *sides)
    test = leaves.holds(condition)
    if isinstance(body, sympy.Ne):
        return apply("not", [test], "bool")
    return test


def _compared(relation: str, left: Value, right: Value) -> Value:
    """Return a comparison; an integer is on one side of a number that its type does not hold."""
    for number, other, sign in ((right, left, 1), (left, right, -1)):
        if not isinstance(number, Number) or number.dtype != WEAK:
            continue
        dtype = common([other])
        if dtype == "bool":
            dtype = LONG
        if is_float(dtype) or holds(dtype, number.value):
            continue
        is_above = sign * number.value > 0
        return Number(relation == "ne" or relation in BESIDE[is_above], "bool")
    if mixed_signs.is_mixed([left, right]):
        return mixed_signs.compared(relation, left, right)
    return Apply(relation, (left, right), "bool")


def index_condition(body: Any) -> Constraint | None:
    """Return a comparison of index expressions as a condition; of `!=`, the opposite.

    None for any other comparison.
    """
    left, right = index_form(body.lhs), index_form(body.rhs)
    if left is None or right is None:
        return None
    if isinstance(body, (sympy.Eq, sympy.Ne)):
        return Constraint(left - right, "==")
    if isinstance(body, (sympy.GreaterThan, sympy.StrictGreaterThan)):
        left, right = right, left
    difference = right - left
    if isinstance(body, (sympy.StrictLessThan, sympy.StrictGreaterThan)):
        difference = difference - 1
    return Constraint(difference, ">=")


def index_form(body: Any) -> Affine | None:
    """Return a part of a body that is made of indices and integers alone, as index arithmetic."""
    if isinstance(body, (IndexArithmetic, sympy.Integer)):
        return affine(body)
    if not isinstance(body, (sympy.Add, sympy.Mul, *ROUNDING)) or body.has(Access, Reduce):
        return None
    try:
        return affine(body)
    except NotationError:
        return None


# Applications.


def apply(op: str, arguments: list[Value], dtype: str = "") -> Value:
    """Return `op` of some values, simplified where they are constants."""
    dtype = dtype or common(arguments, op)
    if dtype == "bool" and op in ("add", "mul", "ipow", "abs", "sign"):
        dtype = LONG
    fold = FOLDS.get(op)
    if fold is None:
        return Apply(op, tuple(arguments), dtype)
    return fold(arguments, dtype)
