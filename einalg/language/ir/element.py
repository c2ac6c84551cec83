"""Elements: the scalars of a body (design §3)."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.boundary import public
from einalg.errors import UseError
from einalg.language.index.remainder import remainder
from einalg.language.refusals import METHODS, MissingAttribute
from einalg.language.scalar_operand import ScalarOperand


def _bits(self: Any, _: Any) -> Any:
    raise UseError(
        f"{self} has no bits\n"
        "  conditions are joined in brackets: (A[i] > 0) & (B[i] > 0); a bit is (A[i]//2**n) % 2, "
        "and a shift A[i]*2**n"
    )


def _product(self: Any, other: Any) -> Any:
    raise UseError(
        f"@ is for whole tensors, and {self} is one element\n"
        f"  write ea.Sum[k](A[i, k]*B[k, j]), or {self}*{other}"
    )


@public
class Element(ScalarOperand):
    """A scalar of a body, that numbers of NumPy may be combined with."""

    __slots__ = ()

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _bits
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _bits
    __matmul__ = __rmatmul__ = _product

    def __getattr__(self, name: str) -> Any:
        operator = METHODS.get(name)
        tensor = None if operator is None else getattr(self, "tensor", None)
        if tensor is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        text = getattr(tensor, "name", "A")
        raise MissingAttribute(
            f"{self} is one element, and has no attribute {name!r}\n"
            f"  write ea.ops.{operator}({text}, ...) of the whole tensor"
        )

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
