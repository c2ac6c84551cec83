"""Enlargement and reduction by interpolation, linear or cubic, one axis after another."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import gcd
from typing import Any, NamedTuple

from einalg.access import Constant
from einalg.affine import Index, affine
from einalg.errors import ShapeError
from einalg.notation import L, Sum
from einalg.ops.axes import kept, replaced
from einalg.ops.joining import pad
from einalg.ops.parameters import operand, per_axis, spans
from einalg.ops.registry import operator
from einalg.scope import Scope

Read = Callable[[Any], Any]  # the element so many places after the one at or before a position
r = Index("r")


class Way(NamedTuple):
    """How a value comes from elements around a position: from the `first` to the `last` place after the one at or before it.

    `between(read, rest, divisor, dtype)` gives it for a position that lies `rest/divisor` behind `read(0)`.
    """

    first: int
    last: int
    between: Callable[[Read, Any, int, str], Any]


def cubic_weights(t: Any, a: Any) -> tuple[Any, Any, Any, Any]:
    """The weights of four neighbours for a position `t` behind the second of them, by cubics that the number `a` chooses (Keys, 1981)."""

    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t**2 + 1

    def far(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _linear(read: Read, rest: Any, divisor: int, _: str) -> Any:
    return ((divisor - rest) * read(0) + rest * read(1)) / divisor


def _cubic(read: Read, rest: Any, divisor: int, dtype: str) -> Any:
    rows = [cubic_weights(Fraction(t, divisor), Fraction(-3, 4)) for t in range(divisor)]
    weights = Constant(f"cubic_{divisor}_{dtype}_", (divisor, 4), dtype, [weight for row in rows for weight in row])
    return Sum[r:4](weights[rest, r] * read(r - 1))


LINEAR, CUBIC = Way(0, 1, _linear), Way(-1, 2, _cubic)


@operator
def upsample_linear(x: Any, scale: Any = None, size: Any = None, align_corners: bool = False) -> Scope:
    """`x` at other sizes of its axes of space, by linear interpolation along each (bilinear for two axes, trilinear for three).

    `x` is `(N, C, …)` with at least one axis of space; `scale`, a whole number, and `size`, that of the output, are a number or one
    for each of these; one of the two is given. Positions lie in the middle of their elements, and the first and last elements
    continue beyond the ends; with `align_corners` the first and last elements of input and output lie on each other, as in
    torch. Raises `ShapeError` for both or none of `scale` and `size`, numbers below 1, integers, or an empty axis.

    >>> import einalg as ea
    >>> upsample_linear(ea.tensor("x", (1, 2, 3)), size=5, align_corners=True)
    L[i:1, j:2, k:5](x.pad(0, 0, (0, 1))[i, j, k//2]*(-(k%2) + 2)/2 + x.pad(0, 0, (0, 1))[i, j, k//2 + 1]*(k%2)/2)
    """
    return _resized(x, scale, size, align_corners, LINEAR)


@operator
def upsample_cubic(x: Any, scale: Any = None, size: Any = None, align_corners: bool = False) -> Scope:
    """`x` at other sizes of its axes of space, by cubic convolution along each (bicubic for two axes), with `a = -3/4` as in torch.

    Shapes, positions and errors are those of `upsample_linear`.

    >>> import einalg as ea
    >>> upsample_cubic(ea.tensor("x", (1, 2, 8, 8)), 2).shape
    (1, 2, 16, 16)
    """
    return _resized(x, scale, size, align_corners, CUBIC)


def _resized(x: Any, scale: Any, size: Any, align_corners: bool, way: Way) -> Scope:
    found = operand(x, "x", least=3, dtype="float")
    if (scale is None) == (size is None):
        raise ShapeError("one of scale and size must be given, and not both\n  e.g. scale=2")
    names = [f"axis {a}" for a in range(2, found.rank)]
    if 0 in found.shape[2:]:
        raise ShapeError(f"x has shape {found.shape}, with no elements to interpolate\n  give every axis of space at least one")
    factors = () if scale is None else per_axis(scale, "scale", names, 1)
    new = tuple(s * k for s, k in zip(found.shape[2:], factors)) if factors else per_axis(size, "size", names, 1)
    at = kept(found.rank)
    result = L[spans(at, found.shape)](found[at])
    for axis, length in enumerate(new, 2):
        if length != found.shape[axis]:
            result = _along(result if axis > 2 and result.shape != found.shape else x, axis, length, align_corners, way)
    return result


def _along(x: Any, axis: int, size: int, align_corners: bool, way: Way) -> Scope:
    """One axis interpolated: position `i` lies between two neighbours, by the rest of a division."""
    found = operand(x, "x", least=1)
    old, at = found.shape[axis], kept(found.rank)
    if align_corners:  # position i·(old - 1)/(size - 1)
        factor, start, divisor, before = old - 1, 0, max(size - 1, 1), -way.first
    else:  # position (2·i + 1)·old/(2·size) - 1/2, which may lie half an element outside
        factor, start, divisor, before = 2 * old, old - size, 2 * size, 1 - way.first
    around = replaced(((0, 0),) * found.rank, {axis: (before, way.last)})
    # What is read behind the last element, where that is a position, has the weight 0 in a linear way.
    source = found.padded(around) if align_corners and way is LINEAR else operand(pad(x, around, "edge"), "x")
    start += before * divisor
    common = gcd(factor, start, divisor)
    position, divisor = affine(at[axis]) * (factor // common) + start // common, divisor // common

    def read(offset: Any) -> Any:
        return source[replaced(at, {axis: position // divisor + offset})]

    return L[spans(at, replaced(found.shape, {axis: size}))](way.between(read, position % divisor, divisor, found.dtype))
