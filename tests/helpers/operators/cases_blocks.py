"""Exchange of space for channels or batch, enlargement and windows: against torch, or against
NumPy's reshape and transpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from einalg.language import ops
from tests.helpers.operators.cases_movement import compared
from tests.helpers.operators.harness import case, flip, size, torch_module


def _torch(function: Any) -> Any:
    """A function of a torch tensor as one of an array of integers, exactly."""
    torch = torch_module()
    return lambda v: function(torch.from_numpy(v.astype(float))).numpy().astype(np.int64)


@case("depth_to_space")
def depth_to_space(rng: Any) -> Any:
    n, c, h, w, b = (
        size(rng, 0, 2),
        size(rng, 0, 3),
        size(rng, 1, 3),
        size(rng, 1, 3),
        size(rng, 1, 3),
    )
    row_first = flip(rng)
    new, order = (
        ((n, b, b, c, h, w), (0, 3, 4, 1, 5, 2))
        if row_first
        else ((n, c, b, b, h, w), (0, 1, 4, 2, 5, 3))
    )
    expected = lambda v: v.reshape(new).transpose(order).reshape(n, c, h * b, w * b)  # noqa: E731
    return compared(
        rng,
        (n, c * b * b, h, w),
        lambda x: ops.depth_to_space(x, b, "DCR" if row_first else "CRD"),
        expected,
    )


@case("space_to_depth")
def space_to_depth(rng: Any) -> Any:
    n, c, h, w, b = (
        size(rng, 0, 2),
        size(rng, 0, 3),
        size(rng, 0, 3),
        size(rng, 1, 3),
        size(rng, 1, 3),
    )
    row_first = flip(rng)
    order = (0, 3, 5, 1, 2, 4) if row_first else (0, 1, 3, 5, 2, 4)
    expected = lambda v: v.reshape(n, c, h, b, w, b).transpose(order).reshape(n, c * b * b, h, w)  # noqa: E731
    return compared(
        rng,
        (n, c, h * b, w * b),
        lambda x: ops.space_to_depth(x, b, "DCR" if row_first else "CRD"),
        expected,
    )


def _front(rng: Any) -> tuple[int, ...]:
    return tuple(size(rng, 1, 2) for _ in range(size(rng, 0, 2)))


@case("pixel_shuffle")
def pixel_shuffle(rng: Any) -> Any:
    torch, b = torch_module(), size(rng, 1, 3)
    shape = (*_front(rng), b * b * size(rng, 1, 3), size(rng, 1, 3), size(rng, 1, 3))
    return compared(
        rng, shape, lambda x: ops.pixel_shuffle(x, b), _torch(lambda v: torch.pixel_shuffle(v, b))
    )


@case("pixel_unshuffle")
def pixel_unshuffle(rng: Any) -> Any:
    torch, b = torch_module(), size(rng, 1, 3)
    shape = (*_front(rng), size(rng, 1, 3), b * size(rng, 1, 3), b * size(rng, 1, 3))
    return compared(
        rng,
        shape,
        lambda x: ops.pixel_unshuffle(x, b),
        _torch(lambda v: torch.pixel_unshuffle(v, b)),
    )


def _in_blocks(
    rng: Any,
) -> tuple[int, int, int, tuple[int, int], tuple[tuple[int, int], ...], tuple[int, int]]:
    """Batch, channels, whether channels come last, the block, the margins, the number of blocks
    along each axis.
    """
    block = (size(rng, 1, 3), size(rng, 1, 3))
    counts = (size(rng, 1, 3), size(rng, 1, 3))
    margins = tuple(
        (before, int(rng.integers(0, b * m - before + 1)))
        for b, m in zip(block, counts)
        for before in [int(rng.integers(0, b * m + 1))]
    )
    return size(rng, 0, 3), size(rng, 1, 2), int(flip(rng)), block, margins, counts


@case("space_to_batch")
def space_to_batch(rng: Any) -> Any:
    n, c, last, (p, q), pads, (h, w) = _in_blocks(rng)
    sizes = [h * p - sum(pads[0]), w * q - sum(pads[1])]
    around = [(0, 0), *pads, (0, 0)] if last else [(0, 0), (0, 0), *pads]

    def expected(v: Any) -> Any:
        wide = np.pad(v, around)
        if last:
            return (
                wide.reshape(n, h, p, w, q, c)
                .transpose(2, 4, 0, 1, 3, 5)
                .reshape(p * q * n, h, w, c)
            )
        return (
            wide.reshape(n, c, h, p, w, q).transpose(3, 5, 0, 1, 2, 4).reshape(p * q * n, c, h, w)
        )

    shape = (n, *sizes, c) if last else (n, c, *sizes)
    return compared(
        rng,
        shape,
        lambda x: ops.space_to_batch(x, (p, q), pads, None if last else (2, 3)),
        expected,
    )


@case("batch_to_space")
def batch_to_space(rng: Any) -> Any:
    n, c, last, (p, q), crops, (h, w) = _in_blocks(rng)
    keep = tuple(
        slice(before, extent - after) for (before, after), extent in zip(crops, (h * p, w * q))
    )

    def expected(v: Any) -> Any:
        if last:
            return (
                v.reshape(p, q, n, h, w, c)
                .transpose(2, 3, 0, 4, 1, 5)
                .reshape(n, h * p, w * q, c)[:, keep[0], keep[1]]
            )
        return (
            v.reshape(p, q, n, c, h, w)
            .transpose(2, 3, 4, 0, 5, 1)
            .reshape(n, c, h * p, w * q)[:, :, keep[0], keep[1]]
        )

    shape = (p * q * n, h, w, c) if last else (p * q * n, c, h, w)
    return compared(
        rng,
        shape,
        lambda x: ops.batch_to_space(x, (p, q), crops, None if last else (2, 3)),
        expected,
    )


@case("batch_to_space")
def undoes_space_to_batch(rng: Any) -> Any:
    block, counts, n = size(rng, 1, 3), size(rng, 1, 3), size(rng, 1, 3)
    shape = (n, 2, block * counts)
    return compared(
        rng,
        shape,
        lambda x: ops.batch_to_space(ops.space_to_batch(x, block, axes=2), block, axes=-1),
        lambda v: v,
    )


@case("upsample_nearest")
def by_whole_numbers(rng: Any) -> Any:
    torch = torch_module()
    space = [size(rng, 1, 4) for _ in range(size(rng, 1, 3))]
    scale = [size(rng, 1, 3) for _ in space]
    by_size, same = flip(rng), flip(rng, 0.3)
    scale = [scale[0]] * len(space) if same else scale
    sizes = [s * k for s, k in zip(space, scale)]
    call = (
        (lambda x: ops.upsample_nearest(x, size=sizes))
        if by_size
        else (lambda x: ops.upsample_nearest(x, scale[0] if same else scale))
    )
    reference = _torch(lambda v: torch.nn.functional.interpolate(v, size=sizes, mode="nearest"))
    return compared(rng, (size(rng, 1, 2), size(rng, 1, 2), *space), call, reference)


@case("upsample_nearest")
def to_any_size(rng: Any) -> Any:
    """Exact quotients; torch rounds the scale to a float."""
    length, new = size(rng, 1, 7), size(rng, 1, 11)
    return compared(
        rng,
        (1, 2, length),
        lambda x: ops.upsample_nearest(x, size=new),
        lambda v: v[:, :, [i * length // new for i in range(new)]],
    )


@case("upsample_nearest")
def by_fractions(rng: Any) -> Any:
    """Elements repeated and left out unevenly; the scale is not that of the sizes."""
    length, above, below = size(rng, 3, 9), size(rng, 1, 7), size(rng, 1, 3)
    reads = [i * below // above for i in range(length * above // below)]
    return compared(
        rng,
        (1, 2, length, 1),
        lambda x: ops.upsample_nearest(x, (above / below, 1)),
        lambda v: v[:, :, reads],
    )


@case("unfold")
def unfold(rng: Any) -> Any:
    torch = torch_module()
    kernel, stride, dilation = (tuple(size(rng, 1, 3) for _ in range(2)) for _ in range(3))
    padding = tuple(size(rng, 0, 2) for _ in range(2))
    space = tuple(
        max(d * (k - 1) + 1 - 2 * p, 1) + size(rng, 0, 3)
        for k, d, p in zip(kernel, dilation, padding)
    )
    reference = _torch(lambda v: torch.nn.functional.unfold(v, kernel, dilation, padding, stride))
    return compared(
        rng,
        (size(rng, 1, 2), size(rng, 1, 2), *space),
        lambda x: ops.unfold(x, kernel, stride, padding, dilation),
        reference,
    )


@case("unfold")
def along_one_axis(rng: Any) -> Any:
    """One axis of space, with padding that differs between the ends."""
    kernel, stride, dilation = size(rng, 1, 4), size(rng, 1, 3), size(rng, 1, 3)
    before, after = size(rng, 0, 2), size(rng, 0, 2)
    reach = dilation * (kernel - 1) + 1
    length = max(reach - before - after, 1) + size(rng, 0, 5)

    def expected(v: Any) -> Any:
        wide = np.pad(v, [(0, 0), (0, 0), (before, after)])
        windows = np.lib.stride_tricks.sliding_window_view(wide, reach, 2)[
            :, :, ::stride, ::dilation
        ]
        return windows.transpose(0, 1, 3, 2).reshape(v.shape[0], v.shape[1] * kernel, -1)

    return compared(
        rng,
        (2, size(rng, 1, 3), length),
        lambda x: ops.unfold(x, kernel, stride, [(before, after)], dilation),
        expected,
    )


@case("unfold")
def integers_of_three_axes(rng: Any) -> Any:
    """A window that is the whole array is its elements in order."""
    shape = (size(rng, 1, 2), 2, *(size(rng, 1, 3) for _ in range(3)))
    return compared(
        rng, shape, lambda x: ops.unfold(x, shape[2:]), lambda v: v.reshape(shape[0], -1, 1)
    )
