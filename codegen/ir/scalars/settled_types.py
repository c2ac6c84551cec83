"""The types of the parts of a body, settled from the whole.

A body is a formula: SymPy orders its terms and factors, so that a part may be computed of elements
alone whose type is narrower than that of the whole (`2*n` in `n + x + n`). Such a part is computed
in a type that holds it, and so is what a function sees that wrapping round would change (`n*n` in
`Mod(n*n, 7)`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from codegen.ir.nodes import Apply, Number, Ref, Value
from codegen.ir.scalars.intervals import RANGES, interval, operands
from codegen.ir.types import LONG, WIDE, common
from einalg.language.ir.dtypes import bounds, is_float

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "not")
ORDERED = ("abs", "sign", "max", "min", "mod", "quotient")  # which differ where integers wrap
PRODUCTS = ("mul", "ipow")
SHORT = ("i32", "u32")  # what integers are computed in, unless they are longer
INTEGERS = (*SHORT, LONG, "u64", WIDE)


def settled(value: Value, whole: str = "") -> Value:
    """Return a value whose parts are computed in types that hold them, as far as its own type and
    64 bits go; those of 64 bits with and without a sign together, as far as 128 bits do.

    It is a part of one that is computed in type `whole`; empty where it is none.

    >>> from codegen.ir.nodes import Buf
    >>> n, x = Ref(Buf("n", (), "i32"), ()), Ref(Buf("x", (), "f32"), ())
    >>> twice = Apply("mul", (Number(2, "weak"), n), "i32")
    >>> settled(Apply("add", (twice, x), "f32")).arguments[0].dtype, settled(twice).dtype
    ('i64', 'i32')
    """
    if not isinstance(value, Apply):
        return value
    dtype = _settled_type(value, whole)
    contexts = [dtype] * len(value.arguments)
    if value.op in COMPARISONS:
        contexts = [exact_type(common(value.arguments), value.arguments)] * len(value.arguments)
    elif value.op in LOGIC:
        contexts = [""] * len(value.arguments)
    elif value.op == "select":
        contexts[0] = ""
    arguments = tuple(map(settled, value.arguments, contexts))
    if dtype == value.dtype and all(new is old for new, old in zip(arguments, value.arguments)):
        return _with_signs(value)
    return _with_signs(Apply(value.op, arguments, dtype))


def exact_type(dtype: str, values: Sequence[Value]) -> str:
    """Return a type for a function of some integers that differs where these wrap round.

    It holds integers that are made of elements of at most 32 bits, and differences of longer ones
    without a sign, as far as 128 bits go.

    >>> from codegen.ir.nodes import Buf
    >>> n, u = Ref(Buf("n", (), "i32"), ()), Ref(Buf("u", (), "u64"), ())
    >>> exact_type("i32", [Apply("mul", (n, n), "i32")]), exact_type("i32", [n])
    ('i64', 'i32')
    >>> exact_type("u64", [Apply("neg", (u,), "u64")]), exact_type("u64", [u])
    ('i128', 'u64')
    """
    dtype = type_with_sign(dtype, values)
    if dtype not in (*SHORT, LONG) or _hold(dtype, values):
        return dtype
    if not all(map(_is_short, values)):
        return dtype
    for wider in (LONG, "u64"):
        if _hold(wider, values):
            return wider
    return WIDE


def type_with_sign(dtype: str, values: Sequence[Value]) -> str:
    """Return a type of integers, or a longer one with a sign where some values are negative."""
    if not dtype.startswith("u") or not any(map(_may_be_negative, values)):
        return dtype
    if dtype in SHORT:
        return LONG
    return WIDE


def _settled_type(value: Apply, whole: str) -> str:
    dtype = value.dtype
    if dtype not in INTEGERS:
        if whole == "f64" and dtype == "f32" and _is_of_integers(value):
            return whole
        return dtype
    if value.op in ORDERED:
        dtype = exact_type(dtype, value.arguments)
    if not whole or dtype == whole or value.op not in RANGES:
        return dtype
    if is_float(whole):
        return _settled_in_float(replace(value, dtype=dtype), whole)
    return _settled_in_integers(replace(value, dtype=dtype), whole)


def _settled_in_float(value: Apply, whole: str) -> str:
    """Return the type for integers that are a part of a float."""
    if value.dtype == WIDE:
        if _is_within(value, WIDE):
            return WIDE
        return "f64"
    if value.dtype == "u64" and _may_be_negative(value):
        if _is_within(value, WIDE):
            return WIDE
        return whole
    if value.op in PRODUCTS and value.dtype in (LONG, "u64") and not fits(value, value.dtype):
        return "f64"
    if value.dtype == "u64" or fits(value, value.dtype) or not _is_short(value):
        return value.dtype
    if not fits(value, LONG):
        return whole
    return LONG


def _settled_in_integers(value: Apply, whole: str) -> str:
    """Return the type for integers that are a part of longer ones."""
    if value.dtype == WIDE or fits(value, value.dtype):
        return value.dtype
    if whole == WIDE:
        return whole
    if value.dtype == "u64" or not _is_short(value):
        return value.dtype
    if whole == "u64" and _is_without_sign(value) and fits(value, whole):
        return whole
    return LONG


def _is_without_sign(value: Value) -> bool:
    """Return whether a value and all that it is computed of are never negative."""
    if isinstance(value, Apply) and not all(map(_is_without_sign, operands(value))):
        return False
    return not _may_be_negative(value)


def _may_be_negative(value: Value) -> bool:
    return interval(value)[0] < 0


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


def _hold(dtype: str, values: Sequence[Value]) -> bool:
    """Return whether a type of integers holds some values."""
    return all(_is_within(value, dtype) for value in values)


def _is_within(value: Value, dtype: str) -> bool:
    """Return whether a value fits into a type of integers."""
    low, high = bounds(dtype)
    least, largest = interval(value)
    return low <= least and largest <= high


def fits(value: Value, dtype: str) -> bool:
    """Return whether a value and all that it is computed of fit into a type of integers."""
    if not isinstance(value, Apply):
        return True
    return _is_within(value, dtype) and all(fits(a, dtype) for a in operands(value))


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
