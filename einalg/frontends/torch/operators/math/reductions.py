"""Torch's reductions and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy

from einalg.frontends.torch.nodes.arguments import as_dtype, as_float, axes_or_all
from einalg.frontends.torch.nodes.registry import Handler, NotExpressed, aten, register
from einalg.language import ops
from einalg.language.conversion import HALVES
from einalg.language.ir.dtypes import is_float
from einalg.language.notation.builders import Max, Min
from einalg.language.ops.math.cast import in_single
from einalg.language.ops.math.reductions import logsumexp_of_infinities, reduce_axes


def _over(operator: Callable[..., Any]) -> Handler:
    return lambda x, dims=None, keepdim=False, dtype=None: operator(
        as_dtype(x, dtype), axes_or_all(dims), keepdim
    )


def _whole(operator: Callable[..., Any]) -> Handler:
    return lambda x, dtype=None: operator(as_dtype(x, dtype))


def _accumulated(x: Any, dtype: Any = None) -> Any:
    """Return `x` in the dtype in which torch adds or multiplies its elements.

    For integers that is i64 without a `dtype`; they would wrap round otherwise.
    """
    if dtype is not None or is_float(x.dtype):
        return as_dtype(x, dtype)
    return ops.cast(x, "i64")


def _sum(x: Any, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return ops.sum(_accumulated(x, dtype), axes_or_all(dims), keepdim)


def _product(x: Any, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return ops.prod(_accumulated(x, dtype), axes_or_all(dims), keepdim)


def _truth(reduction: Any) -> Handler:
    """Return a reduction of the truth of elements, which is whether they are not 0."""

    def handler(x: Any, dims: Any = None, keepdim: bool = False) -> Any:
        r = reduce_axes(x, axes_or_all(dims), "any", nonempty="element")
        return r.result(r.over(reduction, sympy.Ne(r.element, 0)), keepdim)

    return handler


def _extremes(operator: Callable[..., Any], place: Callable[..., Any]) -> Handler:
    """Return the values of an operator, and their positions."""
    return lambda x, dim, keepdim: (operator(x, dim, keepdim), place(x, dim, keepdim))


register(
    {
        "sum.default": lambda x, dtype: _sum(x, dtype=dtype),
        "mean.default": _whole(ops.mean),
        "prod.default": lambda x, dtype: _product(x, dtype=dtype),
        "max.default": _whole(ops.max),
        "min.default": _whole(ops.min),
        "sum.dim_IntList": _sum,
        "mean.dim": _over(ops.mean),
        "prod.dim_int": _product,
        "amax.default": _over(ops.max),
        "amin.default": _over(ops.min),
        "logsumexp.default": lambda x, *others: _over(logsumexp_of_infinities)(
            as_float(x), *others
        ),
        "any.default any.dim any.dims": _truth(Max),
        "all.default all.dim all.dims": _truth(Min),
        "max.dim": _extremes(ops.max, ops.argmax),
        "min.dim": _extremes(ops.min, ops.argmin),
        "argmax.default": ops.argmax,
        "argmin.default": ops.argmin,
        "cumprod.default": lambda x, dim, dtype: ops.cumprod(_accumulated(x, dtype), dim),
        "cumsum.default": lambda x, dim, dtype: ops.cumsum(_accumulated(x, dtype), dim),
        "count_nonzero.default": lambda x, dim: ops.sum(ops.not_equal(x, 0), dim),
        "count_nonzero.dim_IntList": lambda x, dim: ops.sum(ops.not_equal(x, 0), axes_or_all(dim)),
    }
)


def _spread(x: Any, dims: Any, correction: Any, keepdim: bool) -> Any:
    if correction is None:
        correction = 1
    return ops.variance(x, axes_or_all(dims), keepdim, correction)


@aten("var.correction")
def _variance(x: Any, dims: Any, correction: Any, keepdim: bool) -> Any:
    return _spread(x, dims, correction, keepdim)


@aten("std.correction")
def _deviation(x: Any, dims: Any, correction: Any, keepdim: bool) -> Any:
    if x.dtype not in HALVES:
        return ops.sqrt(_spread(x, dims, correction, keepdim))
    spread = _spread(ops.cast(x, "f32"), dims, correction, keepdim)
    return ops.cast(ops.sqrt(spread), x.dtype)


@aten("var_mean.correction")
def _variance_and_mean(x: Any, dims: Any, correction: Any, keepdim: bool) -> Any:
    return _spread(x, dims, correction, keepdim), ops.mean(x, axes_or_all(dims), keepdim)


@aten("linalg_vector_norm.default")
def _norm(x: Any, order: Any, dims: Any, keepdim: bool, dtype: Any) -> Any:
    x, axes = as_dtype(x, dtype), axes_or_all(dims)
    if order in (1, 2, math.inf):
        return ops.norm(x, axes, keepdim, order)
    if order <= 0 or math.isinf(order):
        raise NotExpressed(f"a norm of order {order}")
    return _norm_of_order(x, order, axes, keepdim)


@in_single
def _norm_of_order(x: Any, order: Any, axes: Any, keepdim: bool) -> Any:
    total = ops.sum(ops.pow(ops.abs(x), order), axes, keepdim)
    return ops.pow(total, 1 / sympy.sympify(order))
