"""Operations of Python and NumPy that a tensor expression refuses, with what to write in their
place: an expression is no array, no number and no list (design §3).
"""

from __future__ import annotations

from typing import Any

from einalg.boundary import public
from einalg.errors import UseError

BY_OPERATORS = "use an operator, as ea.ops.relu(A), or write it per element: ea.L[i](f(A[i]))"
PER_ELEMENT = "per element: ea.L[i](A[i] + B[i])"
# The operators of einalg by the names that NumPy's and torch's methods have; those of `ALONE` need
# the tensor alone.
SAME_NAMES = """
    abs exp log relu sigmoid softmax sqrt tanh sum mean max min prod argmax argmin cumsum norm
    reshape flatten squeeze unsqueeze transpose repeat matmul add sub mul div pow clip flip roll
"""
METHODS = {
    **{name: name for name in SAME_NAMES.split()},
    **dict.fromkeys(("T", "mT", "t", "permute"), "transpose"),
    **dict.fromkeys(("dot", "mm", "bmm"), "matmul"),
    **dict.fromkeys(("astype", "to", "type"), "cast"),
    "view": "reshape",
    "clamp": "clip",
    "var": "variance",
}
ALONE = {
    *("abs", "exp", "log", "relu", "sigmoid", "softmax", "sqrt", "tanh", "sum", "mean", "max"),
    *("min", "prod", "argmax", "argmin", "cumsum", "flatten", "squeeze", "transpose", "variance"),
    *("norm", "flip"),
}
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
      write ea.ops.sum(A)
    """


def refusal(what: str, remedy: str) -> UseError:
    """Return the error of an operation that has no meaning."""
    return UseError(f"{what} of a tensor expression has no meaning\n  {remedy}")


def _called(operand: Any) -> str:
    """Return an operand as a call has it: a tensor by its name, a scope as `expr`."""
    name = getattr(type(operand), "name", None) and operand.name
    if name:
        return str(name)
    if isinstance(operand, NoArray):
        return "expr"
    return repr(operand) if isinstance(operand, (int, float)) else "..."


def _binary(operator: str) -> tuple[Any, Any]:
    """Return the two refusals of an operator of Python, with the operator of einalg that is meant;
    in the second the operands are the other way round.
    """

    def refuse(self: Any, other: Any = None, *_: Any) -> Any:
        written = f"ea.ops.{operator}({_called(self)}, {_called(other)})"
        raise refusal("arithmetic", f"write {written}, or {PER_ELEMENT}")

    def refuse_reflected(self: Any, other: Any = None, *_: Any) -> Any:
        written = f"ea.ops.{operator}({_called(other)}, {_called(self)})"
        raise refusal("arithmetic", f"write {written}, or {PER_ELEMENT}")

    return refuse, refuse_reflected


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
        raise refusal("arithmetic", f"write it {PER_ELEMENT}")

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("div")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul")
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _arithmetic
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
        remedy = BY_OPERATORS
        operator = METHODS.get(name)
        if operator is not None:
            more = "" if operator in ALONE else ", ..."
            remedy = f"write ea.ops.{operator}({_called(self)}{more})"
        raise MissingAttribute(f"a tensor expression has no attribute {name!r}\n  {remedy}")
