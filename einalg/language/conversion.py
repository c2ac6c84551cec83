"""Numbers as numbers of another element type: `f16(x)`, `bf16(x)`, `f32(x)` (design §2).

Where a framework rounds, between its operators, an expression says so; where a framework computes
in a wider type, within an operator, it says that. Over the reals a conversion is its argument: a
proof leaves it out, as it leaves out all rounding.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import sympy

HALVES = ("f16", "bf16")  # the types of 16 bits, whose sums are kept in f32


def rounded(values: Any, dtype: str) -> Any:
    """Return floats rounded to f16 or bf16, in the type that they have; else as they are.

    >>> rounded(np.float32(0.1), "bf16"), rounded(np.array([0.1, 7e4]), "f16").tolist()
    (np.float32(0.100097656), [0.0999755859375, inf])
    """
    values = np.asarray(values)
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(values.dtype)[()]
    if dtype != "bf16":
        return values[()]
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    bits = single.view(np.uint32)
    to_even = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(single), single, to_even.view(np.float32)).astype(values.dtype)[()]


class Conversion(sympy.Function):
    """A number in an element type, rounded where that is narrower."""

    nargs = (1,)
    is_extended_real = True
    dtype: ClassVar[str]

    @classmethod
    def eval(cls, value: Any) -> Any:
        """Return what a number, or a number of the type already, is; None leaves the node as it is.

        >>> import einalg as ea
        >>> A, i = ea.tensor("A", (8,)), ea.indices("i")
        >>> HalfConversion(HalfConversion(A[i])), HalfConversion(sympy.Integer(2049))
        (f16(A[i]), 2048)
        """
        if isinstance(value, cls):
            return value
        if not value.is_Number:
            return None
        if cls.dtype not in HALVES or not value.is_finite:
            return value
        nearest = float(rounded(float(value), cls.dtype))
        if math.isfinite(nearest):
            return sympy.Rational(nearest)
        return sympy.oo * sympy.sign(value)


class HalfConversion(Conversion):
    """`f16(x)`: a number in half precision."""

    dtype = "f16"


class BrainConversion(Conversion):
    """`bf16(x)`: a number in brain floating point."""

    dtype = "bf16"


class SingleConversion(Conversion):
    """`f32(x)`: a number in single precision, of a narrower one."""

    dtype = "f32"


CONVERSIONS: dict[str, type[Conversion]] = {}
for _conversion in (HalfConversion, BrainConversion, SingleConversion):
    _conversion.__name__ = _conversion.dtype  # as text has it
    CONVERSIONS[_conversion.dtype] = _conversion


def converted(value: Any, dtype: str) -> Any:
    """Return a part of a body as a number of an element type.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,), "f16"), ea.indices("i")
    >>> converted(converted(A[i], "f32")**2, "f16")
    f16(f32(A[i])**2)
    """
    return CONVERSIONS[dtype](value)


def is_of_type(body: Any, dtype: str) -> bool:
    """Return whether a part of a body is a number of an element type without being rounded to it.

    Elements are, and what is chosen among them.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (8,), "f16"), ea.indices("i")
    >>> is_of_type(sympy.Max(A[i], 0), "f16"), is_of_type(2*A[i], "f16")
    (True, False)
    """
    if isinstance(body, Conversion):
        return body.dtype == dtype
    if body.is_Number:
        return not body.is_finite or float(rounded(float(body), dtype)) == float(body)
    if isinstance(body, sympy.Piecewise):
        return all(is_of_type(case.args[0], dtype) for case in body.args)
    if isinstance(body, (sympy.Max, sympy.Min, sympy.Abs)):
        return all(is_of_type(argument, dtype) for argument in body.args)
    if isinstance(body, sympy.Mul):
        sign, factor = body.as_coeff_Mul()
        return sign == -1 and is_of_type(factor, dtype)
    tensor = getattr(body, "tensor", None)
    return tensor is not None and tensor.dtype == dtype
