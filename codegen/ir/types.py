"""The types in which scalars are computed, and constants.

Element types narrower than a machine word are computed in a wider one (f16 in f32, i8 in i32) and
rounded where they are stored. Integers of 64 bits with and without a sign are computed together in
one of 128, which no element has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf
from typing import Any

import sympy

from codegen.ir.nodes import Number, Value
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtype_inference import operation_dtype, result_dtype
from einalg.language.ir.dtypes import (
    bounds,
    holds,
    is_float,
    numpy_dtype,
    promote,
    widened,
)
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

WEAK, WEAK_FLOAT = "weak", "weak float"  # the types of constants: those of what they meet
LONG, WIDE = "i64", "i128"
WIDE_BYTES = 16
COMPUTED = {"bf16": "f32", "f16": "f32", "i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32"}


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
    if dtype == WIDE:
        return "f64"
    return "f32"


def bytes_of(dtype: str) -> int:
    """Return the size of a value of a type.

    >>> bytes_of("f32"), bytes_of("i128")
    (4, 16)
    """
    if dtype == WIDE:
        return WIDE_BYTES
    return numpy_dtype(dtype).itemsize


def joined(*dtypes: str) -> str:
    """Return the type in which values of some types are computed together.

    >>> joined("i32", "f32"), joined("u64", "i32"), joined("i128", "u64"), joined("i128", "f32")
    ('f32', 'i128', 'i128', 'f64')
    """
    narrower = [dtype for dtype in dtypes if dtype != WIDE]
    if len(narrower) == len(dtypes):
        return _in_integers(promote(*dtypes), dtypes)
    if any(map(is_float, narrower)):
        return promote("f64", *narrower)
    return WIDE


def _in_integers(dtype: str, parts: Iterable[str]) -> str:
    """Return the promotion of some types: of integers, one of integers."""
    if dtype == "f64" and not any(map(is_float, parts)):
        return WIDE
    return dtype


def widened_to(dtype: str, numbers: Sequence[int], op: str = "") -> str:
    """Return a type of integers, or a wider one that holds constants too; f64 where none does.

    >>> widened_to("u64", [-1]), widened_to("i32", [2**33]), widened_to("i64", [2**200])
    ('i128', 'i64', 'f64')
    """
    if dtype != WIDE:
        dtype = _in_integers(widened(dtype, numbers, op), [dtype])
    if dtype == WIDE and not all(holds(WIDE, number) for number in numbers):
        return "f64"
    return dtype


def constant(value: Any) -> Number:
    """Return a SymPy number, exactly where it is rational.

    >>> import sympy
    >>> constant(sympy.Rational(1, 3))
    Number(value=Fraction(1, 3), dtype='weak float')
    """
    if value is sympy.true or value is sympy.false:
        return Number(bool(value), "bool")
    if value.is_integer:
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
        dtype = joined(*dtypes)
        if has_float_constant:
            return computed_float(dtype)
        if is_float(dtype):
            return dtype
        if dtype == "bool" and not all(map(_is_truth_constant, constants)):
            dtype = LONG
        return widened_to(dtype, _integers(constants), op)
    if has_float_constant:
        return "f32"
    if all(map(_is_truth_constant, values)):
        return "bool"
    return widened_to(LONG, _integers(constants), op)


def common_of_parts(values: Sequence[Value], parts: Sequence[Any], op: str = "") -> str:
    """Return the type in which a function of some parts of a body is computed.

    The types of the parts count where narrow integers, all of which are computed as `i32`, meet
    integers of 64 bits without sign, or constants that widen them.
    """
    dtype = common(values, op)
    are_constants = [value.dtype == WEAK for value in values]
    if all(are_constants) or not are_integers(values):
        return dtype
    may_be_wider = dtype in ("i32", LONG) and any(are_constants)
    if dtype != WIDE and not may_be_wider:
        return dtype
    declared = operation_dtype(parts, op)
    if declared == "u64":
        return declared
    if dtype == WIDE or is_float(declared):
        return dtype
    return promote(dtype, computed(declared))


def _integers(constants: Iterable[Value]) -> list[int]:
    """Return the numbers among some constants, without infinities."""
    numbers = [constant.value for constant in constants if isinstance(constant, Number)]
    return [int(number) for number in numbers if abs(number) != inf]


def _is_truth_constant(value: Value) -> bool:
    return isinstance(value, Number) and value.value in (0, 1)


def are_integers(values: Sequence[Value]) -> bool:
    return not any(value.dtype == WEAK_FLOAT or is_float(computed(value.dtype)) for value in values)


def longest(dtype: str) -> str:
    """Return the longest type of integers for one of them; a float as it is."""
    if is_float(dtype) or dtype in ("u64", WIDE):
        return dtype
    return LONG


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
