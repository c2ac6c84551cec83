"""Sums of products that have a factor in common.

A compiler that may reassociate sums writes `x*y + x*z` as `x*(y + z)`, which loses a NaN, as that
of `x = inf, y = 2, z = -1`, and may be too large on the way. Fused multiplications keep the terms
apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import frexp

from codegen.ir.nodes import Apply, Number, Value

MAX_EXPONENT = 126  # of numbers of single precision, and of their inverses


def shares_factors(terms: Sequence[Value]) -> bool:
    """Return whether two terms of a sum have a factor in common.

    >>> from codegen.ir.nodes import Buf, Ref
    >>> x, y, z = (Ref(Buf(name, (), "f32"), ()) for name in "xyz")
    >>> product = Apply("mul", (x, y), "f32")
    >>> shares_factors([product, x]), shares_factors([product, z])
    (True, False)
    """
    counts = Counter(factor for term in terms for factor in set(_factors(term)))
    return any(count > 1 for count in counts.values())


def _factors(value: Value) -> Iterator[Value]:
    """Yield the factors of a term without signs and exponents; numbers have no type."""
    parts = two_factors(value)
    if parts is not None:
        for part in parts:
            yield from _factors(part)
    elif isinstance(value, Number):
        yield Number(abs(value.value), "")
    elif isinstance(value, Apply) and value.op == "neg":
        yield from _factors(value.arguments[0])
    else:
        yield value


def two_factors(value: Value) -> tuple[Value, Value] | None:
    """Return a value as a product of two; None where it is none."""
    if not isinstance(value, Apply) or value.op not in PRODUCTS:
        return None
    return PRODUCTS[value.op](value.arguments, value.dtype)


def _negative(arguments: Sequence[Value], dtype: str) -> tuple[Value, Value] | None:
    parts = two_factors(arguments[0])
    if parts is None:
        return None
    return Apply("neg", (parts[0],), dtype), parts[1]


def _product(arguments: Sequence[Value], dtype: str) -> tuple[Value, Value]:
    *others, last = arguments
    if len(others) == 1:
        return others[0], last
    return Apply("mul", tuple(others), dtype), last


def _scaled(arguments: Sequence[Value], dtype: str) -> tuple[Value, Value]:
    return arguments[0], arguments[1]


def _quotient(arguments: Sequence[Value], dtype: str) -> tuple[Value, Value] | None:
    """Return a quotient by a power of 2, by whose inverse gcc multiplies: one that its type has."""
    numerator, divisor = arguments
    if not isinstance(divisor, Number):
        return None
    fraction, exponent = frexp(divisor.value)
    if abs(fraction) != 0.5 or abs(exponent) > MAX_EXPONENT:
        return None
    return numerator, Number(1 / float(divisor.value), dtype)


def _power(arguments: Sequence[Value], dtype: str) -> tuple[Value, Value] | None:
    """Return a power as a square, or as one of an even exponent times its base."""
    base, exponent = arguments
    if not isinstance(exponent, Number) or exponent.value < 2:
        return None
    half, odd = divmod(int(exponent.value), 2)
    if odd:
        return _raised(base, 2 * half, exponent.dtype, dtype), base
    root = _raised(base, half, exponent.dtype, dtype)
    return root, root


def _raised(base: Value, times: int, kind: str, dtype: str) -> Value:
    if times == 1:
        return base
    return Apply("ipow", (base, Number(times, kind)), dtype)


PRODUCTS = {
    "neg": _negative,
    "mul": _product,
    "scale": _scaled,
    "div": _quotient,
    "ipow": _power,
}
