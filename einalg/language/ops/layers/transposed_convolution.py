"""Transposed convolutions, which run the taps of a convolution backwards: one definition over one,
two or three axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine, Index
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import Sum
from einalg.language.ops.definition.layouts import ranges, with_axes
from einalg.language.ops.definition.operands import (
    Pair,
    equal_size,
    operand,
    pair_per_axis,
    per_axis,
)
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.windows import POINT, SPATIAL, TAP, c, check_taps, f
from einalg.language.ops.layers.convolution import Layouts, channels_of_groups, scope_of_points


@operator
def conv_transpose1d(  # noqa: PLR0913, PLR0917 - torch's parameters, and the layouts
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    layout: str = "NCW",
    weight_layout: str = "IOW",
    out_layout: str | None = None,
) -> Scope:
    """A transposed convolution over one axis W; see `conv_transpose2d` for the parameters.

    >>> import einalg as ea
    >>> conv_transpose1d(ea.tensor("A", (1, 2, 4)), ea.tensor("K", (2, 3, 2)), stride=2)
    L[n:1, f:3, w:8](Sum[c:2, s:2](A.pad(0, 0, (1, 0))[n, c, (w - s)//2]*K[c, f, s], where=Eq((w -
    s)%2, 0)))
    """
    return _transposed(
        A,
        K,
        bias,
        SPATIAL[0],
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        Layouts(layout, weight_layout, out_layout),
    )


@operator
def conv_transpose2d(  # noqa: PLR0913, PLR0917 - torch's parameters, and the layouts
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    layout: str = "NCHW",
    weight_layout: str = "IOHW",
    out_layout: str | None = None,
) -> Scope:
    """A transposed convolution, the gradient of `conv2d` with respect to its input.

    `O[n,f,h,w] = Σ_{c,r,s} A[n, c, (h + before - r·dilation) / stride, …]·K[c,f,r,s] + bias[f]`
    over the taps at which the division leaves no rest; outside `A` is 0. `layout` orders the axes
    of `A` (C channels, H, W, and N, which may be absent) and `out_layout` those of the result.
    `weight_layout` orders those of `K`: I input channels, O output channels of one group, H and W
    taps. An axis of the result has `(size - 1)·stride - before - after + (taps - 1)·dilation +
    output_padding + 1` elements. `stride`, `dilation` and `output_padding` (elements after the
    axis) are an integer for all spatial axes or one for each; `padding` is an integer, or for each
    axis an integer or `(before, after)`. Raises `ShapeError` where layouts, ranks, channels or
    groups do not fit, where an axis would be empty, or `output_padding` is not less than stride or
    dilation.

    >>> import einalg as ea
    >>> A, K = ea.tensor("A", (16, 448, 2, 2)), ea.tensor("K", (448, 256, 4, 4))
    >>> conv_transpose2d(A, K, stride=2, padding=1).shape
    (16, 256, 4, 4)
    """
    return _transposed(
        A,
        K,
        bias,
        SPATIAL[1],
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        Layouts(layout, weight_layout, out_layout),
    )


@operator
def conv_transpose3d(  # noqa: PLR0913, PLR0917 - torch's parameters, and the layouts
    A: Any,
    K: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    layout: str = "NCDHW",
    weight_layout: str = "IODHW",
    out_layout: str | None = None,
) -> Scope:
    """A transposed convolution over three axes D, H and W; see `conv_transpose2d` for the
    parameters.

    >>> import einalg as ea
    >>> A, K = ea.tensor("A", (1, 2, 2, 3, 4)), ea.tensor("K", (2, 3, 3, 3, 3))
    >>> conv_transpose3d(A, K, stride=2, output_padding=1).shape
    (1, 3, 6, 8, 10)
    """
    return _transposed(
        A,
        K,
        bias,
        SPATIAL[2],
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        Layouts(layout, weight_layout, out_layout),
    )


@dataclass(frozen=True)
class _Spread:
    """One axis, whose `size` elements lie `stride` apart in the result; all amounts are
    elements.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    out: int

    def numerator(self, point: Index, tap: Index) -> Affine:
        return point - tap * self.dilation + self.before

    @property
    def padding(self) -> Pair:
        """The elements by which `numerator // stride` leads outside the axis."""
        first = (self.before - (self.kernel - 1) * self.dilation) // self.stride
        last = (self.out - 1 + self.before) // self.stride
        return max(0, -first), max(0, last + 1 - self.size)


def _transposed(
    A: Any,
    K: Any,
    bias: Any,
    spatial: str,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
    layouts: Layouts,
) -> Scope:
    """Return the definition of a transposed convolution over any number of spatial axes."""
    data = with_axes(operand(A, "A"), layouts.data, "layout", "C" + spatial, "N")
    kernel = with_axes(operand(K, "K"), layouts.weight, "weight_layout", "IO" + spatial)
    features = kernel.size("O")
    equal_size([("axis C of A", data.size("C")), ("axis I of K", kernel.size("I"))])
    (depth,) = channels_of_groups(groups, (("A, axis C", data.size("C")),))
    spreads = _spreads(
        spatial,
        data.sizes(spatial),
        kernel.sizes(spatial),
        stride,
        padding,
        output_padding,
        dilation,
    )
    channel, feature = c, f
    if groups != 1:
        channel, feature = f // max(features, 1) * depth + c, f % max(features, 1)
    reads: dict[str, Any] = {"N": POINT["N"], "C": channel}
    padding_of, taps, where, sizes = {}, {}, [], {"C": features * groups}
    for axis, spread in spreads.items():
        numerator = spread.numerator(POINT[axis], TAP[axis])
        reads[axis] = numerator // spread.stride
        where.append(sympy.Eq(numerator % spread.stride, 0))
        padding_of[axis], taps[axis], sizes[axis] = spread.padding, spread.kernel, spread.out
    weight = kernel.read({"I": channel, "O": feature, **TAP})
    product = data.padded(padding_of).read(reads) * weight
    total = Sum[(slice(c, depth), *ranges(spatial, TAP, taps))](product, where=where)
    return scope_of_points(total, bias, data, layouts.result, sizes)


def _spreads(
    axes: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
) -> dict[str, _Spread]:
    strides = per_axis(stride, "stride", axes, 1)
    dilations = per_axis(dilation, "dilation", axes, 1)
    pads = pair_per_axis(padding, "padding", axes)
    extra = per_axis(output_padding, "output_padding", axes, 0)
    by_axis: dict[str, _Spread] = {}
    for position, axis in enumerate(axes):
        size, taps, more = sizes[position], kernel[position], extra[position]
        step, between, (before, after) = strides[position], dilations[position], pads[position]
        if more >= max(step, between):
            raise ShapeError(
                f"output_padding is {more} on axis {axis}; it must be less than stride {step} "
                f"or dilation {between}\n"
                f"  use {max(step, between) - 1}"
            )
        out = (size - 1) * step - before - after + (taps - 1) * between + more + 1
        check_taps(axis, taps)
        if out < 1:
            raise ShapeError(
                f"axis {axis} of the result would have {out} elements (size {size}, kernel {taps}, "
                f"stride {step}, padding ({before}, {after}))\n"
                "  use less padding"
            )
        by_axis[axis] = _Spread(size, taps, step, between, before, out)
    return by_axis
