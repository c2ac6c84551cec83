"""Images and signals at other sizes: nearest elements, and interpolation by straight lines or
cubics, one axis after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.size import is_number
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import result_indices
from einalg.language.ops.definition.operands import operand, per_axis, spans
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.scalars import positive
from einalg.language.ops.layers.resampling import (
    LINEAR,
    NEAREST,
    Interpolation,
    Line,
    corners,
    cubic,
    fraction,
    middles,
    resampled,
)


@operator
def upsample_nearest(x: Any, scale: Any = None, size: Any = None) -> Scope:
    """Return `x` at other sizes of its axes of space, every element repeated or left out: position
    `i` reads `⌊i/scale⌋`.

    `x` is `(N, C, …)` with at least one axis of space; `scale`, above 0, and `size`, that of the
    output, are a number or one for each of these; one of the two is given, and `⌊input·scale⌋` and
    `size/input` are the other. Raises `ShapeError` for both or none of them, numbers below 1 of
    elements, a scale that no fraction with a divisor up to 4096 is near to, or an empty axis.

    >>> import einalg as ea
    >>> upsample_nearest(ea.tensor("x", (1, 2, 3, 4)), 2)
    L[i:1, j:2, k:6, l:8](x[i, j, k//2, l//2])
    >>> upsample_nearest(ea.tensor("x", (1, 2, 4)), size=6)
    L[i:1, j:2, k:6](x[i, j, (2*k)//3])
    >>> upsample_nearest(ea.tensor("x", (1, 2, "W")), 3)
    L[i:1, j:2, k:3*W](x[i, j, k//3])
    """
    view, sizes = _sizes(x, scale, size, "any", "repeat")
    lines = [Line(old, new, 1 / factor) for old, new, factor in sizes]
    return _resized(view.value, lines, NEAREST["floor"])


@operator
def upsample_linear(
    x: Any, scale: Any = None, size: Any = None, align_corners: bool = False
) -> Scope:
    """Return `x` at other sizes of its axes of space, by linear interpolation along each (bilinear
    for two axes, trilinear for three).

    `x`, `scale` and `size` are those of `upsample_nearest`. Positions lie in the middle of their
    elements, and the first and last elements continue beyond the ends; with `align_corners` the
    first and last elements of input and output lie on each other, as in torch. Raises `ShapeError`
    where `upsample_nearest` does, and for integers.

    >>> import einalg as ea
    >>> upsample_linear(ea.tensor("x", (1, 2, 3)), size=5, align_corners=True)
    L[i:1, j:2, k:5](x.pad(0, 0, (0, 1))[i, j, k//2]*(-(k%2) + 2)/2 + x.pad(0, 0, (0, 1))[i, j, k//2
    + 1]*(k%2)/2)
    """
    return _interpolated(x, scale, size, align_corners, LINEAR)


@operator
def upsample_cubic(
    x: Any, scale: Any = None, size: Any = None, align_corners: bool = False
) -> Scope:
    """Return `x` at other sizes of its axes of space, by cubic convolution along each (bicubic for
    two axes), with `a = -3/4` as in torch.

    Shapes, positions and errors are those of `upsample_linear`.

    >>> import einalg as ea
    >>> upsample_cubic(ea.tensor("x", (1, 2, 8, 8)), 2).shape
    (1, 2, 16, 16)
    """
    return _interpolated(x, scale, size, align_corners, cubic(Fraction(-3, 4)))


def _interpolated(
    x: Any, scale: Any, size: Any, align_corners: bool, interpolation: Interpolation
) -> Scope:
    view, sizes = _sizes(x, scale, size, "float", "interpolate")
    if align_corners:
        _require_numbers(view.shape, "align_corners")
    lines = []
    for old, new, factor in sizes:
        lines.append(corners(old, new) if align_corners else middles(old, new, factor))
    return _resized(view.value, lines, interpolation)


def _sizes(
    x: Any, scale: Any, size: Any, dtype: str, what: str
) -> tuple[Any, list[tuple[int, int, Fraction]]]:
    """Return the operand, and for each axis of space its old and new size, and the scale."""
    view = operand(x, "x", least=3, dtype=dtype)
    if (scale is None) == (size is None):
        raise ShapeError("one of scale and size must be given, and not both\n  e.g. scale=2")
    space = view.shape[2:]
    names = [f"axis {a}" for a in range(2, view.rank)]
    if 0 in space:
        raise ShapeError(
            f"x has shape {view.shape}, with no elements to {what}\n"
            "  give every axis of space at least one"
        )
    if scale is None:
        _require_numbers(view.shape, "size")
        news = per_axis(size, "size", names, 1)
        return view, list(zip(space, news, map(Fraction, news, space)))
    scales = tuple(scale) if isinstance(scale, (tuple, list)) else (scale,) * len(space)
    if len(scales) != len(space):
        raise ShapeError(
            f"scale must be one number, or one for each of {', '.join(names)}, not {scale}\n"
            "  e.g. scale=2"
        )
    factors = [fraction(float(positive(entry, "scale"))) for entry in scales]
    news = [old * factor.numerator // factor.denominator for old, factor in zip(space, factors)]
    if 0 in news:
        raise ShapeError(
            f"scale is {scale}, which leaves no element of {space}\n  give a larger one"
        )
    return view, list(zip(space, news, factors))


def _require_numbers(shape: Sequence[Any], option: str) -> None:
    """Raise `ShapeError` for axes of space with symbolic sizes, of which an option makes a fraction
    that depends on these.
    """
    if not all(map(is_number, shape[2:])):
        raise ShapeError(
            f"{option} asks for numbers as the sizes of space, not {tuple(shape[2:])}\n"
            "  give a scale, or write the numbers"
        )


def _resized(x: Any, lines: list[Line], interpolation: Interpolation) -> Scope:
    view = operand(x, "x", dtype="any")
    changed = {axis: line for axis, line in enumerate(lines, 2) if not line.stays}
    if changed:
        return resampled(x, changed, interpolation)
    at = result_indices(view.rank)
    return L[spans(at, view.shape)](view[at])
