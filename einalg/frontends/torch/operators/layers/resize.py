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
    Interpolation,
    Line,
    corners,
    cubic,
    fraction,
    middles,
    resampled,
)


def _axes(
    x: Any, size: Sequence[int] | None, scales: Sequence[float | None] | None
) -> list[tuple[int, int, Fraction, float]]:
    """Return for each spatial axis its old and new size, the scale, and the step of positions.

    The step is a number of torch's own arithmetic.
    """
    space = x.shape[2:]
    factors = list(scales or [None] * len(space))
    axes: list[tuple[int, int, Fraction, float]] = []
    for position, (old, factor) in enumerate(zip(space, factors)):
        new = int(old * (factor or 1))
        if size is not None:
            new = size[position]
        scale, step = Fraction(new, old), float(np.float32(old) / np.float32(new))
        if factor:
            scale, step = fraction(factor), float(np.float32(1 / factor))
        axes.append((old, new, scale, step))
    return axes


def _nearest_from(start: Fraction) -> Handler:
    """Return a resize in which position `i` reads the element in which `i + start` lies.

    That is in units of output positions, and rounded as in torch.
    """

    def handler(x: Any, size: Sequence[int] | None, *scales: Any) -> Any:
        lines = {}
        for axis, (old, new, by, step) in enumerate(_axes(x, size, _flat(scales)), 2):
            lines[axis] = line = Line(old, new, 1 / by, start / by)
            positions = np.arange(new, dtype=np.float32) + np.float32(start)
            rounded = np.floor(positions * np.float32(step))
            exact = [floor(line.slope * i + line.start) for i in range(new)]
            if rounded.tolist() != exact:
                raise NotExpressed("positions that torch rounds to another element")
        return resampled(x, lines, NEAREST["floor"])

    return handler


def _between(interpolation: Interpolation) -> Handler:
    def handler(x: Any, size: Sequence[int] | None, align_corners: bool, *scales: Any) -> Any:
        lines: dict[int, Line] = {}
        for axis, (old, new, scale, _) in enumerate(_axes(x, size, _flat(scales)), 2):
            line = middles(old, new, scale)
            if align_corners:
                line = corners(old, new)
            if not line.stays:
                lines[axis] = line
        return resampled(x, lines, interpolation)

    return handler


def _flat(scales: tuple[Any, ...]) -> Any:
    """Return scales as a list; `vec` overloads have one list, others a number for each axis."""
    if len(scales) == 1 and (scales[0] is None or isinstance(scales[0], (list, tuple))):
        return scales[0]
    return scales


def _both(name: str) -> str:
    return f"{name}.default {name}.vec"


_KINDS: dict[str, Handler] = {
    _both("upsample_linear1d"): _between(LINEAR),
    _both("upsample_bilinear2d"): _between(LINEAR),
    _both("upsample_trilinear3d"): _between(LINEAR),
    _both("upsample_bicubic2d"): _between(cubic(Fraction(-3, 4))),
}
for _rank in (1, 2, 3):
    _KINDS[_both(f"upsample_nearest{_rank}d")] = _nearest_from(Fraction(0))
    _KINDS[_both(f"_upsample_nearest_exact{_rank}d")] = _nearest_from(HALF)
register(_KINDS)
