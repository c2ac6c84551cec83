"""Functions of a long integer without sign and an integer with one, exactly.

No type of integers holds both, and f64 rounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codegen.ir.nodes import Apply, Number, Value
from codegen.ir.scalars.folding import apply, cast
from codegen.ir.scalars.intervals import interval

UNSIGNED, SIGNED = "u64", "i64"
SIGNED_TYPES = ("i8", "i16", "i32", "i64")
FALSE_BELOW_0 = ("lt", "le", "eq")  # relations of an unsigned integer to one that is negative
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def is_mixed(values: Sequence[Value]) -> bool:
    """Return whether one of two values is a long integer without sign, and the other one is
    computed with a sign.

    >>> from codegen.ir.nodes import Buf, Ref
    >>> u, n = (Ref(Buf("x", (), dtype), ()) for dtype in ("u64", "i32"))
    >>> is_mixed([u, n]), is_mixed([u, Number(-3, "weak")]), is_mixed([u, Number(3, "weak")])
    (True, True, False)
    """
    left, right = values
    return (left.dtype == UNSIGNED and _has_sign(right)) or (
        right.dtype == UNSIGNED and _has_sign(left)
    )


def _has_sign(value: Value) -> bool:
    if isinstance(value, Number):
        return value.value < 0
    return value.dtype in SIGNED_TYPES


def compared(relation: str, left: Value, right: Value) -> Value:
    """Return a comparison of a mixed pair."""
    if left.dtype != UNSIGNED:
        return compared(MIRRORED[relation], right, left)
    same = Apply(relation, (left, cast(right, UNSIGNED)), "bool")
    if relation in FALSE_BELOW_0:
        return apply("and", [_not_negative(right), same], "bool")
    return apply("or", [_negative(right), same], "bool")


def remainder(left: Value, right: Value, dtype: str) -> Value:
    """Return the remainder of a mixed pair, which has the sign of the divisor; where it may be
    longer than 63 bits, in type `dtype`.
    """
    if left.dtype == UNSIGNED:
        rest = cast(Apply("mod", (left, _size(right)), UNSIGNED), SIGNED)
        has_rest = Apply("ne", (rest, Number(0, SIGNED)), "bool")
        moved = apply("add", [rest, right], SIGNED)
        return apply(
            "select", [apply("and", [_negative(right), has_rest], "bool"), moved, rest], SIGNED
        )
    direct = Apply("mod", (cast(left, UNSIGNED), right), UNSIGNED)
    rest = Apply("mod", (cast(_opposite(left), UNSIGNED), right), UNSIGNED)
    from_above = Apply(
        "add", (right, Apply("neg", (rest,), UNSIGNED), Number(-1, UNSIGNED)), UNSIGNED
    )
    rest = apply("select", [_not_negative(left), direct, from_above], UNSIGNED)
    return cast(rest, dtype)


def quotient(left: Value, right: Value, dtype: str) -> Value:
    """Return the quotient of a mixed pair, rounded down; below 0, in type `dtype`."""
    if left.dtype == UNSIGNED:
        size = _size(right)
        whole = Apply("quotient", (left, size), UNSIGNED)
        rest = Apply("mod", (left, size), UNSIGNED)
        has_rest = Apply("ne", (rest, Number(0, UNSIGNED)), "bool")
        rounded_up = Apply("add", (whole, has_rest), UNSIGNED)
        below = Apply("neg", (cast(rounded_up, dtype),), dtype)
        return apply("select", [_negative(right), below, whole], dtype)
    direct = Apply("quotient", (cast(left, UNSIGNED), right), UNSIGNED)
    opposite = Apply("quotient", (cast(_opposite(left), UNSIGNED), right), UNSIGNED)
    below = _opposite(cast(opposite, SIGNED))
    return apply("select", [_not_negative(left), cast(direct, SIGNED), below], SIGNED)


FUNCTIONS: dict[str, Callable[[Value, Value, str], Value]] = {
    "mod": remainder,
    "quotient": quotient,
}


def from_zero(value: Value) -> Value:
    """Return the maximum of an integer and 0."""
    if value.dtype not in SIGNED_TYPES or interval(value)[0] >= 0:
        return value
    return apply("max", [Number(0, SIGNED), value], SIGNED)


def _negative(value: Value) -> Value:
    return _signed_test("lt", value)


def _not_negative(value: Value) -> Value:
    return _signed_test("ge", value)


def _signed_test(relation: str, value: Value) -> Value:
    low, high = interval(value)
    if low >= 0 or high < 0:
        return Number((high < 0) == (relation == "lt"), "bool")
    return Apply(relation, (value, Number(0, SIGNED)), "bool")


def _size(value: Value) -> Value:
    """Return the absolute value of an integer with a sign, which may be 2**63."""
    if isinstance(value, Number):
        return Number(abs(value.value), UNSIGNED)
    return cast(Apply("abs", (cast(value, SIGNED),), SIGNED), UNSIGNED)


def _opposite(value: Value) -> Value:
    """Return `-1 - value`, which 64 bits hold for each value that they hold."""
    if isinstance(value, Number):
        return Number(-1 - value.value, SIGNED)
    return Apply("add", (Number(-1, SIGNED), Apply("neg", (value,), SIGNED)), SIGNED)
