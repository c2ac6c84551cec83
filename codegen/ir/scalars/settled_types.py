"""The types of the parts of a body, settled from the whole.

A body is a formula: SymPy orders its terms and factors, so that a part may be computed of elements
alone whose type is narrower than that of the whole (`2*n` in `n + x + n`). Such a part is computed
in a type that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from codegen.ir.nodes import Apply, Number, Ref, Value
from codegen.ir.scalars.intervals import RANGES, interval, operands
from codegen.ir.scalars.mixed_signs import in_float, is_short
from einalg.language.ir.dtypes import bounds, is_float, promote

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "not")
SIGN_FUNCTIONS = ("abs", "sign", "max", "min", "mod", "quotient")  # which see what is negative
WITH_SIGNS = ("neg", "select", "max", "min")  # which a float computes as its operands
PRODUCTS = ("mul", "ipow")
SHORT = ("i32", "u32")  # what integers are computed in, unless they are longer
LONG = "i64"


def settled(value: Value) -> Value:
    """Return a value whose parts are computed in types that hold them, as far as its own type and
    64 bits go.

    >>> from codegen.ir.nodes import Buf
    >>> n, x = Ref(Buf("n", (), "i32"), ()), Ref(Buf("x", (), "f32"), ())
    >>> twice = Apply("mul", (Number(2, "weak"), n), "i32")
    >>> settled(Apply("add", (twice, x), "f32")).arguments[0].dtype, settled(twice).dtype
    ('i64', 'i32')
    """
    return _settled(value, "")


def _settled(value: Value, whole: str) -> Value:
    """Return a value as a part of one that is computed in type `whole`; empty where it is none."""
    if not isinstance(value, Apply):
        return value
    if _is_signed_sum(value, whole):
        return _settled(in_float(value, whole), whole)
    dtype = _settled_type(value, whole)
    contexts = [dtype] * len(value.arguments)
    if value.op in COMPARISONS:
        contexts = [_compared_in(value)] * len(value.arguments)
    elif value.op in LOGIC:
        contexts = [""] * len(value.arguments)
    elif value.op == "select":
        contexts[0] = ""
    arguments = tuple(map(_settled, value.arguments, contexts))
    if dtype == value.dtype and all(new is old for new, old in zip(arguments, value.arguments)):
        return _with_signs(value)
    return _with_signs(Apply(value.op, arguments, dtype))


def _compared_in(comparison: Apply) -> str:
    """Return the type in which two values are compared."""
    dtypes = [side.dtype for side in comparison.arguments]
    numbers = [dtype for dtype in dtypes if not dtype.startswith("weak")]
    if not numbers:
        return ""
    dtype = promote(*numbers)
    if _needs_sign(dtype, comparison.arguments):
        return LONG
    return dtype


def _settled_type(value: Apply, whole: str) -> str:
    if value.op in SIGN_FUNCTIONS and _needs_sign(value.dtype, value.arguments):
        return LONG
    if not whole or value.dtype == whole:
        return value.dtype
    if whole == "f64" and value.dtype == "f32" and _is_of_integers(value):
        return whole
    if value.op not in RANGES:
        return value.dtype
    return _settled_integers(value, whole)


def _needs_sign(dtype: str, arguments: Sequence[Value]) -> bool:
    """Return whether integers without sign, of at most 32 bits, may be negative."""
    return dtype == "u32" and any(map(_may_be_negative, arguments))


def _settled_integers(value: Apply, whole: str) -> str:
    """Return the type for a part that is computed in integers."""
    if value.op in PRODUCTS and is_float(whole) and _is_too_long(value):
        return "f64"
    if value.dtype == "u64":
        return _settled_unsigned(value, whole)
    if value.dtype not in (*SHORT, LONG):
        return value.dtype
    if _fits(value, value.dtype) or not _is_short(value):
        return value.dtype
    if whole == "u64" and _is_without_sign(value) and _fits(value, whole):
        return whole
    if is_float(whole) and not _fits(value, LONG):
        return whole
    return LONG


def _is_too_long(value: Apply) -> bool:
    """Return whether a product of 64 bits may overflow."""
    return value.dtype in (LONG, "u64") and not _fits(value, value.dtype)


def _settled_unsigned(value: Apply, whole: str) -> str:
    """Return the type for a part of the longest unsigned integers, which may be negative."""
    if value.op in WITH_SIGNS and is_float(whole) and _may_be_negative(value):
        return whole
    return value.dtype


def _is_without_sign(value: Value) -> bool:
    """Return whether a value and all that it is computed of are never negative."""
    if isinstance(value, Apply) and not all(map(_is_without_sign, operands(value))):
        return False
    return not _may_be_negative(value)


def _may_be_negative(value: Value) -> bool:
    return interval(value)[0] < 0


def _is_signed_sum(value: Apply, whole: str) -> bool:
    """Return whether a sum of the longest unsigned integers is a part of a float, which needs its
    sign.
    """
    is_sum = value.op == "add" and value.dtype == "u64"
    return is_sum and is_float(whole) and _may_be_negative(value) and is_short(value)


def _is_of_integers(value: Value) -> bool:
    """Return whether a function has a float of single precision for want of any other."""
    if not isinstance(value, Apply):
        return not is_float(value.dtype)
    if value.op.startswith("round_") or (value.op == "cast" and is_float(value.dtype)):
        return False
    return all(map(_is_of_integers, value.arguments))


def _is_short(value: Value) -> bool:
    """Return whether a value is made of elements of at most 32 bits."""
    if isinstance(value, Ref):
        return bounds(value.dtype)[1] < 2**32
    if not isinstance(value, Apply):
        return True
    return all(map(_is_short, operands(value)))


def _fits(value: Value, dtype: str) -> bool:
    """Return whether a value and all that it is computed of fit into a type of integers."""
    if not isinstance(value, Apply):
        return True
    low, high = bounds(dtype)
    least, largest = interval(value)
    return low <= least and largest <= high and all(_fits(a, dtype) for a in operands(value))


def _with_signs(value: Apply) -> Apply:
    """Return a sum or product of unsigned integers with its negative constants subtracted."""
    if not value.dtype.startswith("u") or value.op not in ("add", "mul"):
        return value
    negative = list(_negative_constants(value))
    if not negative:
        return value
    others = [argument for argument in value.arguments if argument not in negative]
    positive = [replace(number, value=-number.value) for number in negative]
    if value.op == "add":
        subtracted = [Apply("neg", (number,), value.dtype) for number in positive]
        return replace(value, arguments=(*others, *subtracted))
    product_of_sizes = replace(value, arguments=(*positive, *others))
    if len(negative) % 2 == 0:
        return product_of_sizes
    return Apply("neg", (product_of_sizes,), value.dtype)


def _negative_constants(value: Apply) -> Iterator[Number]:
    for argument in value.arguments:
        if isinstance(argument, Number) and argument.value < 0:
            yield argument
