"""Enlargement and reduction by linear interpolation, one axis after another."""

from __future__ import annotations

from math import gcd
from typing import Any

from einalg.affine import Index, affine
from einalg.errors import ShapeError
from einalg.notation import L
from einalg.ops.axes import kept, replaced
from einalg.ops.joining import pad
from einalg.ops.parameters import Operand, operand, per_axis, spans
from einalg.ops.registry import operator
from einalg.scope import Scope


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
            result = _along(result if axis > 2 and result.shape != found.shape else x, axis, length, align_corners)
    return result


def _along(x: Any, axis: int, size: int, align_corners: bool) -> Scope:
    """One axis interpolated: position `i` lies between two neighbours, by the rest of a division."""
    found = operand(x, "x", least=1)
    old, at = found.shape[axis], kept(found.rank)
    i = affine(at[axis])
    if align_corners:  # position i·(old - 1)/(size - 1)
        factor, start, divisor, source = old - 1, 0, max(size - 1, 1), found.padded(_around(found.rank, axis, (0, 1)))
    else:  # position (2·i + 1)·old/(2·size) - 1/2, which may lie half an element outside
        factor, start, divisor = 2 * old, old + size, 2 * size
        source = operand(pad(x, _around(found.rank, axis, (1, 1)), "edge"), "x")
    common = gcd(factor, start, divisor)
    position, divisor = i * (factor // common) + start // common, divisor // common
    return L[spans(at, replaced(found.shape, {axis: size}))](_between(source, at, axis, position // divisor, position % divisor, divisor))


def _around(rank: int, axis: int, pair: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    return replaced(((0, 0),) * rank, {axis: pair})


def _between(source: Operand, at: tuple[Index, ...], axis: int, first: Any, rest: Any, divisor: int) -> Any:
    before, after = (source[replaced(at, {axis: place})] for place in (first, first + 1))
    return ((divisor - rest) * before + rest * after) / divisor
