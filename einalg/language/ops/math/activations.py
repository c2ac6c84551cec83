"""Activations: element-wise functions of neural networks, with the parameters that torch gives
them.
"""

from __future__ import annotations

from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.ir.scope import Scope
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.scalars import exact_scalar, positive
from einalg.language.ops.math.elementwise import elementwise, logistic


@operator
def relu(x: Any) -> Scope:
    """`max(x, 0)` of every element, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> relu(ea.tensor("x", (4,)))
    L[i:4](Max(0, x[i]))
    """
    return elementwise(x, lambda v: sympy.Max(v, 0))


@operator
def leaky_relu(x: Any, slope: Any = 0.01) -> Scope:
    """`x` where it is positive, `slope·x` elsewhere, for `x` of any shape. Raises `ShapeError` for
    bool or a bad slope.

    >>> import einalg as ea
    >>> leaky_relu(ea.tensor("x", (4,)), 0.25)
    L[i:4](0.25*Min(0, x[i]) + Max(0, x[i]))
    """
    factor = exact_scalar(slope, "slope")
    return elementwise(x, lambda v: sympy.Max(v, 0) + factor * sympy.Min(v, 0))


@operator
def elu(x: Any, alpha: Any = 1) -> Scope:
    """`x` where it is positive, `alpha·(exp(x) - 1)` elsewhere, for `x` of any shape. Raises
    `ShapeError` for bool or a bad alpha.

    >>> import einalg as ea
    >>> elu(ea.tensor("x", (4,)))
    L[i:4](Max(0, x[i]) + exp(Min(0, x[i])) - 1)
    """
    scale = exact_scalar(alpha, "alpha")
    return elementwise(x, lambda v: sympy.Max(v, 0) + scale * (sympy.exp(sympy.Min(v, 0)) - 1))


@operator
def sigmoid(x: Any) -> Scope:
    """`1/(1 + exp(-x))` of every element, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> sigmoid(ea.tensor("x", (4,)))
    L[i:4](1/(exp(-x[i]) + 1))
    """
    return elementwise(x, logistic)


@operator
def silu(x: Any) -> Scope:
    """`x·sigmoid(x)` of every element (also called swish), for `x` of any shape. Raises
    `ShapeError` for bool.

    >>> import einalg as ea
    >>> silu(ea.tensor("x", (4,)))
    L[i:4](x[i]/(exp(-x[i]) + 1))
    """
    return elementwise(x, lambda v: v * logistic(v))


@operator
def gelu(x: Any, approximate: str = "none") -> Scope:
    """The Gaussian error linear unit of every element, for `x` of any shape.

    `approximate="none"` is `x·(1 + erf(x/√2))/2`, `"tanh"` its approximation, as in torch. Raises
    `ShapeError` for another word, or bool.

    >>> import einalg as ea
    >>> gelu(ea.tensor("x", (4,)))
    L[i:4](x[i]*(erf(sqrt(2)*x[i]/2) + 1)/2)
    """
    if approximate == "none":
        return elementwise(x, lambda v: v * (1 + sympy.erf(v / sympy.sqrt(2))) / 2)
    if approximate != "tanh":
        raise ShapeError(
            f"approximate must be 'none' or 'tanh', not {approximate!r}\n"
            "  leave it out for the exact function"
        )
    return elementwise(
        x,
        lambda v: (
            v * (1 + sympy.tanh(sympy.sqrt(2 / sympy.pi) * (v + sympy.Float(0.044715) * v**3))) / 2
        ),
    )


@operator
def softplus(x: Any, beta: Any = 1) -> Scope:
    """`log(1 + exp(beta·x))/beta` of every element, written so that no exponential overflows, for
    `x` of any shape.

    Raises `ShapeError` for bool, or a beta that is not above 0.

    >>> import einalg as ea
    >>> softplus(ea.tensor("x", (4,)))
    L[i:4](Max(0, x[i]) + log(exp(-Abs(x[i])) + 1))
    """
    scale = positive(beta, "beta")
    return elementwise(
        x, lambda v: sympy.Max(v, 0) + sympy.log(1 + sympy.exp(-sympy.Abs(v) * scale)) / scale
    )


@operator
def hardsigmoid(x: Any) -> Scope:
    """`min(max(x + 3, 0), 6)/6` of every element, for `x` of any shape. Raises `ShapeError` for
    bool.

    >>> import einalg as ea
    >>> hardsigmoid(ea.tensor("x", (4,)))
    L[i:4](Min(6, Max(0, x[i] + 3))/6)
    """
    return elementwise(x, lambda v: sympy.Min(sympy.Max(v + 3, 0), 6) / 6)


@operator
def hardswish(x: Any) -> Scope:
    """`x·min(max(x + 3, 0), 6)/6` of every element, for `x` of any shape. Raises `ShapeError` for
    bool.

    >>> import einalg as ea
    >>> hardswish(ea.tensor("x", (4,)))
    L[i:4](x[i]*Min(6, Max(0, x[i] + 3))/6)
    """
    return elementwise(x, lambda v: v * sympy.Min(sympy.Max(v + 3, 0), 6) / 6)


@operator
def clip(x: Any, low: Any = None, high: Any = None) -> Scope:
    """Every element, at least `low` and at most `high`, for `x` of any shape; None bounds nothing.

    Raises `ShapeError` for bool, a bound that is not a number, or `low` above `high`.

    >>> import einalg as ea
    >>> clip(ea.tensor("x", (4,)), 0, 6)
    L[i:4](Min(6, Max(0, x[i])))
    """
    least = sympy.S.NegativeInfinity if low is None else exact_scalar(low, "low", infinite=True)
    most = sympy.S.Infinity if high is None else exact_scalar(high, "high", infinite=True)
    if (least > most) == True:  # noqa: E712 - a relation of sizes is neither
        raise ShapeError(f"low is {low}, which is above high, {high}\n  exchange the two")
    return elementwise(x, lambda v: sympy.Min(sympy.Max(v, least), most))
