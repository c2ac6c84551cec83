"""Poolings: the mean or the maximum of every window."""

from __future__ import annotations

from math import prod
from typing import Any

from einalg.errors import ShapeError
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Max, Sum
from einalg.language.ops.definition.layouts import LabelledArray, ranges, with_axes
from einalg.language.ops.definition.operands import in_single, operand, per_axis, rounded_to
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.windows import (
    POINT,
    SPATIAL,
    TAP,
    WindowAxis,
    Windows,
    f,
    windows,
)
from einalg.language.ops.layers.convolution import read_windows

INFINITY = float("inf")


@operator
def avg_pool1d(
    A: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCW",
) -> Scope:
    """The mean of every window along one axis W; see `avg_pool2d` for the parameters.

    >>> import einalg as ea
    >>> avg_pool1d(ea.tensor("A", (1, 2, 9)), 3)
    L[n:1, f:2, w:3](Sum[s:3](A[n, f, s + 3*w])/3)
    """
    return _average(
        A, SPATIAL[0], kernel, stride, padding, dilation, ceil_mode, count_include_pad, layout
    )


@operator
def avg_pool2d(
    A: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Scope:
    """The mean of every window: `O[n,f,h,w] = Σ_{r,s} A[n, f, h·stride + r·dilation - before, …] /
    count`.

    `kernel`, `stride` (by default the kernel) and `dilation` are an integer for all spatial axes or
    one for each; `padding` in elements, with zeros, is an integer, for each axis an integer or
    `(before, after)`, `"same"` or `"valid"`. `ceil_mode` keeps a last window that is not full. The
    count is the number of taps of a window inside `A` and, with `count_include_pad`, its padding;
    it is a sum of its own where windows differ. `layout` orders the axes: C, H, W, and N, which may
    be absent. Raises `ShapeError` where rank and layout differ, no window fits, or a window would
    have a count of 0.

    >>> import einalg as ea
    >>> A = ea.tensor("A", (1, 4, 7, 7))
    >>> avg_pool2d(A, 3, stride=2, padding=1)
    L[n:1, f:4, h:4, w:4](Sum[r:3, s:3](A.pad(0, 0, 1, 1)[n, f, 2*h + r - 1, s + 2*w - 1])/9)
    """
    return _average(
        A, SPATIAL[1], kernel, stride, padding, dilation, ceil_mode, count_include_pad, layout
    )


@operator
def avg_pool3d(
    A: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCDHW",
) -> Scope:
    """The mean of every window along three axes D, H and W; see `avg_pool2d` for the parameters.

    >>> import einalg as ea
    >>> avg_pool3d(ea.tensor("A", (1, 2, 4, 6, 8)), (2, 3, 4)).shape
    (1, 2, 2, 2, 2)
    """
    return _average(
        A, SPATIAL[2], kernel, stride, padding, dilation, ceil_mode, count_include_pad, layout
    )


@operator
def max_pool1d(
    A: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    layout: str = "NCW",
) -> Scope:
    """The largest element of every window along one axis W; see `max_pool2d` for the parameters.

    >>> import einalg as ea
    >>> max_pool1d(ea.tensor("A", (1, 2, 9)), 3, stride=1, dilation=2)
    L[n:1, f:2, w:5](Max[s:3](A[n, f, 2*s + w]))
    """
    return _maximum(A, SPATIAL[0], kernel, stride, padding, dilation, ceil_mode, layout)


@operator
def max_pool2d(
    A: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    layout: str = "NCHW",
) -> Scope:
    """The largest element of every window: `O[n,f,h,w] = Max_{r,s} A[n, f, h·stride + r·dilation -
    before, …]`.

    The parameters are those of `avg_pool2d`; the padding holds `-inf`. Raises `ShapeError` where
    rank and layout differ, no window fits, or a window would hold padding only.

    >>> import einalg as ea
    >>> max_pool2d(ea.tensor("A", (1, 4, 7, 7)), 3, stride=2, padding=1)
    L[n:1, f:4, h:4, w:4](Max[r:3, s:3](A.pad(0, 0, 1, 1, fill=-inf)[n, f, 2*h + r - 1, s + 2*w -
    1]))
    """
    return _maximum(A, SPATIAL[1], kernel, stride, padding, dilation, ceil_mode, layout)


@operator
def max_pool3d(
    A: Any,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
) -> Scope:
    """The largest element of every window along three axes D, H and W; see `max_pool2d` for the
    parameters.

    >>> import einalg as ea
    >>> max_pool3d(ea.tensor("A", (1, 2, 4, 6, 9)), 3, ceil_mode=True).shape
    (1, 2, 2, 2, 3)
    """
    return _maximum(A, SPATIAL[2], kernel, stride, padding, dilation, ceil_mode, layout)


@operator
def global_avg_pool(A: Any, layout: str | None = None, keepdims: bool = True) -> Scope:
    """The mean over all spatial axes: `O[n,f,h,w] = Σ_{r,s} A[n,f,r,s] / (H·W)`.

    `layout` orders the axes: C, any of D, H, W, and N, which may be absent; by default it is NCW,
    NCHW or NCDHW. With `keepdims` the spatial axes stay, with size 1, else they are absent. Raises
    `ShapeError` where rank and layout differ, or an axis is empty.

    >>> import einalg as ea
    >>> global_avg_pool(ea.tensor("A", (1, 4, 7, 7)), keepdims=False)
    L[n:1, f:4](Sum[r:7, s:7](A[n, f, r, s])/49)
    """
    data, spatial = _whole_axes(A, layout)
    sizes = dict(zip(spatial, data.sizes(spatial)))
    element = _channel_element(data)
    total = Sum[ranges(spatial, TAP, sizes)](in_single(element))
    mean = rounded_to(total / prod(data.sizes(spatial)), element.tensor.dtype)
    return _at_every_point(data, _unit_sizes(spatial, keepdims), mean)


@operator
def global_max_pool(A: Any, layout: str | None = None, keepdims: bool = True) -> Scope:
    """The largest element over all spatial axes; see `global_avg_pool` for the parameters.

    >>> import einalg as ea
    >>> global_max_pool(ea.tensor("A", (1, 7, 7, 4)), layout="NHWC")
    L[n:1, h:1, w:1, f:4](Max[r:7, s:7](A[n, r, s, f]))
    """
    data, spatial = _whole_axes(A, layout)
    largest = _reduced_channel(data, spatial, Max)
    return _at_every_point(data, _unit_sizes(spatial, keepdims), largest)


def _unit_sizes(spatial: str, keepdims: bool) -> dict[str, int]:
    """Return the sizes of spatial axes that are reduced."""
    if keepdims:
        return dict.fromkeys(spatial, 1)
    return {}


def _average(
    A: Any,
    spatial: str,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    layout: str,
) -> Scope:
    """Return the definition of an average pooling over any number of spatial axes."""
    data, window_axes = _windows(A, spatial, kernel, stride, padding, dilation, ceil_mode, layout)
    count = prod(_count(axis, window, count_include_pad) for axis, window in window_axes.items())
    element = read_windows(data, window_axes, f)
    mean = Sum[_taps(window_axes)](in_single(element)) / count
    return _at_every_point(data, _out(window_axes), rounded_to(mean, element.tensor.dtype))


def _maximum(
    A: Any,
    spatial: str,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    layout: str,
) -> Scope:
    """Return the definition of a maximum pooling over any number of spatial axes."""
    data, window_axes = _windows(A, spatial, kernel, stride, padding, dilation, ceil_mode, layout)
    for axis, window in window_axes.items():
        _counts(axis, window, 0, window.size)
    return _at_every_point(
        data,
        _out(window_axes),
        Max[_taps(window_axes)](read_windows(data, window_axes, f, fill=-INFINITY)),
    )


def _windows(
    A: Any,
    spatial: str,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    layout: str,
) -> tuple[LabelledArray, Windows]:
    data = with_axes(operand(A, "A"), layout, "layout", "C" + spatial, "N")
    taps = per_axis(kernel, "kernel", spatial, 1)
    return data, windows(
        spatial,
        data.sizes(spatial),
        taps,
        taps if stride is None else stride,
        padding,
        dilation,
        ceil_mode,
    )


def _count(axis: str, window: WindowAxis, count_include_pad: bool) -> Any:
    """Return how many taps of a window count along one axis: a number where it is the same for all,
    else a sum over the taps.
    """
    low, high = 0, window.size
    if count_include_pad:
        low, high = -window.before, window.size + window.after
    counts = _counts(axis, window, low, high)
    if len(counts) == 1:
        return counts.pop()
    tap, element = TAP[axis], window.element(POINT[axis], TAP[axis])
    return Sum[tap : window.kernel](1, where=(element >= low, element < high))


def _counts(axis: str, window: WindowAxis, low: int, high: int) -> set[int]:
    """Return the numbers of taps in `[low, high)` that occur, none of which may be 0."""
    counts = window.counts(low, high)
    if 0 in counts:
        raise ShapeError(
            f"a window along axis {axis} holds padding only (size {window.size}, kernel "
            f"{window.kernel}, dilation {window.dilation}, padding ({window.before}, "
            f"{window.after}))\n  pad less than the kernel reaches"
        )
    return counts


def _whole_axes(A: Any, layout: str | None) -> tuple[LabelledArray, str]:
    """Return the operand and its spatial axes, none of which is empty."""
    data = operand(A, "A")
    if layout is None and data.rank not in (3, 4, 5):
        raise ShapeError(
            f"A has {data.rank} axes, of sizes {data.shape}; without a layout it must have 3, "
            "4 or 5\n"
            "  give layout='CHW'"
        )
    named = with_axes(data, layout or "NC" + SPATIAL[data.rank - 3], "layout", "C", "NDHW")
    spatial = "".join(axis for axis in SPATIAL[-1] if axis in named.layout)
    if not spatial or 0 in named.sizes(spatial):
        what = f"A has the sizes {data.shape} on the axes {named.layout}"
        raise ShapeError(
            f"{what}; it needs a spatial axis, and none may be empty\n  add an axis W of size 1"
        )
    return named, spatial


def _reduced_channel(data: LabelledArray, spatial: str, reduction: Any) -> Any:
    """Return all elements of a channel, reduced."""
    sizes = dict(zip(spatial, data.sizes(spatial)))
    return reduction[ranges(spatial, TAP, sizes)](_channel_element(data))


def _channel_element(data: LabelledArray) -> Any:
    """Return the element of a channel at any point."""
    return data.read({"N": POINT["N"], "C": f, **TAP})


def _taps(window_axes: Windows) -> tuple[slice, ...]:
    return ranges(
        "".join(window_axes), TAP, {axis: window.kernel for axis, window in window_axes.items()}
    )


def _out(window_axes: Windows) -> dict[str, int]:
    return {axis: window.out for axis, window in window_axes.items()}


def _at_every_point(data: LabelledArray, spatial_sizes: dict[str, int], body: Any) -> Scope:
    """Return a scope over batch, channels and some spatial axes, in the order that they have in the
    operand.
    """
    sizes = {axis: data.size(axis) for axis in data.layout if axis in "NC"} | spatial_sizes
    return L[ranges("".join(axis for axis in data.layout if axis in sizes), POINT, sizes)](body)
