"""Products of values, each computed in one type, and their quotients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from codegen.ir.nodes import Apply, Number, Value
from codegen.ir.scalars.folding import apply
from codegen.ir.scalars.functions import of_float
from codegen.ir.types import (
    WEAK,
    common,
    common_of_parts,
    computed,
    computed_float,
    constant,
    longest,
)
from einalg.language.ir.dtypes import is_float


@dataclass(frozen=True)
class ProductFactor:
    """A factor of a product, the part of the body that it is, and how often it is one."""

    value: Value
    part: Any
    times: int = 1


def quotient_of_products(
    above: Sequence[ProductFactor],
    below: Sequence[ProductFactor],
    fraction: Any,
    is_wide: bool = False,
) -> Value:
    """Return a product divided by another one, times a number, as one division.

    What is divided may be larger than the quotient, and is as wide as a part of a fraction.
    """
    above, below = list(above), list(below)
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


def _is_scaled_first(fraction: Any, factors: Sequence[ProductFactor]) -> bool:
    """Return whether a product of floats is multiplied by a fraction first, which rounds nothing.

    The product alone may be too large for its type.
    """
    elements = [f.value for f in factors if not isinstance(f.value, Number)]
    if len(elements) < 2 or abs(fraction) > 1 or int(fraction.q).bit_count() > 1:
        return False
    return fraction != 1 and all(is_float(computed(value.dtype)) for value in elements)


def _scaled(factor: ProductFactor, fraction: Any) -> ProductFactor:
    """Return a factor times a number, as a function: a compiler would multiply by numbers last."""
    value = _multiplied([factor])
    return ProductFactor(of_float("scale", [value, constant(fraction)]), factor.part)


def _multiplied(factors: Sequence[ProductFactor], is_wide: bool = False) -> Value:
    """Return the product of some factors, all of which is computed in one type."""
    values = [factor.value for factor in factors]
    dtype = common_of_parts(values, [factor.part for factor in factors], "mul")
    if is_wide and (len(factors) != 1 or factors[0].times != 1):
        dtype = longest(dtype)
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


def _integer_factor(number: int) -> ProductFactor:
    return ProductFactor(Number(int(number), WEAK), sympy.Integer(number))
