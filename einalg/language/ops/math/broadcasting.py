"""Functions of several elements, with NumPy's broadcasting: arithmetic, comparisons, logic,
selection.
"""

from __future__ import annotations

import operator as compare
from collections.abc import Callable
from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.conditions import disjunction
from einalg.language.index.cases import Piecewise
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import (
    aligned,
    axis_number,
    broadcast_shape,
    result_indices,
)
from einalg.language.ops.definition.operands import ArrayView, expect_shape, operand, spans
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.scalars import exact_number, exact_scalar, is_number, is_scalar


def broadcast(function: Callable[..., Any], dtype: str = "number", **arguments: Any) -> Scope:
    """Return `O[i…] = function(element of each operand)` over operands and numbers, which may have
    symbolic sizes, given by their names.
    """
    values: list[Any] = []
    for name, argument in arguments.items():
        if is_scalar(argument):
            values.append(exact_scalar(argument, name, infinite=True))
        else:
            values.append(operand(argument, name, dtype=dtype))
    operands = [value for value in values if isinstance(value, ArrayView)]
    if not operands:
        raise ShapeError(
            f"{' and '.join(arguments)} are all numbers\n  at least one must be a tensor or a scope"
        )
    shape = broadcast_shape(operands)
    at = result_indices(len(shape))
    for position, value in enumerate(values):
        if isinstance(value, ArrayView):
            values[position] = aligned(value, at, shape)
    return L[spans(at, shape)](function(*values))


def _true(value: Any) -> Any:
    """Return an element as a condition: what is not 0."""
    return sympy.Ne(value, 0)


def _ordered(relation: Callable[..., Any], mirrored: Callable[..., Any], a: Any, b: Any) -> Scope:
    """Return a comparison, spelled with a number on its right."""

    def compared(left: Any, right: Any) -> Any:
        if is_scalar(left):
            return mirrored(right, left)
        return relation(left, right)

    return broadcast(compared, a=a, b=b)


@operator
def add(a: Any, b: Any) -> Scope:
    """`a + b`, broadcast; either may be a number. Raises `ShapeError` where shapes do not
    broadcast, or for bool.

    >>> import einalg as ea
    >>> add(ea.tensor("a", (2, 3)), ea.tensor("b", (3,)))
    L[i:2, j:3](a[i, j] + b[j])
    """
    return broadcast(lambda p, q: p + q, a=a, b=b)


@operator
def sub(a: Any, b: Any) -> Scope:
    """`a - b`, broadcast; either may be a number. Raises `ShapeError` where shapes do not
    broadcast, or for bool.

    >>> import einalg as ea
    >>> sub(ea.tensor("a", (2, 3)), ea.tensor("b", (2, 1)))
    L[i:2, j:3](a[i, j] - b[i, 0])
    """
    return broadcast(lambda p, q: p - q, a=a, b=b)


@operator
def mul(a: Any, b: Any) -> Scope:
    """`a · b`, broadcast; either may be a number. Raises `ShapeError` where shapes do not
    broadcast, or for bool.

    >>> import einalg as ea
    >>> mul(ea.tensor("a", (2, 3)), 2)
    L[i:2, j:3](2*a[i, j])
    """
    return broadcast(lambda p, q: p * q, a=a, b=b)


@operator
def div(a: Any, b: Any) -> Scope:
    """`a / b`, broadcast; either may be a number; of integers a float.

    Raises `ShapeError` where shapes do not broadcast, for bool, or for division by the number 0.

    >>> import einalg as ea
    >>> div(ea.tensor("a", (2, 3)), ea.tensor("b", (3,)))
    L[i:2, j:3](a[i, j]/b[j])
    """
    if is_number(b) and exact_number(b, "b", infinite=True).is_zero:
        raise ShapeError("b is 0, by which nothing can be divided\n  give another divisor")
    return broadcast(lambda p, q: p / q, a=a, b=b)


@operator
def pow(a: Any, b: Any) -> Scope:
    """`a` to the power `b`, broadcast; either may be a number. A negative base needs whole
    exponents.

    Raises `ShapeError` where shapes do not broadcast, or for bool.

    >>> import einalg as ea
    >>> pow(ea.tensor("a", (2, 3)), 3)
    L[i:2, j:3](a[i, j]**3)
    """
    return broadcast(lambda p, q: p**q, a=a, b=b)


@operator
def maximum(a: Any, b: Any) -> Scope:
    """The larger of `a` and `b`, broadcast; either may be a number. Raises `ShapeError` where
    shapes do not broadcast, or for bool.

    >>> import einalg as ea
    >>> maximum(ea.tensor("a", (2, 3)), ea.tensor("b", (3,)))
    L[i:2, j:3](Max(a[i, j], b[j]))
    """
    return broadcast(sympy.Max, a=a, b=b)


@operator
def minimum(a: Any, b: Any) -> Scope:
    """The smaller of `a` and `b`, broadcast; either may be a number. Raises `ShapeError` where
    shapes do not broadcast, or for bool.

    >>> import einalg as ea
    >>> minimum(ea.tensor("a", (2, 3)), 0)
    L[i:2, j:3](Min(0, a[i, j]))
    """
    return broadcast(sympy.Min, a=a, b=b)


@operator
def equal(a: Any, b: Any) -> Scope:
    """Return whether `a = b`, broadcast, as bool; either may be a number. Raises `ShapeError` where
    shapes do not broadcast.

    >>> import einalg as ea
    >>> equal(ea.tensor("a", (2, 3)), 0)
    L[i:2, j:3](Eq(a[i, j], 0))
    """
    return broadcast(sympy.Eq, "any", a=a, b=b)


@operator
def not_equal(a: Any, b: Any) -> Scope:
    """Return whether `a ≠ b`, broadcast, as bool; either may be a number. Raises `ShapeError` where
    shapes do not broadcast.

    >>> import einalg as ea
    >>> not_equal(ea.tensor("a", (2, 3)), 0)
    L[i:2, j:3](Ne(a[i, j], 0))
    """
    return broadcast(sympy.Ne, "any", a=a, b=b)


@operator
def less(a: Any, b: Any) -> Scope:
    """Return whether `a < b`, broadcast, as bool; either may be a number. Raises `ShapeError` where
    shapes do not broadcast, or for bool.

    >>> import einalg as ea
    >>> less(ea.tensor("a", (2, 3)), ea.tensor("b", (3,))).dtype
    'bool'
    """
    return _ordered(compare.lt, compare.gt, a, b)


@operator
def less_equal(a: Any, b: Any) -> Scope:
    """Return whether `a ≤ b`, broadcast, as bool; either may be a number. Raises `ShapeError` where
    shapes do not broadcast, or for bool.

    >>> import einalg as ea
    >>> less_equal(ea.tensor("a", (2, 3)), ea.tensor("b", (3,))).dtype
    'bool'
    """
    return _ordered(compare.le, compare.ge, a, b)


@operator
def greater(a: Any, b: Any) -> Scope:
    """Return whether `a > b`, broadcast, as bool; either may be a number. Raises `ShapeError` where
    shapes do not broadcast, or for bool.

    >>> import einalg as ea
    >>> greater(ea.tensor("a", (2, 3)), 0)
    L[i:2, j:3](a[i, j] > 0)
    """
    return _ordered(compare.gt, compare.lt, a, b)


@operator
def greater_equal(a: Any, b: Any) -> Scope:
    """Return whether `a ≥ b`, broadcast, as bool; either may be a number. Raises `ShapeError` where
    shapes do not broadcast, or for bool.

    >>> import einalg as ea
    >>> greater_equal(ea.tensor("a", (2, 3)), 0)
    L[i:2, j:3](a[i, j] >= 0)
    """
    return _ordered(compare.ge, compare.le, a, b)


@operator
def logical_and(a: Any, b: Any) -> Scope:
    """Return whether neither of `a` and `b` is 0, broadcast, as bool. Raises `ShapeError` where
    shapes do not broadcast.

    >>> import einalg as ea
    >>> logical_and(ea.tensor("a", (3,), "bool"), ea.tensor("b", (3,), "bool"))
    L[i:3](Ne(a[i], 0) & Ne(b[i], 0))
    """
    return broadcast(lambda p, q: sympy.And(_true(p), _true(q)), "any", a=a, b=b)


@operator
def logical_or(a: Any, b: Any) -> Scope:
    """Return whether `a` or `b` is not 0, broadcast, as bool. Raises `ShapeError` where shapes do
    not broadcast.

    >>> import einalg as ea
    >>> logical_or(ea.tensor("a", (3,), "bool"), ea.tensor("b", (3,), "bool"))
    L[i:3](Ne(a[i], 0) | Ne(b[i], 0))
    """
    return broadcast(lambda p, q: disjunction(_true(p), _true(q)), "any", a=a, b=b)


@operator
def logical_not(x: Any) -> Scope:
    """Return whether an element is 0, as bool, for `x` of any shape. Raises `ShapeError` where `x`
    is not a tensor or a scope.

    >>> import einalg as ea
    >>> logical_not(ea.tensor("x", (3,), "bool"))
    L[i:3](Eq(x[i], 0))
    """
    return broadcast(lambda v: sympy.Eq(v, 0), "any", x=x)


@operator
def where(condition: Any, a: Any, b: Any) -> Scope:
    """`a` where `condition` is not 0, `b` elsewhere, broadcast; any of the three may be a number.

    Raises `ShapeError` where shapes do not broadcast.

    >>> import einalg as ea
    >>> where(ea.tensor("mask", (3,), "bool"), ea.tensor("a", (2, 3)), 0)
    L[i:2, j:3](Piecewise((a[i, j], Ne(mask[j], 0)), (0, True)))
    """
    return broadcast(
        lambda c, p, q: Piecewise((p, _true(c)), (q, True)),
        "any",
        condition=condition,
        a=a,
        b=b,
    )


@operator
def bias_add(x: Any, bias: Any, axis: int = 1) -> Scope:
    """`x + bias` with the bias along one axis of `x`; negative axes count from the end.

    `x` has any shape, `bias` is `(size of that axis,)`. Raises `ShapeError` for another shape, a
    missing axis, or bool.

    >>> import einalg as ea
    >>> bias_add(ea.tensor("x", (2, 3, 4)), ea.tensor("bias", (3,)))
    L[i:2, j:3, k:4](bias[j] + x[i, j, k])
    """
    data, shift = operand(x, "x", least=1), operand(bias, "bias", rank=1)
    position = axis_number(axis, "axis", data.rank)
    expect_shape(shift, (data.shape[position],), f"the size of axis {position} of x")
    at = result_indices(data.rank)
    return L[spans(at, data.shape)](data[at] + shift[at[position]])
