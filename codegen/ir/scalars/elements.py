"""Scalar bodies of elements that are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegen.ir.nodes import Apply, Number, Ref, Value
from codegen.ir.scalars.translation import translate
from codegen.ir.types import WEAK, WEAK_FLOAT
from einalg.errors import CodegenError
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.tensor import Access

# What vectors compute lane by lane without calls of functions.
LANEWISE = frozenset({"add", "mul", "neg", "abs", "max", "min"})
COMPARED = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
MAX_EXACT = 1 << 8  # up to which any float holds the integers
MAX_POWER = 4  # that is written as a product


class ElementLeaves:
    """The leaves of a body that reads tensors at one place, by access; see `translate`.

    `value` is what the body computes from them.
    """

    def __init__(self, body: Any, elements: Mapping[Access, Value]):
        self.elements = elements
        self.value = translate(body, self)

    def access(self, access: Access) -> Value:
        return self.elements[access]

    def reduction(self, reduce: Any) -> Value:
        raise CodegenError(f"what is computed at one place sums nothing, but {reduce}")

    def holds(self, condition: Constraint) -> Value:
        raise CodegenError(
            f"what is computed at one place asks for no other, but whether {condition}"
        )

    def index(self, form: Affine) -> Affine:
        raise CodegenError(f"what is computed at one place asks for no other, but for {form}")


def is_lanewise(value: Value, dtype: str) -> bool:
    """Whether a value of elements of one type is computed in vectors of these.

    >>> from codegen.ir.nodes import Buf, Number, Ref
    >>> x = Ref(Buf("x", (), "f32"), ())
    >>> is_lanewise(Apply("abs", (x,), "f32"), "f32"), is_lanewise(Apply("exp", (x,), "f32"), "f32")
    (True, False)
    """
    if isinstance(value, Number):
        if is_float(dtype) and isinstance(value.value, int):
            return abs(value.value) <= MAX_EXACT
        return value.dtype in (dtype, WEAK) or (value.dtype == WEAK_FLOAT and is_float(dtype))
    if not isinstance(value, Apply):
        return isinstance(value, Ref) and value.dtype == dtype
    if value.op == "select":
        test, *cases = value.arguments
        is_test = isinstance(test, Apply) and test.op in COMPARED
        parts = [*cases, *(test.arguments if isinstance(test, Apply) else ())]
        return is_test and all(is_lanewise(part, dtype) for part in parts)
    if value.op == "ipow":
        base, exponent = value.arguments
        assert isinstance(exponent, Number)
        is_low = 0 < exponent.value <= MAX_POWER
        return is_low and value.dtype == dtype and is_lanewise(base, dtype)
    is_known = value.op in LANEWISE or (value.op == "div" and is_float(dtype))
    return is_known and value.dtype == dtype and all(is_lanewise(a, dtype) for a in value.arguments)
