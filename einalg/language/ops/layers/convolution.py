"""Convolutions: every one is the same definition, over one, two or three spatial axes."""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

from einalg.errors import ShapeError
from einalg.language.index.size import Extent, is_number, settled
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Sum
from einalg.language.ops.definition.layouts import LabelledArray, axis_order, ranges, with_axes
from einalg.language.ops.definition.operands import (
    equal_size,
    is_multiple,
    operand,
    optional_operand,
    times,
    whole,
)
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.windows import POINT, SPATIAL, TAP, Windows, c, f, windows


class Layouts(NamedTuple):
    """The orders of the axes of data, weight and result; that of the result is the data's where it
    is None.
    """

    data: str
    weight: str
    result: str | None


@operator
def conv1d(
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCW",
    weight_layout: str = "OIW",
    out_layout: str | None = None,
) -> Scope:
    """A convolution over one axis W; see `conv2d` for the parameters.

    >>> import einalg as ea
    >>> conv1d(ea.tensor("A", (1, 2, 9)), ea.tensor("K", (4, 2, 3)), dilation=2)
    L[n:1, f:4, w:5](Sum[c:2, s:3](A[n, c, 2*s + w]*K[f, c, s]))
    """
    layouts = Layouts(layout, weight_layout, out_layout)
    return _convolution(A, K, bias, SPATIAL[0], stride, padding, dilation, groups, layouts)


@operator
def conv2d(
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCHW",
    weight_layout: str = "OIHW",
    out_layout: str | None = None,
) -> Scope:
    """A convolution (cross-correlation): `O[n,f,h,w] = Σ_{c,r,s} A[n, c, h·stride + r·dilation -
    before, …]·K[f,c,r,s] + bias[f]`.

    `layout` orders the axes of `A`: C channels, H and W spatial, and N, which may be absent.
    `weight_layout` orders those of `K`: O output channels, I input channels of one group, H and W
    taps. `out_layout` orders the result as `layout` does, by default equally. `bias` has an element
    for each output channel. `stride` and `dilation` are an integer for all spatial axes or one for
    each; `padding` in elements is an integer, for each axis an integer or `(before, after)`,
    `"same"` or `"valid"`. With `groups`, output channel `f` reads the input channels of group `f //
    (O / groups)` only. Raises `ShapeError` where layouts, ranks, channels or groups do not fit, or
    no window fits.

    >>> import einalg as ea
    >>> A, K = ea.tensor("A", (8, 224, 224, 64)), ea.tensor("K", (3, 3, 64, 96), role="weight")
    >>> conv2d(A, K, stride=2, padding=((0, 1), (0, 1)), layout="NHWC", weight_layout="HWIO")
    L[n:8, h:112, w:112, f:96](Sum[c:64, r:3, s:3](A.pad(0, (0, 1), (0, 1), 0)[n, 2*h + r, s + 2*w,
    c]*K[r, s, c, f]))
    """
    layouts = Layouts(layout, weight_layout, out_layout)
    return _convolution(A, K, bias, SPATIAL[1], stride, padding, dilation, groups, layouts)


@operator
def conv3d(
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCDHW",
    weight_layout: str = "OIDHW",
    out_layout: str | None = None,
) -> Scope:
    """A convolution over three axes D, H and W; see `conv2d` for the parameters.

    >>> import einalg as ea
    >>> conv3d(ea.tensor("A", (1, 2, 4, 5, 6)), ea.tensor("K", (4, 2, 3, 3, 3))).shape
    (1, 4, 2, 3, 4)
    """
    layouts = Layouts(layout, weight_layout, out_layout)
    return _convolution(A, K, bias, SPATIAL[2], stride, padding, dilation, groups, layouts)


@operator
def depthwise_conv1d(
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "NCW",
    weight_layout: str = "OIW",
    out_layout: str | None = None,
) -> Scope:
    """A convolution of every channel by itself, over one axis W; see `depthwise_conv2d`.

    >>> import einalg as ea
    >>> depthwise_conv1d(ea.tensor("A", (1, 2, 9)), ea.tensor("K", (2, 1, 3)))
    L[n:1, f:2, w:7](Sum[s:3](A[n, f, s + w]*K[f, 0, s]))
    """
    layouts = Layouts(layout, weight_layout, out_layout)
    return _depthwise(A, K, bias, SPATIAL[0], stride, padding, dilation, layouts)


@operator
def depthwise_conv2d(
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "NCHW",
    weight_layout: str = "OIHW",
    out_layout: str | None = None,
) -> Scope:
    """A convolution of every channel by itself: `O[n,f,h,w] = Σ_{r,s} A[n, f // m, h·stride +
    r·dilation - before, …]·K[f,r,s]`.

    `K` has a whole number `m` of output channels for each of the C channels of `A`; its axis I is
    of size 1, or absent from `weight_layout`. The other parameters are those of `conv2d`. Raises
    `ShapeError` where layouts, ranks or channels do not fit.

    >>> import einalg as ea
    >>> A, K = ea.tensor("A", (1, 8, 9, 9)), ea.tensor("K", (16, 3, 3))
    >>> depthwise_conv2d(A, K, padding=1, weight_layout="OHW").shape
    (1, 16, 9, 9)
    """
    layouts = Layouts(layout, weight_layout, out_layout)
    return _depthwise(A, K, bias, SPATIAL[1], stride, padding, dilation, layouts)


@operator
def depthwise_conv3d(
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    layout: str = "NCDHW",
    weight_layout: str = "OIDHW",
    out_layout: str | None = None,
) -> Scope:
    """A convolution of every channel by itself, over three axes D, H and W; see `depthwise_conv2d`.

    >>> import einalg as ea
    >>> depthwise_conv3d(ea.tensor("A", (1, 2, 4, 5, 6)), ea.tensor("K", (2, 1, 3, 3, 3))).shape
    (1, 2, 2, 3, 4)
    """
    layouts = Layouts(layout, weight_layout, out_layout)
    return _depthwise(A, K, bias, SPATIAL[2], stride, padding, dilation, layouts)


def _convolution(
    A: Any,
    K: Any,
    bias: Any,
    spatial: str,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    layouts: Layouts,
) -> Scope:
    """Return the definition of a convolution over any number of spatial axes."""
    data = with_axes(operand(A, "A"), layouts.data, "layout", "C" + spatial, "N")
    kernel = with_axes(operand(K, "K"), layouts.weight, "weight_layout", "OI" + spatial)
    features, depth = kernel.size("O"), kernel.size("I")
    outputs, inputs = channels_of_groups(
        groups, (("K, axis O", features), ("A, axis C", data.size("C")))
    )
    equal_size([("axis C of A, divided by groups,", inputs), ("axis I of K", depth)])
    window_axes = windows(
        spatial, data.sizes(spatial), kernel.sizes(spatial), stride, padding, dilation
    )
    channel = c if groups == 1 else f // max(outputs, 1) * depth + c
    product = read_windows(data, window_axes, channel) * kernel.read({"O": f, "I": c, **TAP})
    total = Sum[(slice(c, depth), *ranges(spatial, TAP, _taps(window_axes)))](product)
    return _result(total, bias, features, data, window_axes, layouts.result)


def _depthwise(
    A: Any,
    K: Any,
    bias: Any,
    spatial: str,
    stride: Any,
    padding: Any,
    dilation: Any,
    layouts: Layouts,
) -> Scope:
    """Return the definition of a convolution in which every channel stands alone."""
    data = with_axes(operand(A, "A"), layouts.data, "layout", "C" + spatial, "N")
    kernel = with_axes(operand(K, "K"), layouts.weight, "weight_layout", "O" + spatial, "I")
    if "I" in kernel.layout and kernel.size("I") != 1:
        raise ShapeError(
            f"axis I of K must have size 1, not {kernel.size('I')}\n"
            f"  use a convolution with groups={data.size('C')} or less"
        )
    features = kernel.size("O")
    multiplier = _multiplier(features, data.size("C"))
    window_axes = windows(
        spatial, data.sizes(spatial), kernel.sizes(spatial), stride, padding, dilation
    )
    weight = kernel.read({"O": f, "I": 0, **TAP})
    product = read_windows(data, window_axes, f // multiplier) * weight
    return _result(
        Sum[ranges(spatial, TAP, _taps(window_axes))](product),
        bias,
        features,
        data,
        window_axes,
        layouts.result,
    )


def _multiplier(features: Extent, channels: Extent) -> Extent:
    """Return how many output channels each input channel has."""
    if is_number(channels):
        return channels_of_groups(channels, (("K, axis O", features),))[0]
    number = times(features, channels)
    if number is None:
        raise ShapeError(
            f"axis O of K has size {features}, no whole multiple of the {channels} channels of A\n"
            f"  give it size {channels}"
        )
    return number


def read_windows(data: LabelledArray, window_axes: Windows, channel: Any, fill: Any = 0) -> Any:
    """Return the element of a channel that each tap of each window reads; `fill` outside."""
    subscripts: dict[str, Any] = {"N": POINT["N"], "C": channel}
    padding = {}
    for axis, window in window_axes.items():
        subscripts[axis] = window.element(POINT[axis], TAP[axis])
        padding[axis] = window.padding
    return data.padded(padding, fill).read(subscripts)


def channels_of_groups(groups: Any, channels: tuple[tuple[str, Extent], ...]) -> tuple[Extent, ...]:
    """Return the channels of one group, for every number of channels that the groups must
    divide.
    """
    count = whole(groups, "groups", 1)
    common = gcd(*(number for _, number in channels if is_number(number)))
    for what, number in channels:
        if not is_multiple(number, count):
            divisors = [g for g in range(1, common + 1) if common % g == 0]
            raise ShapeError(
                f"groups={count} does not divide the {number} channels of {what}\n"
                f"  use one of {', '.join(map(str, divisors))}"
            )
    return tuple(settled(number // count) for _, number in channels)


def _taps(window_axes: Windows) -> dict[str, int]:
    return {axis: window.kernel for axis, window in window_axes.items()}


def _result(
    total: Any,
    bias: Any,
    features: int,
    data: LabelledArray,
    window_axes: Windows,
    out_layout: str | None,
) -> Scope:
    sizes = {axis: window.out for axis, window in window_axes.items()}
    return scope_of_points(total, bias, data, out_layout, {"C": features, **sizes})


def scope_of_points(
    total: Any, bias: Any, data: LabelledArray, out_layout: str | None, sizes: dict[str, int]
) -> Scope:
    """Return the sum and the bias at every output point, in the layout of the result."""
    order = data.layout
    if out_layout is not None:
        order = axis_order(out_layout, "out_layout", data.layout)
    shift = optional_operand(bias, "bias", (sizes["C"],), "an element for each output channel")
    if shift is not None:
        total = total + shift[f]
    if "N" in data.layout:
        sizes = {**sizes, "N": data.size("N")}
    return L[ranges(order, POINT, sizes)](total)
