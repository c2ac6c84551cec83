"""The numbers of the arrays and bodies that the reference evaluator reads, as Python has them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import sympy

from einalg.errors import ShapeError, UndefinedError
from einalg.language.ir.tensor import Tensor
from einalg.options import shown

# What a number for a size leaves where it makes a denominator 0, or a root imaginary.
UNDEFINED = frozenset([sympy.nan, sympy.zoo, sympy.I])


def exact_values(tensor: Tensor, arrays: Mapping[str, Any]) -> list[Any]:
    """Return the elements of a tensor's array in row-major order.

    Raises `ShapeError` where it is missing, has another shape, or holds anything but integers,
    floats and fractions.

    >>> exact_values(Tensor("A", (2,)), {"A": [1, 0.5]})
    [1.0, 0.5]
    """
    if tensor.name not in arrays:
        raise ShapeError(
            f"no array is given for {tensor.name}, of shape {tensor.shape}\n"
            f"  pass {tensor.name}=array"
        )
    try:
        array = np.asarray(arrays[tensor.name])
    except Exception as error:  # of rows of different lengths, or of a class that is not ours
        raise ShapeError(
            f"{tensor.name} cannot be read as an array: {error}\n"
            f"  give an array of shape {tensor.shape}"
        ) from None
    if array.shape != tensor.shape:
        raise ShapeError(
            f"{tensor.name} has shape {tensor.shape}, but an array of shape {array.shape} is "
            "given\n"
            "  pass another, or reshape it"
        )
    values = array.ravel().tolist()
    for value in values:
        if not isinstance(value, Real):
            raise ShapeError(
                f"{tensor.name} holds numbers, and {shown(value)} is none\n"
                "  give an array of integers, floats or fractions"
            )
    return values


def exact_constant(value: Any, exact: bool) -> Any:
    """Return a constant of a body: a fraction where it is rational and all shall be `exact`.

    Raises `UndefinedError` for what is no real number.

    >>> exact_constant(sympy.Rational(1, 3), True), exact_constant(sympy.Integer(2), False)
    (Fraction(1, 3), 2)
    """
    if value is sympy.true or value is sympy.false:
        return bool(value)
    if value.is_Integer:
        return int(value)
    if exact and value.is_Rational:
        return Fraction(int(value.p), int(value.q))
    if exact and value.is_Float:
        return Fraction(float(value))
    if value in UNDEFINED:
        raise UndefinedError(
            "a constant is no real number: a size makes a denominator 0, or a root imaginary\n"
            f"  {UndefinedError.remedy}"
        )
    return float(value)
