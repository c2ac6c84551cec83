"""Elements: the scalars of a body (design §3)."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.language.index.remainder import remainder
from einalg.language.numpy_operand import NumpyOperand


class Element(NumpyOperand):
    """A scalar of a body, that numbers of NumPy may be combined with."""

    __slots__ = ()

    def __mod__(self, other: Any) -> Any:
        return _remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return _remainder(other, self)


def _remainder(dividend: Any, modulus: Any) -> Any:
    """Return a remainder; `NotImplemented`, for Python to say so, where an operand is no number."""
    try:
        return remainder(dividend, modulus)
    except sympy.SympifyError:
        return NotImplemented
