"""Reductions against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from einalg.language import ops
from tests.helpers.operators.harness import case, flip, floats, integers, size
from tests.helpers.operators.operands import readable, some_axes, some_shape


def _axes(rng: Any, rank: int) -> Any:
    """None, a number, or several axes."""
    kind = rng.integers(0, 3)
    return (
        None
        if kind == 0
        else int(rng.integers(-rank, rank))
        if kind == 1 and rank
        else some_axes(rng, rank)
    )


def _shape(rng: Any, empty: bool) -> tuple[int, ...]:
    shape = some_shape(rng, 0, 4, 3)
    return shape if empty else tuple(max(s, 1) for s in shape)


def register(
    name: str,
    reference: Callable[..., Any],
    array: Callable[[Any, Any], Any],
    label: str,
    empty: bool = False,
    **extra: Any,
) -> None:
    def compared(rng: Any) -> Any:
        values = array(rng, _shape(rng, empty))
        x, stored, values = readable(rng, values)
        axes, keepdims = _axes(rng, values.ndim), flip(rng)
        return (
            getattr(ops, name)(x, axes, keepdims, **extra),
            {"x": stored},
            reference(values, axis=axes, keepdims=keepdims),
        )

    compared.__name__ = f"{name}_of_{label}"
    case(name)(compared)


def _factors(rng: Any, shape: Any) -> Any:
    return integers(rng, shape, -2, 2)


def _conditions(rng: Any, shape: Any) -> Any:
    return rng.random(shape) < 0.5


def _norm(order: float) -> Callable[..., Any]:
    def reference(values: Any, axis: Any, keepdims: bool) -> Any:
        if order == 2:
            return np.sqrt((values**2).sum(axis=axis, keepdims=keepdims))
        return (
            np.abs(values).sum(axis=axis, keepdims=keepdims)
            if order == 1
            else np.abs(values).max(axis=axis, keepdims=keepdims)
        )

    return reference


def _logsumexp(values: Any, axis: Any, keepdims: bool) -> Any:
    largest = values.max(axis=axis, keepdims=True)
    total = np.log(np.exp(values - largest).sum(axis=axis, keepdims=True)) + largest
    return total if keepdims else total.reshape(values.sum(axis=axis).shape)


register("sum", np.sum, integers, "integers", empty=True)
register("sum", np.sum, _conditions, "conditions", empty=True)
register("prod", np.prod, _factors, "integers", empty=True)
register("max", np.max, integers, "integers")
register("min", np.min, integers, "integers")
register("max", np.max, floats, "floats")
register("mean", np.mean, integers, "integers")
register("mean", np.mean, floats, "floats")
register("variance", np.var, floats, "floats")
register("norm", _norm(2), floats, "floats", empty=True)
register("norm", _norm(1), integers, "integers", empty=True, order=1)
register("norm", _norm(np.inf), integers, "integers_by_the_largest", order=np.inf)
register("logsumexp", _logsumexp, lambda rng, shape: 500 * floats(rng, shape), "floats_of_any_size")


@case("variance")
def corrected(rng: Any) -> Any:
    values = floats(rng, (size(rng), size(rng, 2, 5)))
    x, stored, values = readable(rng, values)
    return ops.variance(x, -1, correction=1), {"x": stored}, values.var(axis=-1, ddof=1)


@case("cumsum")
def cumsum(rng: Any) -> Any:
    values = integers(rng, some_shape(rng, 1, 3, 4))
    x, stored, values = readable(rng, values)
    axis, exclusive, reverse = int(rng.integers(-values.ndim, values.ndim)), flip(rng), flip(rng)
    turned = np.flip(values, axis) if reverse else values
    expected = turned.cumsum(axis=axis) - (turned if exclusive else 0)
    return (
        ops.cumsum(x, axis, exclusive, reverse),
        {"x": stored},
        np.flip(expected, axis) if reverse else expected,
    )


@case("cumprod")
def cumprod(rng: Any) -> Any:
    values = integers(rng, some_shape(rng, 1, 3, 4), -2, 2)
    x, stored, values = readable(rng, values)
    axis, reverse = int(rng.integers(-values.ndim, values.ndim)), flip(rng)
    expected = (np.flip(values, axis) if reverse else values).cumprod(axis=axis)
    return (
        ops.cumprod(x, axis, reverse=reverse),
        {"x": stored},
        np.flip(expected, axis) if reverse else expected,
    )


@case("cumprod")
def cumprod_without_the_element_itself(rng: Any) -> Any:
    x, stored, values = readable(rng, integers(rng, (2, size(rng, 1, 6)), -2, 2))
    expected = np.concatenate([np.ones((2, 1), values.dtype), values.cumprod(axis=1)[:, :-1]], 1)
    return ops.cumprod(x, 1, exclusive=True), {"x": stored}, expected


def _register_places(name: str, function: Any) -> None:
    @case(name)
    def place(rng: Any) -> Any:
        """Many elements are equal: the first or the last of these."""
        x, stored, values = readable(
            rng, integers(rng, tuple(size(rng, 1, 5) for _ in range(size(rng, 1, 3))), -2, 2)
        )
        axis, keepdims, last = int(rng.integers(-values.ndim, values.ndim)), flip(rng), flip(rng)
        turned = np.flip(values, axis) if last else values
        expected = function(turned, axis=axis, keepdims=keepdims)
        return (
            getattr(ops, name)(x, axis, keepdims, last),
            {"x": stored},
            values.shape[axis] - 1 - expected if last else expected,
        )

    @case(name)
    def place_in_all(rng: Any) -> Any:
        x, stored, values = readable(
            rng, integers(rng, tuple(size(rng, 1, 4) for _ in range(size(rng, 1, 3))), -3, 3)
        )
        return getattr(ops, name)(x), {"x": stored}, np.asarray(function(values))


_register_places("argmax", np.argmax)
_register_places("argmin", np.argmin)
