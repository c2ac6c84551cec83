"""Scalar bodies as IR values: the types in which they are computed, and constants folded (design §2).

Element types narrower than a machine word are computed in a wider one (f16 in f32, i8 in i32) and rounded where they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any, Protocol

import sympy
from sympy.core.relational import Relational

from codegen.ir.nodes import Apply, IndexNumber, Number, Predicate, Value
from einalg.errors import CodegenError, NotationError
from einalg.language.analysis.log1p_expm1 import exp_less_one, log_of_one_more
from einalg.language.index.affine import Affine, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.remainder import ROUNDING, Mod
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import bounds, is_float, promote
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

WEAK, WEAK_FLOAT = "weak", "weak float"  # the types of constants: those of what they meet
FLOAT_FUNCTIONS: dict[Any, str] = {
    sympy.exp: "exp", sympy.log: "log", sympy.tanh: "tanh", sympy.erf: "erf", sympy.erfc: "erfc", sympy.sin: "sin", sympy.cos: "cos",
    sympy.tan: "tan", sympy.sinh: "sinh", sympy.cosh: "cosh", sympy.asin: "asin", sympy.acos: "acos", sympy.atan: "atan",
    sympy.atan2: "atan2", sympy.asinh: "asinh", sympy.acosh: "acosh", sympy.atanh: "atanh", sympy.gamma: "tgamma",
    sympy.loggamma: "lgamma", sympy.floor: "floor", sympy.ceiling: "ceil", Mod: "mod",
}  # fmt: skip
KEEPING_FUNCTIONS: dict[Any, str] = {
    sympy.Abs: "abs",
    sympy.sign: "sign",
    sympy.Max: "max",
    sympy.Min: "min",
}
COMPARISONS: dict[Any, str] = {
    sympy.StrictLessThan: "lt", sympy.LessThan: "le", sympy.StrictGreaterThan: "gt", sympy.GreaterThan: "ge", sympy.Eq: "eq", sympy.Ne: "ne",
}  # fmt: skip
LOGIC: dict[Any, str] = {sympy.And: "and", sympy.Or: "or", sympy.Xor: "ne", sympy.Not: "not"}
COMPUTED = {"bf16": "f32", "f16": "f32", "i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32"}


class Leaves(Protocol):
    """What the values of the parts that depend on the place in the loop nest are."""

    def access(self, access: Access) -> Value: ...
    def reduction(self, reduce: Reduce) -> Value: ...
    def holds(self, condition: Constraint) -> Value: ...
    def index(self, form: Affine) -> Affine: ...


def computed(dtype: str) -> str:
    """The type in which elements of `dtype` are computed.

    >>> computed("f16"), computed("u8"), computed("f64")
    ('f32', 'i32', 'f64')
    """
    return COMPUTED.get(dtype, dtype)


def constant(value: Any) -> Number:
    """A SymPy number, exactly where it is rational.

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
    """A SymPy number as an element of a type; an infinity is the least or the largest integer, whatever wider type it is computed in.

    >>> import sympy
    >>> element(-sympy.oo, "i8"), element(sympy.oo, "f16")
    (Number(value=-128, dtype='i32'), Number(value=inf, dtype='f32'))
    """
    if is_float(dtype) or value.is_finite:
        return Number(constant(value).value, computed(dtype))
    least, largest = bounds(dtype)
    return Number(largest if value > 0 else least, computed(dtype))


def translate(body: Any, leaves: Leaves) -> Value:
    """The value of a scalar body; `CodegenError` for a function that no printer has."""
    if isinstance(body, Access):
        return leaves.access(body)
    if isinstance(body, Reduce):
        return leaves.reduction(body)
    if not isinstance(body, sympy.Integer) and (arithmetic := index_form(body)) is not None:
        form = leaves.index(arithmetic)
        return IndexNumber(form) if form.terms else Number(form.const, "i64")
    if isinstance(body, sympy.Piecewise):
        return _piecewise(body, leaves)
    if isinstance(body, Relational):
        return _comparison(body, leaves)
    if not body.args or body.is_number:
        return constant(body)
    if isinstance(body, (sympy.Mul, sympy.Pow)):
        return _product(body, leaves)
    if (found := _near_zero(body, leaves)) is not None:
        return found
    if (
        isinstance(body, (sympy.floor, sympy.ceiling))
        and (fraction := _index_fraction(body.args[0])) is not None
    ):
        return _function(body, [_of_float("div", [translate(part, leaves) for part in fraction])])
    arguments = [translate(a, leaves) for a in body.args]
    if isinstance(body, sympy.Add):
        return apply("add", arguments)
    return _function(body, arguments)


def _index_fraction(body: Any) -> tuple[Any, Any] | None:
    """Return the sum of fractions of indices that a body is as one fraction: thirds that are rounded need not add up to 1.

    >>> i, j = sympy.symbols("i j")
    >>> _index_fraction(i*j/3 + i**2/2 + 1)
    (3*i**2 + 2*i*j + 6, 6)
    """
    if not isinstance(body, sympy.Add) or body.atoms(Access, Reduce):
        return None
    coefficients = [term.as_coeff_Mul()[0] for term in body.args]
    if not all(coefficient.is_Rational for coefficient in coefficients):
        return None
    divisor = sympy.Integer(lcm(*(int(coefficient.q) for coefficient in coefficients)))
    return None if divisor == 1 else (sympy.Add(*(divisor * term for term in body.args)), divisor)


def _near_zero(body: Any, leaves: Leaves) -> Value | None:
    """A sum or a logarithm by the function that keeps the digits of small numbers, where there is one."""
    if (inner := log_of_one_more(body)) is not None:
        return _of_float("log1p", [translate(inner, leaves)])
    if (parts := exp_less_one(body)) is None:
        return None
    times, inner, rest = parts
    found = _of_float("expm1", [translate(inner, leaves)])
    scaled = found if times == 1 else apply("mul", [constant(times), found])
    return apply("add", [scaled, *(translate(a, leaves) for a in rest)]) if rest else scaled


def _of_float(op: str, arguments: list[Value]) -> Value:
    dtype = common(arguments)
    return Apply(op, tuple(arguments), dtype if is_float(dtype) else "f32")


def _function(body: Any, arguments: list[Value]) -> Value:
    kind = type(body)
    if kind in KEEPING_FUNCTIONS:
        return apply(KEEPING_FUNCTIONS[kind], arguments)
    if kind in LOGIC:
        return apply(LOGIC[kind], arguments, "bool")
    if kind in FLOAT_FUNCTIONS:
        return _of_float(FLOAT_FUNCTIONS[kind], arguments)
    raise CodegenError(
        f"no code can be generated for the function {kind.__name__}\n  write it with exp, log, tanh, erf, sqrt, powers and Piecewise"
    )


def _product(body: Any, leaves: Leaves) -> Value:
    """A product with its negative powers as one division."""
    above, below = (
        list[tuple[Value, int]](),
        list[tuple[Value, int]](),
    )  # with how often each is a factor
    for factor in sympy.Mul.make_args(body):
        base, exponent = factor.as_base_exp() if factor.is_Pow else (factor, sympy.S.One)
        if isinstance(factor, sympy.Rational) and not factor.is_Integer and factor.is_finite:
            above.append((Number(int(factor.p), WEAK), 1))
            below.append((Number(int(factor.q), WEAK), 1))
        elif factor.is_number:
            above.append((constant(factor), 1))
        elif exponent.is_Number and exponent.is_negative:
            below.append(_power(translate(base, leaves), -exponent, leaves))
        else:
            above.append(_power(translate(base, leaves), exponent, leaves))
    top = _multiplied(above)
    if not below:
        return top
    bottom = _multiplied(below)
    dtype = common([top, bottom])
    return apply("div", [top, bottom], dtype if is_float(dtype) else "f32")


def _multiplied(factors: Sequence[tuple[Value, int]]) -> Value:
    """The product of values, each as often as is said: all of it is computed in one type."""
    dtype = common([value for value, _ in factors])
    return apply(
        "mul",
        [
            value if times == 1 else apply("ipow", [value, Number(times, WEAK)], dtype)
            for value, times in factors
        ],
    )


def _power(base: Value, exponent: Any, leaves: Leaves) -> tuple[Value, int]:
    """A power as a value, and how often this is a factor of it."""
    if exponent.is_Integer and not exponent.is_negative:
        return base, int(exponent)
    arguments = [base] if exponent == sympy.S.Half else [base, translate(exponent, leaves)]
    return _of_float("sqrt" if len(arguments) == 1 else "pow", arguments), 1


def _piecewise(body: Any, leaves: Leaves) -> Value:
    pieces = [
        (translate(condition, leaves), translate(value, leaves)) for value, condition in body.args
    ]
    dtype = common([value for _, value in pieces])
    total: Value = Number(float("nan") if is_float(dtype) else 0, dtype)
    for test, value in reversed(pieces):
        total = apply("select", [test, value, total], dtype)
    return total


def _comparison(body: Any, leaves: Leaves) -> Value:
    condition = index_condition(body)
    if isinstance(condition, Constraint):
        test = leaves.holds(condition)
        return apply("not", [test], "bool") if isinstance(body, sympy.Ne) else test
    return Apply(
        COMPARISONS[type(body)], (translate(body.lhs, leaves), translate(body.rhs, leaves)), "bool"
    )


def index_condition(body: Any) -> Constraint | None:
    """A comparison of index expressions as a condition (of `!=`, the opposite); None for any other comparison."""
    left, right = index_form(body.lhs), index_form(body.rhs)
    if left is None or right is None:
        return None
    if isinstance(body, (sympy.Eq, sympy.Ne)):
        return Constraint(left - right, "==")
    if isinstance(body, (sympy.GreaterThan, sympy.StrictGreaterThan)):
        left, right = right, left
    return Constraint(
        right
        - left
        - (1 if isinstance(body, (sympy.StrictLessThan, sympy.StrictGreaterThan)) else 0),
        ">=",
    )


def index_form(body: Any) -> Affine | None:
    """A part of a body that is made of indices and integers alone, as index arithmetic."""
    if isinstance(body, (IndexArithmetic, sympy.Integer)):
        return affine(body)
    if not isinstance(body, (sympy.Add, sympy.Mul, *ROUNDING)) or body.atoms(Access, Reduce):
        return None
    try:
        return affine(body)
    except NotationError:
        return None


def common(values: Sequence[Value]) -> str:
    """The type in which a function of these values is computed; constants widen nothing."""
    dtypes = [computed(v.dtype) for v in values if v.dtype not in (WEAK, WEAK_FLOAT)]
    whole = not any(v.dtype == WEAK_FLOAT for v in values)
    if dtypes:
        dtype = promote(*dtypes)
        return dtype if whole or is_float(dtype) else "f32"
    return (
        "f32"
        if not whole
        else "bool"
        if all(isinstance(v, Number) and v.value in (0, 1) for v in values)
        else "i64"
    )


def apply(op: str, arguments: list[Value], dtype: str = "") -> Value:
    """`op` of some values, simplified where they are constants."""
    dtype = dtype or common(arguments)
    if dtype == "bool" and op in ("add", "mul", "ipow"):
        dtype = "i64"
    fold = _FOLD.get(op)
    return fold(arguments, dtype) if fold else Apply(op, tuple(arguments), dtype)


def cast(value: Value, dtype: str) -> Value:
    """A value in another type."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Number):
        return Number(value.value, dtype)
    return Apply("cast", (value,), dtype)


def _is(value: Value, number: float) -> bool:
    return isinstance(value, Number) and value.value == number


def _flat(op: str, arguments: list[Value], dtype: str) -> list[Value]:
    """Arguments of an associative function, those of the same function and type opened."""
    return [
        b
        for a in arguments
        for b in (a.arguments if isinstance(a, Apply) and (a.op, a.dtype) == (op, dtype) else (a,))
    ]


def _add(arguments: list[Value], dtype: str) -> Value:
    kept = [a for a in _flat("add", arguments, dtype) if not _is(a, 0)]
    if len(kept) < 2:
        return cast(kept[0], dtype) if kept else Number(0, dtype)
    return Apply("add", tuple(kept), dtype)


def _mul(arguments: list[Value], dtype: str) -> Value:
    flat = _flat("mul", arguments, dtype)
    if any(_is(a, 0) for a in flat):
        return Number(0, dtype)
    kept = [a for a in flat if not _is(a, 1)]
    if any(_is(a, -1) for a in kept) and len(kept) > 1:
        kept.remove(next(a for a in kept if _is(a, -1)))
        return Apply("neg", (_mul(kept, dtype),), dtype)
    if len(kept) < 2:
        return cast(kept[0], dtype) if kept else Number(1, dtype)
    return Apply("mul", tuple(kept), dtype)


def _div(arguments: list[Value], dtype: str) -> Value:
    top, bottom = arguments
    if _is(top, 0) and dtype and not isinstance(bottom, Number):
        return Number(0, dtype)
    return cast(top, dtype) if _is(bottom, 1) else Apply("div", (top, bottom), dtype)


def _ipow(arguments: list[Value], dtype: str) -> Value:
    return Number(1, dtype) if _is(arguments[1], 0) else Apply("ipow", tuple(arguments), dtype)


def _extreme(op: str, identity: float) -> Any:
    def fold(arguments: list[Value], dtype: str) -> Value:
        kept = list(dict.fromkeys(a for a in _flat(op, arguments, dtype) if not _is(a, identity)))
        if len(kept) < 2:
            return cast(kept[0], dtype) if kept else Number(identity, dtype)
        kept.sort(
            key=lambda a: not isinstance(a, Number)
        )  # a NaN in the second place is kept by the comparison
        return Apply(op, tuple(kept), dtype)

    return fold


def _select(arguments: list[Value], dtype: str) -> Value:
    test, yes, no = arguments
    if isinstance(test, Number):
        return cast(yes if test.value else no, dtype)
    return cast(yes, dtype) if yes == no else Apply("select", (test, yes, no), dtype)


def _and(arguments: list[Value], dtype: str) -> Value:
    if any(_is(a, 0) for a in arguments):
        return Number(False, "bool")
    kept = [a for a in arguments if not isinstance(a, Number)]
    conditions = tuple(
        dict.fromkeys(c for a in kept if isinstance(a, Predicate) for c in a.conditions)
    )
    rest = [a for a in kept if not isinstance(a, Predicate)]
    parts = ([Predicate(conditions)] if conditions else []) + rest
    return (
        Number(True, "bool")
        if not parts
        else parts[0]
        if len(parts) == 1
        else Apply("and", tuple(parts), "bool")
    )


def _or(arguments: list[Value], dtype: str) -> Value:
    if any(isinstance(a, Number) and a.value for a in arguments):
        return Number(True, "bool")
    kept = [a for a in arguments if not isinstance(a, Number)]
    return (
        Number(False, "bool")
        if not kept
        else kept[0]
        if len(kept) == 1
        else Apply("or", tuple(kept), "bool")
    )


def _not(arguments: list[Value], dtype: str) -> Value:
    (test,) = arguments
    return (
        Number(not test.value, "bool")
        if isinstance(test, Number)
        else Apply("not", (test,), "bool")
    )


_FOLD: dict[str, Any] = {
    "add": _add, "mul": _mul, "div": _div, "ipow": _ipow, "max": _extreme("max", -float("inf")), "min": _extreme("min", float("inf")),
    "select": _select, "and": _and, "or": _or, "not": _not,
}  # fmt: skip


def computed_in(scope: Scope) -> str:
    """Half precision is summed in single precision, truth values in integers; BLAS has neither."""
    return computed(promote(scope.dtype, *(result_dtype(f) for f in _factors(scope.body))))


def _factors(body: Any) -> list[Access]:
    """The two reads of which the body is the product or the sum of products; none where it is neither."""
    factors_of = body.body if isinstance(body, Reduce) else body
    factors: Sequence[Any] = sympy.Mul.make_args(factors_of)
    if isinstance(factors_of, sympy.Pow) and factors_of.exp == 2:
        factors = (factors_of.base, factors_of.base)
    found = [f for f in factors if isinstance(f, Access)]
    return found if len(found) == len(factors) == 2 else []
