"""Reductions over axes, and running sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.conditions import disjunction, isnan
from einalg.language.index.affine import Index
from einalg.language.index.cases import Piecewise
from einalg.language.index.convert import affine
from einalg.language.index.remainder import as_number
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Max, Min, Prod, Sum
from einalg.language.ops.definition.axes import (
    axis_number,
    axis_numbers,
    reduction_indices,
    result_indices,
    with_entries,
    without_entries,
)
from einalg.language.ops.definition.operands import ArrayView, in_type_of, operand, spans
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.scalars import exact_number

# The largest numbers of the types of floats.
LARGEST = {
    "f16": 2**16 - 2**5,
    "bf16": 2**128 - 2**120,
    "f32": 2**128 - 2**104,
    "f64": 2**1024 - 2**971,
}


@dataclass(frozen=True)
class Reduced:
    """An operand with some of its axes reduced: what binds the reduction, and how the rest is
    indexed.
    """

    view: ArrayView
    axes: tuple[int, ...]
    at: tuple[Index, ...]

    @property
    def count(self) -> int:
        """The number of elements that one element of the result is made of."""
        return math.prod(self.view.shape[a] for a in self.axes)

    @property
    def element(self) -> Any:
        """The element under the reduction."""
        return self.view[self.at]

    @property
    def rest(self) -> tuple[Index, ...]:
        """The indices of the axes that remain."""
        return without_entries(self.at, self.axes)

    @property
    def span(self) -> tuple[slice, ...]:
        """The ranges that the reduction binds."""
        indices = [self.at[axis] for axis in self.axes]
        return spans(indices, [self.view.shape[axis] for axis in self.axes])

    @property
    def rest_span(self) -> tuple[slice, ...]:
        """The ranges of the axes that remain."""
        return spans(self.rest, without_entries(self.view.shape, self.axes))

    def over(self, reduction: Any, body: Any) -> Any:
        """Return a reduction over the axes; over none it is the body itself."""
        if not self.axes:
            return body
        return reduction[self.span](body)

    def result(self, body: Any, keepdims: bool = False) -> Scope:
        """Return the scope over the axes that remain, with axes of size 1 for the others if they
        are to be kept.
        """
        if not keepdims:
            return L[self.rest_span](body)
        remaining = self.view.rank - len(self.axes)
        units = dict(zip(self.axes, result_indices(self.view.rank)[remaining:]))
        shape = with_entries(self.view.shape, dict.fromkeys(self.axes, 1))
        return L[spans(with_entries(self.at, units), shape)](body)


def reduce_in_single(x: Any, axes: Any, nonempty: str | None = None) -> Reduced:
    """Read the operand and the axes of a reduction whose statistics are kept in single precision at
    least.
    """
    r = reduce_axes(x, axes, nonempty=nonempty)
    return replace(r, view=r.view.in_single())


def reduce_axes(x: Any, axes: Any, dtype: str = "number", nonempty: str | None = None) -> Reduced:
    """Read the operand and the axes of a reduction; `nonempty` says what an empty axis does not
    have.
    """
    view = operand(x, "x", dtype=dtype)
    reduced = tuple(sorted(axis_numbers(axes, "axes", view.rank)))
    for axis in reduced:
        if nonempty and not view.shape[axis]:
            raise ShapeError(
                f"axis {axis} of x has no elements, so it has no {nonempty}\n  leave it out of axes"
            )
    at = list(result_indices(view.rank - len(reduced)))
    for axis, index in zip(reduced, reduction_indices(len(reduced))):
        at.insert(axis, index)
    return Reduced(view, reduced, tuple(at))


@operator
def sum(x: Any, axes: Any = None, keepdims: bool = False) -> Scope:
    """The sum over `axes` (a number, several, or None for all); bool is counted.

    `keepdims` keeps them as axes of size 1. Raises `ShapeError` for an axis that `x` does not have.

    >>> import einalg as ea
    >>> sum(ea.tensor("x", (2, 3)), -1)
    L[i:2](Sum[r:3](x[i, r]))
    """
    r = reduce_axes(x, axes, "any")
    return r.result(r.over(Sum, r.element), keepdims)


@operator
def prod(x: Any, axes: Any = None, keepdims: bool = False) -> Scope:
    """The product over `axes` (a number, several, or None for all).

    `keepdims` keeps them as axes of size 1. Raises `ShapeError` for an axis that `x` does not have,
    or bool.

    >>> import einalg as ea
    >>> prod(ea.tensor("x", (2, 3)), 0)
    L[i:3](Prod[r:2](x[r, i]))
    """
    r = reduce_axes(x, axes)
    return r.result(r.over(Prod, r.element), keepdims)


@operator
def max(x: Any, axes: Any = None, keepdims: bool = False) -> Scope:
    """The largest element over `axes` (a number, several, or None for all).

    `keepdims` keeps them as axes of size 1. Raises `ShapeError` for an axis that `x` does not have
    or that is empty, or bool.

    >>> import einalg as ea
    >>> max(ea.tensor("x", (2, 3)), 1, keepdims=True)
    L[i:2, j:1](Max[r:3](x[i, r]))
    """
    r = reduce_axes(x, axes, nonempty="largest element")
    return r.result(r.over(Max, r.element), keepdims)


@operator
def min(x: Any, axes: Any = None, keepdims: bool = False) -> Scope:
    """The smallest element over `axes` (a number, several, or None for all).

    `keepdims` keeps them as axes of size 1. Raises `ShapeError` for an axis that `x` does not have
    or that is empty, or bool.

    >>> import einalg as ea
    >>> min(ea.tensor("x", (2, 3)))
    L[()](Min[r:2, s:3](x[r, s]))
    """
    r = reduce_axes(x, axes, nonempty="smallest element")
    return r.result(r.over(Min, r.element), keepdims)


@operator
def argmax(x: Any, axis: int | None = None, keepdims: bool = False, last: bool = False) -> Scope:
    """Return where the largest element along an axis is, as i64: its first place, or with `last`
    the last one; None counts through all axes. NaN is larger than all numbers.

    `keepdims` keeps the axis with size 1. Raises `ShapeError` for an axis that `x` does not have or
    that is empty, or bool.

    >>> import einalg as ea
    >>> argmax(ea.tensor("x", (2, 3), "i32"), 1)
    L[i:2](Min[r:3](Piecewise((r, Eq(x[i, r], (L[i:2](Max[r:3](x[i, r])))[i])), (2, True))))
    """
    return _place(x, axis, keepdims, last, Max, "largest")


@operator
def argmin(x: Any, axis: int | None = None, keepdims: bool = False, last: bool = False) -> Scope:
    """Return where the smallest element along an axis is; everything else is as in `argmax`.

    >>> import einalg as ea
    >>> argmin(ea.tensor("x", (2, 3))).dtype
    'i64'
    """
    return _place(x, axis, keepdims, last, Min, "smallest")


def _place(x: Any, axis: int | None, keepdims: bool, last: bool, extreme: Any, which: str) -> Scope:
    r = reduce_axes(x, axis, nonempty=f"{which} element")
    count = affine(0)
    for a in r.axes:
        count = count * r.view.shape[a] + r.at[a]
    extremum = r.result(r.over(extreme, r.element))[r.rest]
    choice, other = Min, r.count - 1
    if last:
        choice, other = Max, 0
    is_place: Any = sympy.Eq(r.element, extremum)
    if is_float(r.view.dtype):
        is_place = disjunction(is_place, isnan(r.element))
    place = Piecewise((as_number(count), is_place), (other, True))
    return r.result(r.over(choice, place), keepdims)


@operator
def mean(x: Any, axes: Any = None, keepdims: bool = False) -> Scope:
    """The mean over `axes` (a number, several, or None for all); of integers a float.

    `keepdims` keeps them as axes of size 1. Raises `ShapeError` for an axis that `x` does not have
    or that is empty, or bool.

    >>> import einalg as ea
    >>> mean(ea.tensor("x", (2, 3)), 1)
    L[i:2](Sum[r:3](x[i, r])/3)
    """
    r = reduce_in_single(x, axes, "mean")
    return r.result(in_type_of(r.over(Sum, r.element) / r.count, r.view), keepdims)


@operator
def variance(x: Any, axes: Any = None, keepdims: bool = False, correction: int = 0) -> Scope:
    """The mean squared distance from the mean over `axes`; the divisor is the number of elements
    less `correction`.

    `keepdims` keeps the axes with size 1. Raises `ShapeError` for an axis that `x` does not have or
    that has too few elements, or bool.

    >>> import einalg as ea
    >>> variance(ea.tensor("x", (2, 3)), 1)
    L[i:2](Sum[r:3]((x[i, r] - (L[i:2](Sum[r:3](x[i, r])/3))[i])**2)/3)
    """
    r = reduce_in_single(x, axes, "variance")
    divisor = r.count - exact_number(correction, "correction")
    if not divisor > 0:
        raise ShapeError(
            f"correction is {correction}, but the axes hold {r.count} elements only\n"
            "  give a smaller one"
        )
    spread = r.over(Sum, (r.element - means(r)[r.rest]) ** 2) / divisor
    return r.result(in_type_of(spread, r.view), keepdims)


def means(r: Reduced) -> Scope:
    """Return the mean of every group that a reduction is over."""
    return r.result(r.over(Sum, r.element) / r.count)


@operator
def norm(x: Any, axes: Any = None, keepdims: bool = False, order: Any = 2) -> Scope:
    """The norm over `axes`: of `order` 2 `√Σx²`, 1 `Σ|x|`, infinity `max |x|`.

    `keepdims` keeps the axes with size 1. Raises `ShapeError` for another order, an axis that `x`
    does not have (of order infinity: or that is empty), or bool.

    >>> import einalg as ea
    >>> norm(ea.tensor("x", (2, 3)), 1)
    L[i:2](sqrt(Sum[r:3](x[i, r]**2)))
    """
    which = float(exact_number(order, "order", infinite=True))
    if which not in (1, 2, math.inf):
        raise ShapeError(
            f"order must be 1, 2 or float('inf'), not {order}\n"
            "  leave it out for the Euclidean norm"
        )
    if which == math.inf:
        r = reduce_axes(x, axes, nonempty="largest element")
        return r.result(r.over(Max, sympy.Abs(r.element)), keepdims)
    r = reduce_in_single(x, axes)
    size = r.over(Sum, sympy.Abs(r.element))
    if which == 2:
        size = sympy.sqrt(r.over(Sum, r.element**2))
    return r.result(in_type_of(size, r.view), keepdims)


@operator
def logsumexp(x: Any, axes: Any = None, keepdims: bool = False) -> Scope:
    """`log Σ exp(x)` over `axes`, with the largest element taken out so that no exponential
    overflows.

    `keepdims` keeps the axes with size 1. Raises `ShapeError` for an axis that `x` does not have or
    that is empty, or bool.

    >>> import einalg as ea
    >>> logsumexp(ea.tensor("x", (3,)))
    L[()]((L[()](Max[r:3](x[r])))[()] + log(Sum[r:3](exp(x[r] - (L[()](Max[r:3](x[r])))[()]))))
    """
    r = reduce_in_single(x, axes, "largest element")
    largest = r.result(r.over(Max, r.element))[r.rest]
    total = largest + sympy.log(r.over(Sum, sympy.exp(r.element - largest)))
    return r.result(in_type_of(total, r.view), keepdims)


def logsumexp_of_infinities(x: Any, axes: Any = None, keepdims: bool = False) -> Scope:
    """Return `logsumexp`, also where the largest element is infinite: as frameworks have it.

    Over the real numbers it is the same.
    """
    r = reduce_in_single(x, axes, "largest element")
    largest = r.result(finite(r.over(Max, r.element), r.view.dtype))[r.rest]
    total = largest + sympy.log(r.over(Sum, sympy.exp(r.element - largest)))
    return r.result(in_type_of(total, r.view), keepdims)


def finite(value: Any, dtype: str) -> Any:
    """Return a value, and the largest of its type where it is infinite.

    A difference of two of these is a number.
    """
    most = sympy.Integer(LARGEST[dtype])
    return sympy.Min(sympy.Max(value, -most), most)


@operator
def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Scope:
    """The running sum along an axis, from its end if `reverse`, without the element itself if
    `exclusive`.

    Raises `ShapeError` for an axis that `x` does not have, or bool.

    >>> import einalg as ea
    >>> cumsum(ea.tensor("x", (2, 3)), 1)
    L[i:2, j:3](Sum[r:3](x[i, r], where=j >= r))
    """
    return _running(x, axis, exclusive, reverse, Sum)


@operator
def cumprod(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Scope:
    """The running product along an axis; everything else is as in `cumsum`.

    >>> import einalg as ea
    >>> cumprod(ea.tensor("x", (3,)), exclusive=True)
    L[i:3](Prod[r:3](x[r], where=i >= r + 1))
    """
    return _running(x, axis, exclusive, reverse, Prod)


def _running(x: Any, axis: int, exclusive: bool, reverse: bool, reduction: Any) -> Scope:
    view = operand(x, "x", least=1)
    position = axis_number(axis, "axis", view.rank)
    at, (r,) = result_indices(view.rank), reduction_indices(1)
    here = at[position]
    distance = 1 if exclusive else 0
    before = here >= r + distance
    if reverse:
        before = r >= here + distance
    return L[spans(at, view.shape)](
        reduction[r : view.shape[position]](view[with_entries(at, {position: r})], where=before)
    )
