"""Functions of one element against NumPy and `math`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from einalg.language import ops
from tests.helpers.operators.harness import case, flip, floats, integers
from tests.helpers.operators.operands import readable, some_shape

erf = np.vectorize(math.erf, otypes=[float])

ON_INTEGERS: dict[str, Callable[..., Any]] = {
    "neg": lambda v: -v,
    "abs": np.abs,
    "sign": np.sign,
    "square": lambda v: v * v,
    "floor": np.floor,
    "ceil": np.ceil,
    "relu": lambda v: np.maximum(v, 0),
}
ON_FLOATS: dict[str, Callable[..., Any]] = {
    **ON_INTEGERS,
    "exp": np.exp,
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "silu": lambda v: v / (1 + np.exp(-v)),
    "hardsigmoid": lambda v: np.clip(v / 6 + 0.5, 0, 1),
    "hardswish": lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
}
ON_POSITIVE: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda v: v**-0.5,
    "log": np.log,
    "reciprocal": lambda v: 1 / v,
}


def register(
    name: str, reference: Callable[..., Any], array: Callable[[Any, Any], Any], label: str
) -> None:
    """A case of an operator without parameters on random arrays."""

    def compared(rng: Any) -> Any:
        values = array(rng, some_shape(rng))
        x, stored, values = readable(rng, values)
        return getattr(ops, name)(x), {"x": stored}, reference(values)

    compared.__name__ = f"{name}_of_{label}"
    case(name)(compared)


for name, reference in ON_INTEGERS.items():
    register(name, reference, integers, "integers")
for name, reference in ON_FLOATS.items():
    register(name, reference, lambda rng, shape: 3 * floats(rng, shape), "floats")


def register_positive(name: str, reference: Callable[..., Any]) -> None:
    """As above; what a view is filled with need not be positive, so the expression replaces it."""

    def compared(rng: Any) -> Any:
        values = np.exp(floats(rng, some_shape(rng)))
        x, stored, values = readable(rng, values)
        safe = ops.where(ops.greater(x, 0), x, 1.5)
        return getattr(ops, name)(safe), {"x": stored}, reference(np.where(values > 0, values, 1.5))

    case(name)(compared)


for name, reference in ON_POSITIVE.items():
    register_positive(name, reference)


@case("leaky_relu")
def leaky_relu(rng: Any) -> Any:
    values = floats(rng, some_shape(rng))
    x, stored, values = readable(rng, values)
    slope = float(rng.choice([0.01, 0.3, 1.7, -0.5]))
    return ops.leaky_relu(x, slope), {"x": stored}, np.where(values > 0, values, slope * values)


@case("elu")
def elu(rng: Any) -> Any:
    values = 3 * floats(rng, some_shape(rng))
    x, stored, values = readable(rng, values)
    alpha = float(rng.choice([1, 0.3, 2.5, -0.5]))
    return ops.elu(x, alpha), {"x": stored}, np.where(values > 0, values, alpha * np.expm1(values))


@case("gelu")
def gelu(rng: Any) -> Any:
    values = 3 * floats(rng, some_shape(rng))
    x, stored, values = readable(rng, values)
    exact = flip(rng)
    inner = (
        erf(values / math.sqrt(2))
        if exact
        else np.tanh(math.sqrt(2 / math.pi) * (values + 0.044715 * values**3))
    )
    return ops.gelu(x, "none" if exact else "tanh"), {"x": stored}, values * (1 + inner) / 2


@case("softplus")
def softplus(rng: Any) -> Any:
    """Also elements whose exponential has no float64."""
    values = floats(rng, some_shape(rng)) * rng.choice([1, 2000])
    x, stored, values = readable(rng, values)
    beta = float(rng.choice([1, 0.5, 3]))
    return ops.softplus(x, beta), {"x": stored}, np.logaddexp(0, beta * values) / beta


@case("clip")
def clip(rng: Any) -> Any:
    values = integers(rng, some_shape(rng)) if flip(rng) else 5 * floats(rng, some_shape(rng))
    x, stored, values = readable(rng, values)
    low, high = (
        (None if flip(rng, 0.3) else int(rng.integers(-5, 1))),
        (None if flip(rng, 0.3) else int(rng.integers(1, 6))),
    )
    expected = values if low is None else np.maximum(values, low)
    return (
        ops.clip(x, low, high),
        {"x": stored},
        expected if high is None else np.minimum(expected, high),
    )
