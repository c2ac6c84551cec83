"""Functions of one element: arithmetic, roots, exponentials, trigonometry, rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from einalg.language.index.cases import Piecewise
from einalg.language.index.remainder import remainder
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import result_indices
from einalg.language.ops.definition.operands import operand, spans
from einalg.language.ops.definition.registry import operator


def elementwise(x: Any, function: Callable[[Any], Any], dtype: str = "number") -> Scope:
    """`O[i…] = function(x[i…])` for an operand of any shape."""
    view = operand(x, "x", dtype=dtype)
    at = result_indices(view.rank)
    return L[spans(at, view.shape)](function(view[at]))


def logistic(value: Any) -> Any:
    """`1/(1 + exp(-value))`. The inverse of a sum is what it is, which SymPy takes milliseconds to
    find out.
    """
    below = 1 + sympy.exp(-value)
    return sympy.Pow(below, -1, evaluate=not below.is_Add)


def truncated_remainder(dividend: Any, divisor: Any) -> Any:
    """Return the remainder with the sign of the dividend, which C's `fmod` is."""
    return sympy.sign(dividend) * remainder(sympy.Abs(dividend), sympy.Abs(divisor))


def nearest_even(v: Any) -> Any:
    """Return the nearest whole number; the even one of two."""
    below = sympy.floor(v)
    half = sympy.Rational(1, 2)
    is_half = sympy.Eq(v - below, half)
    parity = below - 2 * sympy.floor(below / 2)  # which vectors have, unlike remainders
    step = [(0, v - below < half), (1, v - below > half), (parity, is_half)]
    return below + Piecewise(*step, (0, True))


@operator
def neg(x: Any) -> Scope:
    """The negative of every element, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> neg(ea.tensor("x", (4,)))
    L[i:4](-x[i])
    """
    return elementwise(x, lambda v: -v)


@operator
def abs(x: Any) -> Scope:
    """The absolute value of every element, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> abs(ea.tensor("x", (4,)))
    L[i:4](Abs(x[i]))
    """
    return elementwise(x, sympy.Abs)


@operator
def sign(x: Any) -> Scope:
    """-1, 0 or 1 after the sign of every element, for `x` of any shape. Raises `ShapeError` for
    bool.

    >>> import einalg as ea
    >>> sign(ea.tensor("x", (4,)))
    L[i:4](sign(x[i]))
    """
    return elementwise(x, sympy.sign)


@operator
def square(x: Any) -> Scope:
    """The square of every element, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> square(ea.tensor("x", (4,)))
    L[i:4](x[i]**2)
    """
    return elementwise(x, lambda v: v**2)


@operator
def reciprocal(x: Any) -> Scope:
    """One over every element, for `x` of any shape; of integers a float. Raises `ShapeError` for
    bool.

    >>> import einalg as ea
    >>> reciprocal(ea.tensor("x", (4,)))
    L[i:4](1/x[i])
    """
    return elementwise(x, lambda v: 1 / v)


@operator
def sqrt(x: Any) -> Scope:
    """The square root of every element, for `x` of any shape and without negative elements. Raises
    `ShapeError` for bool.

    >>> import einalg as ea
    >>> sqrt(ea.tensor("x", (4,)))
    L[i:4](sqrt(x[i]))
    """
    return elementwise(x, sympy.sqrt)


@operator
def rsqrt(x: Any) -> Scope:
    """One over the square root of every element, for `x` of any shape, all positive. Raises
    `ShapeError` for bool.

    >>> import einalg as ea
    >>> rsqrt(ea.tensor("x", (4,)))
    L[i:4](1/sqrt(x[i]))
    """
    return elementwise(x, lambda v: 1 / sympy.sqrt(v))


@operator
def exp(x: Any) -> Scope:
    """The exponential of every element, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> exp(ea.tensor("x", (4,)))
    L[i:4](exp(x[i]))
    """
    return elementwise(x, sympy.exp)


@operator
def log(x: Any) -> Scope:
    """The natural logarithm of every element, for `x` of any shape, all positive. Raises
    `ShapeError` for bool.

    >>> import einalg as ea
    >>> log(ea.tensor("x", (4,)))
    L[i:4](log(x[i]))
    """
    return elementwise(x, sympy.log)


@operator
def erf(x: Any) -> Scope:
    """The error function of every element, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> erf(ea.tensor("x", (4,)))
    L[i:4](erf(x[i]))
    """
    return elementwise(x, sympy.erf)


@operator
def sin(x: Any) -> Scope:
    """The sine of every element, in radians, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> sin(ea.tensor("x", (4,)))
    L[i:4](sin(x[i]))
    """
    return elementwise(x, sympy.sin)


@operator
def cos(x: Any) -> Scope:
    """The cosine of every element, in radians, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> cos(ea.tensor("x", (4,)))
    L[i:4](cos(x[i]))
    """
    return elementwise(x, sympy.cos)


@operator
def tanh(x: Any) -> Scope:
    """The hyperbolic tangent of every element, for `x` of any shape. Raises `ShapeError` for bool.

    >>> import einalg as ea
    >>> tanh(ea.tensor("x", (4,)))
    L[i:4](tanh(x[i]))
    """
    return elementwise(x, sympy.tanh)


@operator
def floor(x: Any) -> Scope:
    """The largest integer that is not above each element, for `x` of any shape. Raises `ShapeError`
    for bool.

    >>> import einalg as ea
    >>> floor(ea.tensor("x", (4,)))
    L[i:4](floor(x[i]))
    """
    return elementwise(x, sympy.floor)


@operator
def ceil(x: Any) -> Scope:
    """The smallest integer that is not below each element, for `x` of any shape. Raises
    `ShapeError` for bool.

    >>> import einalg as ea
    >>> ceil(ea.tensor("x", (4,)))
    L[i:4](ceiling(x[i]))
    """
    return elementwise(x, sympy.ceiling)
