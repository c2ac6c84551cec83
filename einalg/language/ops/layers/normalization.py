"""Softmax and the normalizations by mean and variance."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.index.size import Extent, settled
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Max, Sum, indices
from einalg.language.ops.definition.axes import (
    axis_number,
    result_indices,
    spatial_indices,
    without_entries,
)
from einalg.language.ops.definition.operands import (
    ArrayView,
    expect_shape,
    in_type_of,
    is_multiple,
    operand,
    optional_operand,
    spans,
    whole,
)
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.scalars import epsilon
from einalg.language.ops.math.reductions import Reduced, means, reduce_axes, reduce_in_single

n, c, g = indices("n c g")


def _shifted(x: Any, axis: int) -> tuple[ArrayView, tuple[Index, ...], Any, Any]:
    """Return the operand, its indices, an element less the largest of its row, and the sum of the
    exponentials of these in its row.
    """
    view = operand(x, "x", least=1).in_single()
    position = axis_number(axis, "axis", view.rank)
    r = replace(reduce_axes(x, position), view=view)
    largest = r.result(r.over(Max, r.element))
    total = r.result(r.over(Sum, sympy.exp(r.element - largest[r.rest])))
    at = result_indices(view.rank)
    rest = at[:position] + at[position + 1 :]
    return view, at, view[at] - largest[rest], total[rest]


@operator
def softmax(x: Any, axis: int = -1) -> Scope:
    """`exp(x)/Σ exp(x)` along an axis, with the largest element taken out so that no exponential
    overflows.

    `x` has any shape with an axis. Raises `ShapeError` for an axis that `x` does not have, or bool.

    >>> import einalg as ea
    >>> print(softmax(ea.tensor("x", (2, 3))).tree())
    L[i:2, j:3]
      Mul
        Pow
          [i] of
            L[i:2]
              Sum[r:3]
                exp
                  Add
                    x[i, r]
                    Mul
                      -1
                      [i] of
                        L[i:2]
                          Max[r:3]
                            x[i, r]
          -1
        exp
          Add
            x[i, j]
            Mul
              -1
              [i] of
                L[i:2]
                  Max[r:3]
                    x[i, r]
    """
    view, at, element, total = _shifted(x, axis)
    return L[spans(at, view.shape)](in_type_of(sympy.exp(element) / total, view))


@operator
def log_softmax(x: Any, axis: int = -1) -> Scope:
    """`x - log Σ exp(x)` along an axis, with the largest element taken out so that no exponential
    overflows.

    `x` has any shape with an axis. Raises `ShapeError` for an axis that `x` does not have, or bool.

    >>> import einalg as ea
    >>> log_softmax(ea.tensor("x", (2, 3))).shape
    (2, 3)
    """
    view, at, element, total = _shifted(x, axis)
    return L[spans(at, view.shape)](in_type_of(element - sympy.log(total), view))


def _scaled(value: Any, weight: ArrayView | None, bias: ArrayView | None, at: Any) -> Any:
    """Return `value·weight[at] + bias[at]`, of which either may be absent."""
    if weight is not None:
        value = value * weight[at]
    if bias is not None:
        value = value + bias[at]
    return value


def _mean_square(r: Reduced, body: Any) -> Scope:
    return r.result(r.over(Sum, body**2) / r.count)


def _over_axes(
    x: Any, axes: Any
) -> tuple[Reduced, tuple[Index, ...], tuple[Index, ...], tuple[int, ...]]:
    """Return a reduction, the indices of a result like `x`, those of them that remain, and the
    sizes of the others.
    """
    r = reduce_in_single(x, axes, "mean")
    at = result_indices(r.view.rank)
    return r, at, without_entries(at, r.axes), tuple(r.view.shape[axis] for axis in r.axes)


@operator
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, axes: Any = -1, eps: Any = 1e-5
) -> Scope:
    """`(x - mean)/√(variance + eps)·weight + bias`, mean and variance taken over `axes` (a number
    or several).

    `x` has any shape; `weight` and `bias` are absent, or have the sizes of `axes` in ascending
    order. Raises `ShapeError` for other shapes, an axis that `x` does not have or that is empty,
    bool, or a negative `eps`.

    >>> import einalg as ea
    >>> layer_norm(ea.tensor("x", (2, 3, 4)), ea.tensor("w", (4,))).shape
    (2, 3, 4)
    """
    small = epsilon(eps)
    r, at, rest, sizes = _over_axes(x, axes)
    scale = optional_operand(weight, "weight", sizes, "the sizes of axes of x")
    shift = optional_operand(bias, "bias", sizes, "the sizes of axes of x")
    mean = means(r)
    variance = _mean_square(r, r.element - mean[r.rest])
    normalized = tuple(at[axis] for axis in r.axes)
    normal = (r.view[at] - mean[rest]) / sympy.sqrt(variance[rest] + small)
    result = _scaled(normal, scale, shift, normalized)
    return L[spans(at, r.view.shape)](in_type_of(result, r.view, scale, shift))


@operator
def rms_norm(x: Any, weight: Any = None, axes: Any = -1, eps: Any = 1e-6) -> Scope:
    """`x/√(mean of x² + eps)·weight`, the mean taken over `axes` (a number or several).

    `x` has any shape; `weight` is absent, or has the sizes of `axes` in ascending order. Raises
    `ShapeError` for another shape, an axis that `x` does not have or that is empty, bool, or a
    negative `eps`.

    >>> import einalg as ea
    >>> rms_norm(ea.tensor("x", (2, 3)), ea.tensor("w", (3,)), eps=0)
    L[i:2, j:3](w[j]*x[i, j]/sqrt((L[i:2](Sum[r:3](x[i, r]**2)/3))[i]))
    """
    small = epsilon(eps)
    r, at, rest, sizes = _over_axes(x, axes)
    scale = optional_operand(weight, "weight", sizes, "the sizes of axes of x")
    normal = r.view[at] / sympy.sqrt(_mean_square(r, r.element)[rest] + small)
    result = _scaled(normal, scale, None, tuple(at[a] for a in r.axes))
    return L[spans(at, r.view.shape)](in_type_of(result, r.view, scale))


@operator
def batch_norm(
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any = None,
    bias: Any = None,
    axis: int = 1,
    eps: Any = 1e-5,
) -> Scope:
    """`(x - mean)/√(variance + eps)·weight + bias` with statistics that are known (inference).

    `x` has any shape; `mean`, `variance` and, unless they are absent, `weight` and `bias` are
    `(size of axis,)`. Raises `ShapeError` for other shapes, an axis that `x` does not have, bool,
    or a negative `eps`.

    >>> import einalg as ea
    >>> batch_norm(ea.tensor("x", (2, 3)), ea.tensor("m", (3,)), ea.tensor("v", (3,)), eps=0)
    L[i:2, j:3]((x[i, j] - m[j])/sqrt(v[j]))
    """
    small = epsilon(eps)
    view = operand(x, "x", least=1)
    position = axis_number(axis, "axis", view.rank)
    at, why = result_indices(view.rank), f"the size of axis {position} of x"
    channel, size = at[position], (view.shape[position],)
    center, spread = operand(mean, "mean", rank=1), operand(variance, "variance", rank=1)
    expect_shape(center, size, why)
    expect_shape(spread, size, why)
    scale = optional_operand(weight, "weight", size, why)
    shift = optional_operand(bias, "bias", size, why)
    normal = (view[at] - center[channel]) / sympy.sqrt(spread[channel] + small)
    return L[spans(at, view.shape)](_scaled(normal, scale, shift, channel))


@operator
def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Scope:
    """`(x - mean)/√(variance + eps)·weight + bias`, mean and variance taken over the channels of a
    group and all positions.

    `x` is `(N, C, …)`, `groups` divides `C`; `weight` and `bias` are absent or `(C,)`. Raises
    `ShapeError` for other shapes, groups that do not divide the channels or are empty, bool, or a
    negative `eps`.

    >>> import einalg as ea
    >>> group_norm(ea.tensor("x", (2, 6, 4, 4)), 3).shape
    (2, 6, 4, 4)
    """
    view = operand(x, "x", least=2).in_single()
    count = whole(groups, "groups", 1)
    if not is_multiple(view.shape[1], count):
        raise ShapeError(
            f"groups is {count}, which does not divide the {view.shape[1]} channels of x\n"
            f"  give a divisor of {view.shape[1]}"
        )
    size = settled(view.shape[1] // count)
    return _group_norm(view, count, size, weight, bias, epsilon(eps))


@operator
def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Scope:
    """`(x - mean)/√(variance + eps)·weight + bias`, mean and variance taken over the positions of
    every channel.

    `x` is `(N, C, …)`; `weight` and `bias` are absent or `(C,)`. Raises `ShapeError` for other
    shapes, no positions, bool, or a negative `eps`.

    >>> import einalg as ea
    >>> instance_norm(ea.tensor("x", (2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """
    view = operand(x, "x", least=3).in_single()
    size = 1 if view.shape[1] else 0
    return _group_norm(view, view.shape[1], size, weight, bias, epsilon(eps))


def _group_norm(
    view: ArrayView, groups: Extent, size: Extent, weight: Any, bias: Any, small: Any
) -> Scope:
    """Return the normalization of groups; statistics of group `g` are over the channels `size·g +
    c` and every position.
    """
    batch, channels, *positions = view.shape
    if not size * prod(positions):
        raise ShapeError(
            f"x has shape {view.shape}, so a group has no elements and no mean\n"
            "  give x at least one channel and one position"
        )
    scale = optional_operand(weight, "weight", (channels,), "the channels of x")
    shift = optional_operand(bias, "bias", (channels,), "the channels of x")
    at = spatial_indices(len(positions))
    group = spans((c, *at), (size, *positions))
    channel, own_group = (c, 0) if groups == 1 else (g * size + c, c // size)
    element = view[(n, channel, *at)]
    count = size * prod(positions)
    mean = L[n:batch, g:groups](Sum[group](element) / count)
    variance = L[n:batch, g:groups](Sum[group]((element - mean[n, g]) ** 2) / count)
    spread = variance[n, own_group] + small
    normal = (view[(n, c, *at)] - mean[n, own_group]) / sympy.sqrt(spread)
    result = _scaled(normal, scale, shift, c)
    return L[spans((n, c, *at), view.shape)](in_type_of(result, view, scale, shift))
