"""Functions of long integers without sign, beside others or of differences, exactly.

No type of integers holds both signs and 64 bits, and f64 rounds them: such integers are computed as
a sign and a size. Sizes are of 64 bits, and wrap round beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice

from codegen.ir.nodes import Apply, Number, Value, value_parts
from codegen.ir.scalars.folding import apply, cast
from codegen.ir.scalars.intervals import interval
from codegen.ir.types import are_integers
from einalg.language.ir.dtypes import bounds

UNSIGNED, SIGNED = "u64", "i64"
SIGNED_TYPES = ("i8", "i16", "i32", "i64")
NEVER, ZERO = Number(False, "bool"), Number(0, UNSIGNED)
MOST_PARTS = 1000  # of an integer without sign that is computed as a sign and a size
MIRRORED = {"gt": "lt", "ge": "le"}
OPPOSITE = {"lt": "gt", "le": "ge"}


@dataclass(frozen=True)
class SignedSize:
    """An integer: whether it is negative, and its absolute value in the longest type.

    Zero is not negative.
    """

    is_negative: Value
    size: Value


def need_signs(values: Sequence[Value]) -> bool:
    """Return whether some integers are none of one type: long ones without sign, of which some may
    be negative or are computed with a sign.

    >>> from codegen.ir.nodes import Buf, Ref
    >>> u, n = (Ref(Buf("x", (), dtype), ()) for dtype in ("u64", "i32"))
    >>> need_signs([u, n]), need_signs([u, Number(-3, "weak")]), need_signs([u, Number(3, "weak")])
    (True, True, False)
    >>> need_signs([Apply("add", (u, Apply("neg", (u,), "u64")), "u64"), Number(3, "weak")])
    True
    """
    if not are_integers(values) or not any(map(_is_long, values)):
        return False
    return any(value.dtype in SIGNED_TYPES or interval(value)[0] < 0 for value in values)


def _is_long(value: Value) -> bool:
    """Return whether only the longest type without sign holds a value."""
    if isinstance(value, Number):
        return bounds(SIGNED)[1] < value.value <= bounds(UNSIGNED)[1]
    return value.dtype == UNSIGNED


# Values as signs and sizes.


def signed_size(value: Value) -> SignedSize:
    """Return an integer as a sign and a size."""
    if isinstance(value, Number):
        return SignedSize(Number(value.value < 0, "bool"), Number(abs(value.value), UNSIGNED))
    least, largest = interval(value)
    if least >= 0:
        return SignedSize(NEVER, cast(value, UNSIGNED))
    if value.dtype in SIGNED_TYPES:
        is_negative: Value = Apply("lt", (value, Number(0, SIGNED)), "bool")
        if largest < 0:
            is_negative = Number(True, "bool")
        size = Apply("abs", (cast(value, SIGNED),), SIGNED)
        return SignedSize(is_negative, cast(size, UNSIGNED))
    if isinstance(value, Apply) and value.op in SIGNED_SIZES and is_short(value):
        return SIGNED_SIZES[value.op](value)
    return SignedSize(NEVER, cast(value, UNSIGNED))


def _sum(value: Apply) -> SignedSize:
    terms = list(map(signed_size, value.arguments))
    above = [_select(term.is_negative, ZERO, term.size) for term in terms]
    below = [_select(term.is_negative, term.size, ZERO) for term in terms]
    return _difference(apply("add", above, UNSIGNED), apply("add", below, UNSIGNED))


def _difference(above: Value, below: Value) -> SignedSize:
    if below == ZERO:
        return SignedSize(NEVER, above)
    is_negative = Apply("lt", (above, below), "bool")
    size = _select(is_negative, _subtracted(below, above), _subtracted(above, below))
    return SignedSize(is_negative, size)


def _subtracted(left: Value, right: Value) -> Value:
    """Return a difference that is not negative."""
    difference = apply("add", [left, Apply("neg", (right,), UNSIGNED)], UNSIGNED)
    return Apply("cast", (difference,), UNSIGNED)


def _opposite(value: Apply) -> SignedSize:
    part = signed_size(value.arguments[0])
    is_negative = apply("and", [_not(part.is_negative), _is_not_0(part.size)], "bool")
    return SignedSize(is_negative, part.size)


def _product(value: Apply) -> SignedSize:
    factors = list(map(signed_size, value.arguments))
    size = apply("mul", [factor.size for factor in factors], UNSIGNED)
    sign = reduce(_differ, [factor.is_negative for factor in factors])
    return SignedSize(apply("and", [sign, _is_not_0(size)], "bool"), size)


def _power(value: Apply) -> SignedSize:
    base, exponent = signed_size(value.arguments[0]), value.arguments[1]
    size = apply("ipow", [base.size, exponent], UNSIGNED)
    if isinstance(exponent, Number) and exponent.value % 2 == 0:
        return SignedSize(NEVER, size)
    return SignedSize(base.is_negative, size)


def _case(value: Apply) -> SignedSize:
    test, *values = value.arguments
    yes, no = map(signed_size, values)
    is_negative = _select(test, yes.is_negative, no.is_negative, "bool")
    return SignedSize(is_negative, _select(test, yes.size, no.size))


def _extreme(value: Apply) -> SignedSize:
    return _extreme_size(value.op, list(map(signed_size, value.arguments)))


def _quotient(value: Apply) -> SignedSize:
    dividend, divisor = value.arguments
    return signed_size(quotient(dividend, divisor, UNSIGNED))


SIGNED_SIZES: dict[str, Callable[[Apply], SignedSize]] = {
    "add": _sum,
    "neg": _opposite,
    "mul": _product,
    "ipow": _power,
    "select": _case,
    "max": _extreme,
    "min": _extreme,
    "quotient": _quotient,
}


def in_float(value: Value, dtype: str) -> Value:
    """Return an integer by its sign and its size, as a float where it is negative."""
    part = signed_size(value)
    below = Apply("neg", (Apply("cast", (part.size,), dtype),), dtype)
    return apply("select", [part.is_negative, below, part.size], dtype)


def is_short(value: Value) -> bool:
    """Return whether a value has few parts; each is in its sign and in its size several times."""
    return not any(True for _ in islice(value_parts(value), MOST_PARTS, None))


# Functions.


def compared(relation: str, left: Value, right: Value) -> Value:
    """Return a comparison of two integers."""
    if relation in MIRRORED:
        return compared(MIRRORED[relation], right, left)
    one, other = signed_size(left), signed_size(right)
    if relation in ("eq", "ne"):
        is_other = apply(
            "or",
            [
                _differ(one.is_negative, other.is_negative),
                Apply("ne", (one.size, other.size), "bool"),
            ],
            "bool",
        )
        if relation == "ne":
            return is_other
        return _not(is_other)
    other_is_positive = _not(other.is_negative)
    is_closer = Apply(relation, (one.size, other.size), "bool")
    is_farther = Apply(OPPOSITE[relation], (one.size, other.size), "bool")
    if_positive = apply("and", [other_is_positive, is_closer], "bool")
    if_negative = apply("or", [other_is_positive, is_farther], "bool")
    return _select(one.is_negative, if_negative, if_positive, "bool")


def remainder(left: Value, right: Value, dtype: str) -> Value:
    """Return a remainder, which has the sign of the divisor; by one without sign, in `dtype`."""
    one, other = signed_size(left), signed_size(right)
    rest = Apply("mod", (one.size, other.size), UNSIGNED)
    has_rest = Apply("ne", (rest, ZERO), "bool")
    is_turned = apply("and", [_differ(one.is_negative, other.is_negative), has_rest], "bool")
    size = _select(is_turned, _subtracted(other.size, rest), rest)
    if _has_sign(right):
        dtype = SIGNED  # in which it is, for it is smaller than the divisor
    size = cast(size, dtype)
    return _select(other.is_negative, Apply("neg", (size,), dtype), size, dtype)


def quotient(left: Value, right: Value, dtype: str) -> Value:
    """Return a quotient, rounded down, in type `dtype`; by one without sign, as its dividend."""
    one, other = signed_size(left), signed_size(right)
    whole = Apply("quotient", (one.size, other.size), UNSIGNED)
    rest = Apply("mod", (one.size, other.size), UNSIGNED)
    has_rest = Apply("ne", (rest, ZERO), "bool")
    rounded_up = Apply("add", (whole, has_rest), UNSIGNED)
    if _has_sign(left) and not _has_sign(right):
        dtype = SIGNED
    is_negative = _differ(one.is_negative, other.is_negative)
    below = Apply("neg", (cast(rounded_up, dtype),), dtype)
    return _select(is_negative, below, whole, dtype)


FUNCTIONS: dict[str, Callable[[Value, Value, str], Value]] = {
    "mod": remainder,
    "quotient": quotient,
}


def of_same_type(op: str, values: Sequence[Value]) -> Value:
    """Return a maximum, a minimum, an absolute value or a sign."""
    if op in ("max", "min"):
        return extreme(op, values)
    part = signed_size(values[0])
    if op == "abs":
        return part.size
    return _select(part.is_negative, Number(-1, SIGNED), _is_not_0(part.size), SIGNED)


def extreme(op: str, values: Sequence[Value]) -> Value:
    """Return the maximum or minimum of integers, in the longest type without sign."""
    part = _extreme_size(op, list(map(signed_size, values)))
    return _select(part.is_negative, Apply("neg", (part.size,), UNSIGNED), part.size)


def _extreme_size(op: str, parts: Sequence[SignedSize]) -> SignedSize:
    """Return a maximum, which is negative where all are, or a minimum, which is where any is."""
    signs = [part.is_negative for part in parts]
    sizes = [part.size for part in parts]
    if op == "max":
        above = [_select(part.is_negative, ZERO, part.size) for part in parts]
        closest, furthest = apply("min", sizes, UNSIGNED), apply("max", above, UNSIGNED)
        is_negative = apply("and", signs, "bool")
        return SignedSize(is_negative, _select(is_negative, closest, furthest))
    below = [_select(part.is_negative, part.size, ZERO) for part in parts]
    furthest, least = apply("max", below, UNSIGNED), apply("min", sizes, UNSIGNED)
    is_negative = apply("or", signs, "bool")
    return SignedSize(is_negative, _select(is_negative, furthest, least))


# Parts.


def _has_sign(value: Value) -> bool:
    if isinstance(value, Number):
        return value.value < 0
    return value.dtype in SIGNED_TYPES


def _select(test: Value, yes: Value, no: Value, dtype: str = UNSIGNED) -> Value:
    return apply("select", [test, yes, no], dtype)


def _not(test: Value) -> Value:
    return apply("not", [test], "bool")


def _is_not_0(size: Value) -> Value:
    if isinstance(size, Number):
        return Number(size.value != 0, "bool")
    return Apply("ne", (size, ZERO), "bool")


def _differ(one: Value, other: Value) -> Value:
    """Return whether two truth values differ."""
    for constant, test in ((one, other), (other, one)):
        if isinstance(constant, Number):
            if constant.value:
                return _not(test)
            return test
    return Apply("ne", (one, other), "bool")
