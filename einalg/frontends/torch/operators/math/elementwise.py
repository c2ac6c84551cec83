"""Torch's functions of one element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy
from sympy import Abs, Max, Min, Piecewise, exp, floor, log, tanh

from einalg.frontends.nonfinite import truth_of
from einalg.frontends.torch.nodes.arguments import number, number_of_type, numbers_beside
from einalg.frontends.torch.nodes.registry import Handler, NotExpressed, aten, register
from einalg.language import ops
from einalg.language.conditions import isfinite, isinf, isnan
from einalg.language.ir.dtypes import is_float
from einalg.language.ops.math.cast import in_single
from einalg.language.ops.math.elementwise import elementwise, logistic, nearest_even


def _function(function: Callable[[Any], Any]) -> Handler:
    return lambda x: elementwise(x, function)


SAME_IN_OPS = (
    *("abs", "neg", "sign", "exp", "log", "sqrt", "rsqrt", "reciprocal", "square"),
    *("sin", "cos", "tanh", "erf"),
    *("relu", "sigmoid", "silu", "hardsigmoid", "hardswish", "logical_not"),
)
SAME_IN_SYMPY = (
    *("tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erfc"),
)

register({f"{name}.default": getattr(ops, name) for name in SAME_IN_OPS})
register({f"{name}.default": _function(getattr(sympy, name)) for name in SAME_IN_SYMPY})
register(
    {
        "sgn.default": ops.sign,
        "isnan.default": truth_of(isnan),
        "isinf.default": truth_of(isinf),
        "isfinite.default": truth_of(isfinite),
        "log2.default": _function(lambda v: log(v) / log(2)),
        "log10.default": _function(lambda v: log(v) / log(10)),
        "log1p.default": _function(lambda v: log(1 + v)),
        "expm1.default": _function(lambda v: exp(v) - 1),
        "exp2.default": _function(lambda v: exp(v * log(2))),
        "relu6.default": lambda x: ops.clip(x, 0, 6),
        "deg2rad.default": _function(lambda v: v * sympy.Float(math.pi / 180)),
        "rad2deg.default": _function(lambda v: v * sympy.Float(180 / math.pi)),
        "mish.default": _function(lambda v: v * tanh(_softplus(v))),
        "log_sigmoid.default": _function(lambda v: -_softplus(-v)),
        "log_sigmoid_forward.default": lambda x: (elementwise(x, lambda v: -_softplus(-v)), None),
        "gelu.default": lambda x, approximate: ops.gelu(x, approximate),
        "leaky_relu.default": lambda x, slope: ops.leaky_relu(x, number(slope, x)),
    }
)


def _softplus(v: Any) -> Any:
    """Return `log(1 + exp(v))`, written so that no exponential overflows."""
    return Max(v, 0) + log(1 + exp(-Abs(v)))


@aten("floor.default")
def _floor(x: Any) -> Any:
    if not is_float(x.dtype):
        return x
    return ops.floor(x)


@aten("ceil.default")
def _ceil(x: Any) -> Any:
    if not is_float(x.dtype):
        return x
    return ops.ceil(x)


@aten("round.default")
def _round(x: Any) -> Any:
    if not is_float(x.dtype):
        return x
    return elementwise(x, nearest_even)


@aten("frac.default")
def _frac(x: Any) -> Any:
    return elementwise(x, lambda v: v - truncated(v))


@aten("trunc.default")
def _trunc(x: Any) -> Any:
    if not is_float(x.dtype):
        return x
    return elementwise(x, truncated)


def truncated(v: Any) -> Any:
    """Round towards 0."""
    return sympy.sign(v) * floor(Abs(v))


@aten("bitwise_not.default")
def _bitwise_not(x: Any) -> Any:
    if x.dtype != "bool":
        raise NotExpressed("bits of integers are no arithmetic")
    return ops.logical_not(x)


@aten("elu.default")
def _elu(x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    alpha, scale, input_scale = (number(v, x) for v in (alpha, scale, input_scale))
    return elementwise(
        x, lambda v: scale * (Max(v, 0) + alpha * (exp(input_scale * Min(v, 0)) - 1))
    )


SELU_ALPHA = 1.6732632423543772848170429916717  # as torch has it
SELU_SCALE = 1.0507009873554804934193349852946


@aten("selu.default")
def _selu(x: Any) -> Any:
    return _elu(x, SELU_ALPHA, SELU_SCALE, 1)


@aten("celu.default")
def _celu(x: Any, alpha: Any) -> Any:
    alpha = number(alpha, x)
    return elementwise(x, lambda v: Max(v, 0) + alpha * (exp(Min(v, 0) / alpha) - 1))


@aten("softplus.default")
def _softplus_scaled(x: Any, beta: Any, threshold: Any) -> Any:
    """Return a softplus of `beta * x`.

    Above `threshold` torch returns `x` itself, which differs by less than the rounding of f32 from
    20 on.
    """
    if threshold < 20:
        raise NotExpressed(f"a softplus that is linear from {threshold}")
    return ops.softplus(x, number(beta, x))


@aten("hardtanh.default")
def _hardtanh(x: Any, low: Any, high: Any) -> Any:
    return ops.clip(x, number(low, x), number(high, x))


@aten("threshold.default")
def _threshold(x: Any, threshold: Any, value: Any) -> Any:
    limit, other = numbers_beside((threshold, value), x)
    return elementwise(x, lambda v: Piecewise((other, v <= limit), (v, True)))


@aten("hardshrink.default")
def _hardshrink(x: Any, limit: Any) -> Any:
    limit = number_of_type(limit, x)
    return elementwise(x, lambda v: Piecewise((0, (v >= -limit) & (v <= limit)), (v, True)))


@aten("softshrink.default")
def _softshrink(x: Any, limit: Any) -> Any:
    limit = number(limit, x)
    return elementwise(x, lambda v: Max(v - limit, 0) + Min(v + limit, 0))


@aten("glu.default")
@in_single
def _glu(x: Any, dim: int) -> Any:
    """Return the first half of an axis, times the sigmoid of the second."""
    position = dim % x.rank
    half = x.shape[position] // 2
    value, gate = ops.split(x, (half, half), position)
    return ops.mul(value, elementwise(gate, logistic))
