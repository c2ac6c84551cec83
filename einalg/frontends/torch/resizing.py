"""Torch's enlargement of images: nearest neighbours, linear and cubic interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from einalg import ops
from einalg.affine import affine
from einalg.frontends.torch.arguments import everywhere
from einalg.frontends.torch.registry import Handler, NotExpressed, register


def _size(x: Any, size: Sequence[int] | None, scales: Sequence[float | None] | None) -> tuple[int, ...]:
    """The size of the output; scales must be those that it has to the input, for torch computes positions by them."""
    space = x.shape[2:]
    factors = list(scales or [None] * len(space))
    new = tuple(size) if size is not None else tuple(int(n * (k or 1)) for n, k in zip(space, factors))
    for old, length, factor in zip(space, new, factors):
        if factor is not None and old * factor != length:
            raise NotExpressed(f"a scale of {factor}, which {old} elements cannot have")
    return new


def _nearest(x: Any, size: Sequence[int] | None, *scales: Any) -> Any:
    new = _size(x, size, _flat(scales))
    for old, length in zip(x.shape[2:], new):
        in_float = np.floor(np.arange(length, dtype=np.float32) * (np.float32(old) / np.float32(length)))
        if not np.array_equal(in_float, np.arange(length) * old // length):
            raise NotExpressed("positions that torch rounds to another element")
    return ops.upsample_nearest(x, size=new)


def _nearest_exact(x: Any, size: Sequence[int] | None, *scales: Any) -> Any:
    """Position `i` reads the element that its middle lies in."""
    new = _size(x, size, _flat(scales))
    shape = (*x.shape[:2], *new)

    def element(found: Any, at: Any) -> Any:
        reads = ((2 * affine(i) + 1) * old // (2 * length) for i, old, length in zip(at[2:], x.shape[2:], new))
        return found[(*at[:2], *reads)]

    return everywhere(x, element, shape)


def _linear(x: Any, size: Sequence[int] | None, align_corners: bool, *scales: Any) -> Any:
    return ops.upsample_linear(x, size=_size(x, size, _flat(scales)), align_corners=align_corners)


def _cubic(x: Any, size: Sequence[int] | None, align_corners: bool, *scales: Any) -> Any:
    return ops.upsample_cubic(x, size=_size(x, size, _flat(scales)), align_corners=align_corners)


def _flat(scales: tuple[Any, ...]) -> Any:
    """The `vec` overloads give one list, the others a number for each axis."""
    return scales[0] if len(scales) == 1 and isinstance(scales[0], (list, tuple, type(None))) else scales


def _both(name: str) -> str:
    return f"{name}.default {name}.vec"


_KINDS: dict[str, Handler] = {
    **{_both(f"upsample_nearest{axes}d"): _nearest for axes in (1, 2, 3)},
    **{_both(f"_upsample_nearest_exact{axes}d"): _nearest_exact for axes in (1, 2, 3)},
    **{_both(name): _linear for name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")},
    _both("upsample_bicubic2d"): _cubic,
}
register(_KINDS)
