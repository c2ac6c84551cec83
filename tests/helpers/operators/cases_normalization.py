"""Softmax and normalizations against torch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

import einalg as ea
from einalg.language import ops
from tests.helpers.operators.harness import case, flip, floats, size, torch_module
from tests.helpers.operators.operands import readable, some_shape


def _x(rng: Any, shape: Any, scale: float = 1) -> tuple[Any, dict[str, Any], Any]:
    x, stored, values = readable(rng, scale * floats(rng, shape))
    return x, {"x": stored}, torch_module().from_numpy(values.copy())


def _parameter(
    rng: Any, arrays: dict[str, Any], name: str, shape: Any, positive: bool = False
) -> tuple[Any, Any]:
    """A parameter that is absent at times: for einalg and for torch."""
    if not positive and flip(rng, 0.4):
        return None, None
    arrays[name] = np.exp(floats(rng, shape)) if positive else floats(rng, shape)
    return ea.tensor(name, shape, "f64", "weight"), torch_module().from_numpy(arrays[name])


def _softmax(rng: Any, name: str) -> Any:
    """Also elements whose exponentials have no float64."""
    x, arrays, values = _x(rng, some_shape(rng, 1, 3), float(rng.choice([1, 500])))
    axis = int(rng.integers(-values.ndim, values.ndim))
    return getattr(ops, name)(x, axis), arrays, getattr(torch_module(), name)(values, axis).numpy()


@case("softmax")
def softmax(rng: Any) -> Any:
    return _softmax(rng, "softmax")


@case("log_softmax")
def log_softmax(rng: Any) -> Any:
    return _softmax(rng, "log_softmax")


@case("layer_norm")
def layer_norm(rng: Any) -> Any:
    torch = torch_module()
    x, arrays, values = _x(rng, [size(rng) for _ in range(size(rng, 1, 3))])
    count = size(rng, 1, values.ndim)
    axes = tuple(int(a) for a in rng.permutation(count) - count)
    sizes, eps = tuple(values.shape[-count:]), float(rng.choice([1e-5, 0.1]))
    (weight, torch_weight), (bias, torch_bias) = (
        _parameter(rng, arrays, name, sizes) for name in ("weight", "bias")
    )
    expected = torch.nn.functional.layer_norm(values, sizes, torch_weight, torch_bias, eps)
    return (
        ops.layer_norm(x, weight, bias, axes[0] if count == 1 else axes, eps),
        arrays,
        expected.numpy(),
    )


@case("layer_norm")
def over_inner_axes(rng: Any) -> Any:
    """Axes that are not the last ones, which torch does not have."""
    x, arrays, values = _x(rng, [size(rng), size(rng), size(rng)])
    weight, _ = _parameter(rng, arrays, "weight", values.shape[:2])
    array, scale = values.numpy(), arrays.get("weight", np.ones(values.shape[:2]))
    normal = (array - array.mean((0, 1))) / np.sqrt(array.var((0, 1)) + 0.5)
    return ops.layer_norm(x, weight, axes=(1, 0), eps=0.5), arrays, normal * scale[:, :, None]


@case("rms_norm")
def rms_norm(rng: Any) -> Any:
    torch = torch_module()
    x, arrays, values = _x(rng, [size(rng) for _ in range(size(rng, 1, 3))])
    count, eps = size(rng, 1, values.ndim), float(rng.choice([1e-6, 0.1]))
    sizes = tuple(values.shape[-count:])
    weight, torch_weight = _parameter(rng, arrays, "weight", sizes)
    expected = torch.nn.functional.rms_norm(values, sizes, torch_weight, eps)
    return ops.rms_norm(x, weight, tuple(range(-count, 0)), eps), arrays, expected.numpy()


@case("batch_norm")
def batch_norm(rng: Any) -> Any:
    torch = torch_module()
    shape = (size(rng, 0, 3), size(rng), *some_shape(rng, 0, 2, 3))
    axis, eps = int(rng.integers(-len(shape), len(shape))), float(rng.choice([1e-5, 0.1]))
    x, arrays, values = _x(rng, shape)
    channels = (shape[axis],)
    mean, torch_mean = _parameter(rng, arrays, "mean", channels)
    if mean is None:
        arrays["mean"] = np.zeros(channels)
        mean, torch_mean = ea.tensor("mean", channels), torch.zeros(channels, dtype=torch.float64)
    variance, torch_variance = _parameter(rng, arrays, "variance", channels, positive=True)
    (weight, torch_weight), (bias, torch_bias) = (
        _parameter(rng, arrays, name, channels) for name in ("weight", "bias")
    )
    if axis % len(shape) == 1 and values.numel():
        expected = torch.nn.functional.batch_norm(
            values, torch_mean, torch_variance, torch_weight, torch_bias, False, 0, eps
        ).numpy()
    else:
        row = [-1 if a == axis % len(shape) else 1 for a in range(len(shape))]
        ones = {"weight": np.ones(channels), "bias": np.zeros(channels), **arrays}
        m, v, w, b = (ones[name].reshape(row) for name in ("mean", "variance", "weight", "bias"))
        expected = (values.numpy() - m) / np.sqrt(v + eps) * w + b
    return ops.batch_norm(x, mean, variance, weight, bias, axis, eps), arrays, expected


@case("group_norm")
def group_norm(rng: Any) -> Any:
    torch = torch_module()
    groups = size(rng, 1, 3)
    channels = groups * size(rng, 1, 3)
    x, arrays, values = _x(
        rng, (size(rng, 1, 3), channels, *(size(rng, 1, 3) for _ in range(size(rng, 0, 3))))
    )
    eps = float(rng.choice([1e-5, 0.1]))
    (weight, torch_weight), (bias, torch_bias) = (
        _parameter(rng, arrays, name, (channels,)) for name in ("weight", "bias")
    )
    # torch refuses a single value a channel, which has the variance 0
    expected = torch.native_group_norm(
        values,
        torch_weight,
        torch_bias,
        values.shape[0],
        channels,
        values[0, 0].numel(),
        groups,
        eps,
    )[0]
    return ops.group_norm(x, groups, weight, bias, eps), arrays, expected.numpy()


@case("instance_norm")
def instance_norm(rng: Any) -> Any:
    torch = torch_module()
    channels = size(rng, 1, 3)
    x, arrays, values = _x(
        rng,
        (
            size(rng, 1, 3),
            channels,
            size(rng, 2, 4),
            *(size(rng, 1, 3) for _ in range(size(rng, 0, 2))),
        ),
    )
    eps = float(rng.choice([1e-5, 0.1]))
    (weight, torch_weight), (bias, torch_bias) = (
        _parameter(rng, arrays, name, (channels,)) for name in ("weight", "bias")
    )
    expected = torch.nn.functional.instance_norm(
        values, weight=torch_weight, bias=torch_bias, eps=eps
    )
    return ops.instance_norm(x, weight, bias, eps), arrays, expected.numpy()
