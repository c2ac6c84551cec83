"""Constant tensors: from nested lists or arrays, and as arrays of their dtype (design §2)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from einalg.errors import NotationError, ShapeError
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Constant
from einalg.options import checked, text


@checked(name=text("A", NotationError))
def constant(name: str, values: Any, dtype: Any = "f32") -> Constant:
    """Make a tensor with known values: nested lists of ints, fractions or SymPy rationals, or an
    array of integers.

    The values are exact in proofs and in `ea.evaluate`, rounded to `dtype` in generated code, and
    belong to the identity of the expression. A float is taken as the binary fraction that it is.
    Raises `ShapeError` for ragged lists, `NotationError` for a bad name or a value that is no
    rational number.

    >>> from fractions import Fraction
    >>> import einalg as ea
    >>> D = ea.constant("D", [[1, -1], [Fraction(1, 2), 0]])
    >>> print(ea.evaluate(ea.parse("O[i] += D[i,j]*x[j]", D=D, x=(2,)), x=[3, 5]))
    [-2 Fraction(3, 2)]
    """
    try:
        array = np.array(values, dtype=object)
    except ValueError:
        array = None
    if array is None or any(isinstance(value, (list, tuple)) for value in array.flat):
        raise ShapeError(
            f"{name}: the rows of a constant have different lengths\n"
            "  give nested lists of equal lengths, e.g. [[1, 0], [0, 1]]"
        )
    return Constant(name, array.shape, dtype, array.ravel().tolist())


@lru_cache(maxsize=1024)
def array_of(tensor: Constant) -> np.ndarray[Any, Any]:
    """Return the values of a constant in its dtype, as an array that must not be written to.

    >>> array_of(constant("H", [1, 0.5]))
    array([1. , 0.5], dtype=float32)
    """
    numbers: list[int | float] = []
    for value in tensor.values:
        numbers.append(int(value) if value.is_Integer else float(value))
    array = np.array(numbers, dtype=numpy_dtype(tensor.dtype)).reshape(tensor.shape)
    array.flags.writeable = False
    return array
