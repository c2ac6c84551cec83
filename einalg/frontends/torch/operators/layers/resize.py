"""Torch's images at other sizes: nearest neighbours, linear and cubic interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np

from einalg.frontends.torch.nodes.registry import Handler, NotExpressed, register
from einalg.language.ops.layers.resampling import (
    HALF,
    LINEAR,
    NEAREST,
    Line,
    Way,
    corners,
    cubic,
    fraction,
    middles,
    resampled,
)


def _axes(
    x: Any, size: Sequence[int] | None, scales: Sequence[float | None] | None
) -> list[tuple[int, int, Fraction, float]]:
    """For each axis of space the elements before and after, the scale, and how far apart positions are in torch's own arithmetic."""
    space = x.shape[2:]
    factors = list(scales or [None] * len(space))
    new = (
        tuple(size)
        if size is not None
        else tuple(int(n * (k or 1)) for n, k in zip(space, factors))
    )
    found = []
    for old, length, factor in zip(space, new, factors):
        by, step = (
            (Fraction(length, old), np.float32(old) / np.float32(length))
            if not factor
            else (fraction(factor), np.float32(1 / factor))
        )
        found.append((old, length, by, step))
    return found


def _nearest_from(start: Fraction) -> Handler:
    """Position `i` reads the element that `i + start` of the input's elements lies in, as torch rounds that."""

    def handler(x: Any, size: Sequence[int] | None, *scales: Any) -> Any:
        lines = {}
        for axis, (old, new, by, step) in enumerate(_axes(x, size, _flat(scales)), 2):
            lines[axis] = line = Line(old, new, 1 / by, start / by)
            rounded = np.floor((np.arange(new, dtype=np.float32) + np.float32(start)) * step)
            if rounded.tolist() != [floor(line.slope * i + line.start) for i in range(new)]:
                raise NotExpressed("positions that torch rounds to another element")
        return resampled(x, lines, NEAREST["floor"])

    return handler


def _between(way: Way) -> Handler:
    def handler(x: Any, size: Sequence[int] | None, align_corners: bool, *scales: Any) -> Any:
        axes = enumerate(_axes(x, size, _flat(scales)), 2)
        lines = {
            axis: corners(old, new) if align_corners else middles(old, new, by)
            for axis, (old, new, by, _) in axes
        }
        return resampled(x, {axis: line for axis, line in lines.items() if not line.stays}, way)

    return handler


def _flat(scales: tuple[Any, ...]) -> Any:
    """The `vec` overloads give one list, the others a number for each axis."""
    return (
        scales[0]
        if len(scales) == 1 and isinstance(scales[0], (list, tuple, type(None)))
        else scales
    )


def _both(name: str) -> str:
    return f"{name}.default {name}.vec"


_KINDS: dict[str, Handler] = {
    **{_both(f"upsample_nearest{axes}d"): _nearest_from(Fraction(0)) for axes in (1, 2, 3)},
    **{_both(f"_upsample_nearest_exact{axes}d"): _nearest_from(HALF) for axes in (1, 2, 3)},
    **{
        _both(name): _between(LINEAR)
        for name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
    },
    _both("upsample_bicubic2d"): _between(cubic(Fraction(-3, 4))),
}
register(_KINDS)
