"""Convolutions against torch in float64, on integers, which it computes exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

import einalg as ea
from einalg.language import ops
from tests.helpers.operators.harness import case, flip, integers, size, torch_module

SPATIAL = ("W", "HW", "DHW")
SMALL = (13, 8, 5)  # largest size of a spatial axis, for 1, 2 and 3 of them


def _order(rng: Any, letters: str) -> str:
    return "".join(rng.permutation(list(letters)))


def _moved(array: Any, letters: str, layout: str) -> Any:
    """The array with axes in the order `letters`, in the order `layout`."""
    return array.transpose([letters.index(letter) for letter in layout])


def _as_given(rng: Any, values: list[int]) -> Any:
    """The values in one of the ways in which a parameter may be written."""
    return values[0] if len(set(values)) == 1 and flip(rng) else tuple(values)


def _torch(array: Any) -> Any:
    return torch_module().from_numpy(np.ascontiguousarray(array, dtype=np.float64))


def _exactly(tensor: Any) -> Any:
    values = tensor.numpy()
    assert np.array_equal(values, np.rint(values))
    return values.astype(np.int64)


def _windows(rng: Any, spatial: str) -> Any:
    """Sizes, taps, strides, dilations and paddings (as given, and as pairs) of which at least one
    window fits.
    """
    rank = len(spatial)
    sizes, taps = (
        [size(rng, 1, SMALL[rank - 1]) for _ in spatial],
        [size(rng, 1, 3) for _ in spatial],
    )
    strides, dilations = [size(rng, 1, 3) for _ in spatial], [size(rng, 1, 2) for _ in spatial]
    extents = [(k - 1) * d + 1 for k, d in zip(taps, dilations)]
    pairs = [tuple(int(p) for p in rng.integers(0, 3, 2)) for _ in spatial]
    pairs = [(b, a + max(0, e - n - a - b)) for (b, a), e, n in zip(pairs, extents, sizes)]
    padding: Any = tuple(b if b == a and flip(rng) else (b, a) for b, a in pairs)
    which = rng.integers(0, 6)
    if which == 0:
        pairs, padding = [(0, 0)] * rank, "valid" if flip(rng) else 0
        sizes = [max(n, e) for n, e in zip(sizes, extents)]
    elif which == 1:
        padding = "same"
        totals = [max((-(-n // s) - 1) * s + e - n, 0) for n, s, e in zip(sizes, strides, extents)]
        pairs = [(t // 2, t - t // 2) for t in totals]
    return sizes, taps, strides, dilations, padding, pairs


def _operands(rng: Any, data: Any, kernel: Any, bias: Any) -> tuple[list[Any], dict[str, Any]]:
    arrays = {"A": data, "K": kernel} | ({"b": bias} if flip(rng) else {})
    return [ea.tensor(name, array.shape) for name, array in arrays.items()], arrays


def _pad(array: Any, pairs: Any) -> Any:
    return np.pad(array, [(0, 0), (0, 0), *pairs])


def convolution(rng: Any, rank: int, depthwise: bool = False) -> Any:
    spatial, torch = SPATIAL[rank - 1], torch_module()
    sizes, taps, strides, dilations, padding, pairs = _windows(rng, spatial)
    batch, groups = size(rng, 0, 3), size(rng, 1, 3)
    inputs = 1 if depthwise else size(rng, 1, 3 if rank < 3 else 2)
    multiplier = size(rng, 1, 3 if rank < 3 else 2)
    data = integers(rng, (batch, groups * inputs, *sizes))
    kernel, bias = (
        integers(rng, (groups * multiplier, inputs, *taps)),
        integers(rng, (groups * multiplier,)),
    )
    letters, weight_letters = "NC" + spatial, "OI" + spatial
    layout, weight_layout, out_layout = (
        _order(rng, letters),
        _order(rng, weight_letters),
        _order(rng, letters),
    )
    tensors, arrays = _operands(
        rng, _moved(data, letters, layout), _moved(kernel, weight_letters, weight_layout), bias
    )
    named = {"groups": groups} if not depthwise else {}
    name = f"{'depthwise_' if depthwise else ''}conv{rank}d"
    expression = ops.OPERATORS[name](
        *tensors, stride=_as_given(rng, strides), padding=padding, dilation=_as_given(rng, dilations), **named,
        layout=layout, weight_layout=weight_layout, out_layout=out_layout,
    )  # fmt: skip
    shift = _torch(arrays["b"]) if "b" in arrays else None
    reference = getattr(torch.nn.functional, f"conv{rank}d")
    expected = reference(
        _torch(_pad(data, pairs)),
        _torch(kernel),
        shift,
        tuple(strides),
        0,
        tuple(dilations),
        groups,
    )
    return expression, arrays, _moved(_exactly(expected), letters, out_layout)


def transposed(rng: Any, rank: int) -> Any:
    spatial, torch = SPATIAL[rank - 1], torch_module()
    sizes, taps = (
        [size(rng, 1, SMALL[rank - 1] - rank) for _ in spatial],
        [size(rng, 1, 3) for _ in spatial],
    )
    strides, dilations = [size(rng, 1, 3) for _ in spatial], [size(rng, 1, 2) for _ in spatial]
    extra = [int(rng.integers(0, max(s, d))) for s, d in zip(strides, dilations)]
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(sizes, strides, taps, dilations)]
    pairs = [tuple(int(p) for p in rng.integers(0, 1 + min(2, (e - 1) // 2), 2)) for e in full]
    batch, groups, inputs, features = (
        size(rng, 1, 3 if rank < 3 else 2),
        size(rng, 1, 3 if rank < 3 else 2),
        size(rng, 1, 2),
        size(rng, 1, 2),
    )
    data, bias = (
        integers(rng, (batch, groups * inputs, *sizes)),
        integers(rng, (groups * features,)),
    )
    kernel = integers(rng, (groups * inputs, features, *taps))
    letters, weight_letters = "NC" + spatial, "IO" + spatial
    layout, weight_layout, out_layout = (
        _order(rng, letters),
        _order(rng, weight_letters),
        _order(rng, letters),
    )
    tensors, arrays = _operands(
        rng, _moved(data, letters, layout), _moved(kernel, weight_letters, weight_layout), bias
    )
    expression = ops.OPERATORS[f"conv_transpose{rank}d"](
        *tensors, stride=_as_given(rng, strides), padding=tuple(pairs), output_padding=_as_given(rng, extra), groups=groups,
        dilation=_as_given(rng, dilations), layout=layout, weight_layout=weight_layout, out_layout=out_layout,
    )  # fmt: skip
    shift = _torch(arrays["b"]) if "b" in arrays else None
    reference = getattr(torch.nn.functional, f"conv_transpose{rank}d")
    expected = _exactly(
        reference(
            _torch(data),
            _torch(kernel),
            shift,
            tuple(strides),
            0,
            tuple(extra),
            groups,
            tuple(dilations),
        )
    )
    kept = tuple(slice(b, n - a) for (b, a), n in zip(pairs, expected.shape[2:]))
    return expression, arrays, _moved(expected[(..., *kept)], letters, out_layout)


@case("conv1d")
def conv1d(rng: Any) -> Any:
    return convolution(rng, 1)


@case("conv2d")
def conv2d(rng: Any) -> Any:
    return convolution(rng, 2)


@case("conv3d")
def conv3d(rng: Any) -> Any:
    return convolution(rng, 3)


@case("depthwise_conv1d")
def depthwise_conv1d(rng: Any) -> Any:
    return convolution(rng, 1, depthwise=True)


@case("depthwise_conv2d")
def depthwise_conv2d(rng: Any) -> Any:
    return convolution(rng, 2, depthwise=True)


@case("depthwise_conv3d")
def depthwise_conv3d(rng: Any) -> Any:
    return convolution(rng, 3, depthwise=True)


@case("conv_transpose1d")
def conv_transpose1d(rng: Any) -> Any:
    return transposed(rng, 1)


@case("conv_transpose2d")
def conv_transpose2d(rng: Any) -> Any:
    return transposed(rng, 2)


@case("conv_transpose3d")
def conv_transpose3d(rng: Any) -> Any:
    return transposed(rng, 3)


@case("conv2d")
def without_a_batch(rng: Any) -> Any:
    """A layout without N, and sizes of 0: no channels, no output channels."""
    data, kernel = (
        integers(rng, (size(rng, 0, 2), size(rng, 3, 5), size(rng, 3, 5))),
        integers(rng, (size(rng, 0, 2), 0, 2, 3)),
    )
    kernel = integers(rng, (kernel.shape[0], data.shape[0], 2, 3))
    expression = ops.conv2d(ea.tensor("A", data.shape), ea.tensor("K", kernel.shape), layout="CHW")
    windows = np.lib.stride_tricks.sliding_window_view(data, (2, 3), (1, 2))
    return expression, {"A": data, "K": kernel}, np.einsum("chwrs,fcrs->fhw", windows, kernel)
