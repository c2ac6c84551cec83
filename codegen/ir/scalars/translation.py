"""Scalar bodies as IR values (design §2)."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Protocol

import sympy
from sympy.core.relational import Relational

from codegen.ir.nodes import Apply, Buf, IndexNumber, Number, Predicate, Ref, Value
from codegen.ir.scalars.folding import apply, cast
from codegen.ir.scalars.functions import (
    COMPARISONS,
    compared,
    function_of,
    of_float,
    of_integers,
    rounded_quotient,
)
from codegen.ir.scalars.index_parts import index_condition, index_form, is_index_number
from codegen.ir.scalars.products import ProductFactor, quotient_of_products
from codegen.ir.scalars.settled_types import exact_type, fits, settled, type_with_sign
from codegen.ir.types import WEAK, WIDE, common_of_parts, computed, constant, longest
from einalg.language.analysis.accurate_forms import (
    as_one_fraction,
    exp_less_one,
    log_of_one_more,
    steps,
)
from einalg.language.index.affine import Affine, FloorDiv, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import ROUNDED, integer_quotient, result_dtype
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.tensor import Access

MOST_TYPES = 1000  # of reductions, which are remembered


class Leaves(Protocol):
    """The values of the parts of a body that depend on the place in the loop nest."""

    def access(self, access: Access) -> Value: ...
    def reduction(self, reduce: Reduce) -> Value: ...
    def holds(self, condition: Constraint) -> Value: ...
    def index(self, form: Affine) -> Affine: ...


def translate(body: Any, leaves: Leaves, whole: str = "") -> Value:
    """Return the value of a scalar body as it is stored, or as a part of one that is computed in
    type `whole`; `CodegenError` for a function that no printer has.
    """
    value = _value(body, leaves)
    if not whole and value.dtype == WIDE:
        whole = computed(result_dtype(body))
    value = settled(value, whole)
    if value.dtype == WIDE != whole:
        return cast(value, whole or computed(result_dtype(body)))
    return value


@lru_cache(MOST_TYPES)
def accumulated(reduce: Reduce) -> str:
    """Return the type in which a reduction is computed.

    Maxima and minima are as exact as those of a few values. Sums and products of integers wrap
    round in their type, which has a sign where some terms may be negative.

    >>> import einalg as ea
    >>> u, n, k = ea.tensor("u", (8,), "u64"), ea.tensor("n", (8,), "i32"), ea.indices("k")
    >>> accumulated(ea.Max[k:8](u[k])), accumulated(ea.Max[k:8](u[k] - u[0]))
    ('u64', 'i128')
    >>> accumulated(ea.Sum[k:8](n[k] - 1)), accumulated(ea.Sum[k:8](u[k] - n[k]))
    ('i32', 'i128')
    """
    dtype = computed(result_dtype(reduce))
    if dtype in ("f32", "bool"):
        return dtype
    value = _value(reduce.body, _Anywhere())
    if reduce.op == "Prod" and (is_float(dtype) or value.dtype == WIDE):
        return dtype
    if value.dtype == WIDE:
        return _accumulated_wide(reduce, value)
    if is_float(dtype):
        return dtype
    if reduce.op in ("Max", "Min"):
        exact = exact_type(dtype, [value])
        if exact.startswith("u") and not dtype.startswith("u"):
            return WIDE  # over no points, it is an end of its own type
        return exact
    return type_with_sign(dtype, [value])


def _accumulated_wide(reduce: Reduce, value: Value) -> str:
    """Return the type for a reduction of the longest integers; a float where none may hold it."""
    total = value
    if reduce.op == "Sum":
        count = Number(prod(it.extent for it in reduce.iterators), WEAK)
        total = Apply("mul", (count, value), WIDE)
    if fits(total, WIDE):
        return WIDE
    return computed(result_dtype(reduce))


class _Anywhere:
    """The values of the parts of a body anywhere."""

    def access(self, access: Access) -> Value:
        return self._any("element", result_dtype(access))

    def reduction(self, reduce: Reduce) -> Value:
        return self._any("reduction", accumulated(reduce))

    def holds(self, condition: Constraint) -> Value:
        return Predicate((condition,))

    def index(self, form: Affine) -> Affine:
        return form

    def _any(self, name: str, dtype: str) -> Value:
        return Ref(Buf(name, (), dtype), ())


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
    if not form.terms:
        return Number(form.const, "i64")
    if is_index_number(form):
        return IndexNumber(form)
    return _long_index_number(form)


def _long_index_number(form: Affine) -> Value:
    """Return index arithmetic that needs more than 64 bits as a sum of products."""
    terms: list[Value] = [constant(sympy.Integer(form.const))]
    parts: list[Any] = [sympy.Integer(form.const)]
    for atom, coefficient in form.terms:
        factors = [constant(sympy.Integer(coefficient)), _index_atom(atom)]
        multiplied = [sympy.Integer(coefficient), affine(atom)]
        terms.append(apply("mul", factors, common_of_parts(factors, multiplied, "mul")))
        parts.append(affine(Affine(0, (atom, coefficient))))
    return apply("add", terms, common_of_parts(terms, parts, "add"))


def _index_atom(atom: Any) -> Value:
    """Return an index, or a quotient or remainder of index arithmetic."""
    if isinstance(atom, Index) or is_index_number(affine(atom)):
        return IndexNumber(affine(atom))
    operands = [_index_number(atom.argument), constant(sympy.Integer(atom.divisor))]
    dtype = common_of_parts(operands, [atom.argument, sympy.Integer(atom.divisor)])
    if isinstance(atom, FloorDiv):
        return rounded_quotient(operands, dtype, False)
    return of_integers("mod", operands, dtype)


def _sum_or_function(body: Any, leaves: Leaves) -> Value:
    accurate = _near_zero(body, leaves)
    if accurate is not None:
        return accurate
    if isinstance(body, ROUNDED) and (quotient := integer_quotient(body.args[0])) is not None:
        operands = [_wide(part, leaves) for part in quotient]
        dtype = common_of_parts(operands, quotient)
        return rounded_quotient(operands, dtype, isinstance(body, sympy.ceiling))
    if steps(body):
        return function_of(body, [_operand(argument, leaves) for argument in body.args])
    arguments = [_value(argument, leaves) for argument in body.args]
    if isinstance(body, sympy.Add):
        return apply("add", arguments, common_of_parts(arguments, body.args, "add"))
    return function_of(body, arguments)


def _operand(body: Any, leaves: Leaves) -> Value:
    """Return the operand of a function that jumps, with a sum of fractions as one of them."""
    fraction = as_one_fraction(body)
    if fraction is None:
        return _value(body, leaves)
    return of_float("div", [_wide(part, leaves) for part in fraction])


def _wide(body: Any, leaves: Leaves) -> Value:
    """Return a part of a fraction, which may be larger than the fraction: sums and products of
    integers are computed in the longest type.
    """
    if isinstance(body, sympy.Add):
        terms = [_wide(term, leaves) for term in body.args]
        return apply("add", terms, longest(common_of_parts(terms, body.args, "add")))
    if isinstance(body, sympy.Mul):
        return _product(body, leaves, is_wide=True)
    return _value(body, leaves)


def _near_zero(body: Any, leaves: Leaves) -> Value | None:
    """Return a sum or a logarithm by the function that keeps the digits of small numbers.

    None where there is none.
    """
    inner = log_of_one_more(body)
    if inner is not None:
        return of_float("log1p", [_value(inner, leaves)])
    parts = exp_less_one(body)
    if parts is None:
        return None
    times, inner, rest = parts
    value: Value = of_float("expm1", [_value(inner, leaves)])
    if times != 1:
        value = apply("mul", [constant(times), value])
    if not rest:
        return value
    return apply("add", [value, *(_value(term, leaves) for term in rest)])


# Products.


def _product(body: Any, leaves: Leaves, is_wide: bool = False) -> Value:
    """Return a product with its negative powers as one division."""
    above: list[ProductFactor] = []
    below: list[ProductFactor] = []
    fraction = sympy.S.One
    for factor in sympy.Mul.make_args(body):
        if isinstance(factor, sympy.Rational) and not factor.is_Integer and factor.is_finite:
            fraction = factor
            continue
        base, exponent = factor, sympy.S.One
        if factor.is_Pow:
            base, exponent = factor.as_base_exp()
        if factor.is_number:
            above.append(ProductFactor(constant(factor), factor))
        elif exponent.is_Number and exponent.is_negative:
            below.append(_power(base, -exponent, leaves))
        else:
            above.append(_power(base, exponent, leaves))
    return quotient_of_products(above, below, fraction, is_wide)


def _power(base: Any, exponent: Any, leaves: Leaves) -> ProductFactor:
    value = _value(base, leaves)
    if exponent.is_Integer and not exponent.is_negative:
        return ProductFactor(value, base, int(exponent))
    if exponent == sympy.S.Half:
        return ProductFactor(of_float("sqrt", [value]), base)
    return ProductFactor(of_float("pow", [value, _value(exponent, leaves)]), base)


# Conditions.


def _piecewise(body: Any, leaves: Leaves) -> Value:
    pieces = []
    for value, condition in body.args:
        test = _value(condition, leaves)
        pieces.append((test, _value(value, leaves)))
    dtype = common_of_parts([value for _, value in pieces], [case.args[0] for case in body.args])
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
        return compared(COMPARISONS[type(body)], *sides)
    test = leaves.holds(condition)
    if isinstance(body, sympy.Ne):
        return apply("not", [test], "bool")
    return test
