"""Operations of Python and NumPy that a tensor expression refuses, with what to write in their
place: an expression is no array, no number and no list (design §3).
"""

from __future__ import annotations

from typing import Any

from einalg.boundary import public
from einalg.errors import UseError

BY_OPERATORS = "use an operator, as ea.ops.relu(A), or write it per element: ea.L[i](f(A[i]))"
ARITHMETIC = {  # what NumPy calls the operators of Python
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "divmod"),
    *("power", "matmul", "negative"),
}
ONLY_IDENTITY = {"equal": False, "not_equal": True}  # of an expression and an array


class MissingAttribute(UseError, AttributeError):
    """An attribute that tensor expressions do not have, such as the `sum` of an array.

    >>> import einalg as ea
    >>> A = ea.tensor("A", (8, 6))
    >>> A.sum()
    Traceback (most recent call last):
    einalg.language.refusals.MissingAttribute: a tensor expression has no attribute 'sum'
      use an operator, as ea.ops.relu(A), or write it per element: ea.L[i](f(A[i]))
    """


def refusal(what: str, remedy: str) -> UseError:
    """Return the error of an operation that has no meaning."""
    return UseError(f"{what} of a tensor expression has no meaning\n  {remedy}")


@public
class NoArray:
    """A tensor, a scope or a program: what takes it for an array or a number is a `UseError`.

    >>> import numpy as np
    >>> import einalg as ea
    >>> np.exp(ea.tensor("A", (8, 6)))
    Traceback (most recent call last):
    einalg.errors.UseError: NumPy's exp of a tensor expression has no meaning
      use an operator, as ea.ops.relu(A), or write it per element: ea.L[i](f(A[i]))
    """

    __slots__ = ()

    def _arithmetic(self, *_: Any) -> Any:
        raise refusal("arithmetic", "write it per element: ea.L[i](A[i] + B[i])")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _arithmetic
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _arithmetic
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _arithmetic
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _arithmetic
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _arithmetic
    __neg__ = __pos__ = __abs__ = __invert__ = __round__ = _arithmetic

    def _number(self) -> Any:
        raise refusal("the number", "evaluate it first: ea.evaluate(expr, A=array)")

    __float__ = __int__ = __complex__ = _number

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise refusal("an array", "evaluate it first: ea.evaluate(expr, A=array)")

    def __array_ufunc__(self, function: Any, method: str, *_: Any, **__: Any) -> Any:
        name = function.__name__
        if name in ONLY_IDENTITY and method == "__call__":
            return ONLY_IDENTITY[name]
        if name in ARITHMETIC:
            self._arithmetic()
        raise refusal(f"NumPy's {name}", BY_OPERATORS)

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise refusal(f"NumPy's {function.__name__}", BY_OPERATORS)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for by Python, SymPy and IPython, which look for protocols
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        raise MissingAttribute(f"a tensor expression has no attribute {name!r}\n  {BY_OPERATORS}")
