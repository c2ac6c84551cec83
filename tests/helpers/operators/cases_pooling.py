"""Poolings against torch in float64 where it has the parameters, else against a NumPy loop over
windows.
"""

from __future__ import annotations

from itertools import product
from math import ceil, floor
from typing import Any

import numpy as np

import einalg as ea
from einalg.language import ops
from tests.helpers.operators.harness import case, flip, floats, integers, size, torch_module

SPATIAL = ("W", "HW", "DHW")
LARGEST = (13, 8, 5)


def _points(n: int, extent: int, stride: int, before: int, after: int, ceil_mode: bool) -> int:
    points = (ceil if ceil_mode else floor)((n + before + after - extent) / stride) + 1
    return points - 1 if ceil_mode and (points - 1) * stride >= n + before else points


def _window(
    rng: Any, largest: int, symmetric: bool, ceil_mode: bool
) -> tuple[int, int, int, int, tuple[int, int], int]:
    """Size, kernel, stride, dilation, padding and points of one axis, of which every window holds
    an element.
    """
    while True:
        n, kernel, stride, dilation = (
            size(rng, 1, largest),
            size(rng, 1, 4),
            size(rng, 1, 4),
            1 if symmetric else size(rng, 1, 2),
        )
        before, after = (
            rng.integers(0, kernel // 2 + 1, 2)
            if symmetric
            else rng.integers(0, (kernel - 1) * dilation + 1, 2)
        )
        after = before if symmetric else after
        points = _points(n, (kernel - 1) * dilation + 1, stride, before, after, ceil_mode)
        filled = all(
            any(0 <= p * stride + t * dilation - before < n for t in range(kernel))
            for p in range(points)
        )
        if points >= 1 and filled:
            return n, kernel, stride, dilation, (int(before), int(after)), points


def _loop(data: Any, axes: Any, kind: str, include: bool) -> Any:
    """The definition, one window at a time."""
    out = np.zeros((*data.shape[:2], *(points for *_, points in axes)))
    for point in np.ndindex(*out.shape[2:]):
        elements, count = [], 0
        for tap in product(*(range(kernel) for _, kernel, *_ in axes)):
            at = [
                p * stride + t * dilation - before
                for p, t, (_, _, stride, dilation, (before, _), _) in zip(point, tap, axes)
            ]
            inside = all(0 <= a < n for a, (n, *_) in zip(at, axes))
            count += inside or (
                include
                and all(
                    -before <= a < n + after
                    for a, (n, _, _, _, (before, after), _) in zip(at, axes)
                )
            )
            if inside:
                elements.append(data[(..., *at)])
        out[(..., *point)] = (
            np.max(elements, 0) if kind == "max" else np.sum(elements, 0) / count if elements else 0
        )
    return out


def _by_torch(data: Any, axes: Any, kind: str, ceil_mode: bool, include: bool) -> Any:
    torch = torch_module()
    _, kernel, stride, _, padding, _ = zip(*axes)
    rest = (
        {"ceil_mode": ceil_mode}
        if kind == "max"
        else {"ceil_mode": ceil_mode, "count_include_pad": include}
    )
    pool = getattr(torch.nn.functional, f"{kind}_pool{len(axes)}d")
    return pool(
        torch.from_numpy(data.astype(np.float64)),
        kernel,
        stride,
        tuple(b for b, _ in padding),
        **rest,
    ).numpy()


def pooling(rng: Any, rank: int, kind: str) -> Any:
    spatial, for_torch, ceil_mode, include = SPATIAL[rank - 1], flip(rng), flip(rng), flip(rng)
    axes = [_window(rng, LARGEST[rank - 1], for_torch, ceil_mode) for _ in spatial]
    sizes, kernel, stride, dilation, padding, _ = zip(*axes)
    data = (
        integers(rng, (size(rng, 1, 2), size(rng, 1, 3), *sizes))
        if kind == "max"
        else floats(rng, (size(rng, 1, 2), size(rng, 1, 3), *sizes))
    )
    fits = (
        kind == "max" or rank < 3 or all(n >= k for n, k in zip(sizes, kernel))
    )  # torch's avg_pool3d wants this, in spite of padding
    expected = (
        _by_torch(data, axes, kind, ceil_mode, include)
        if for_torch and fits
        else _loop(data, axes, kind, include)
    )
    letters = "NC" + spatial
    layout = "".join(rng.permutation(list(letters)))
    order = [letters.index(letter) for letter in layout]
    array = data.transpose(order)
    named = {"count_include_pad": include} if kind == "avg" else {}
    given = None if stride == kernel and flip(rng) else stride
    expression = ops.OPERATORS[f"{kind}_pool{rank}d"](
        ea.tensor("A", array.shape),
        kernel,
        given,
        padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        layout=layout,
        **named,
    )
    return (
        expression,
        {"A": array},
        expected.transpose(order).astype(np.int64 if kind == "max" else float),
    )


@case("avg_pool1d")
def avg_pool1d(rng: Any) -> Any:
    return pooling(rng, 1, "avg")


@case("avg_pool2d")
def avg_pool2d(rng: Any) -> Any:
    return pooling(rng, 2, "avg")


@case("avg_pool3d")
def avg_pool3d(rng: Any) -> Any:
    return pooling(rng, 3, "avg")


@case("max_pool1d")
def max_pool1d(rng: Any) -> Any:
    return pooling(rng, 1, "max")


@case("max_pool2d")
def max_pool2d(rng: Any) -> Any:
    return pooling(rng, 2, "max")


@case("max_pool3d")
def max_pool3d(rng: Any) -> Any:
    return pooling(rng, 3, "max")


def whole(rng: Any, name: str, reduce: Any) -> Any:
    layout = "".join(rng.permutation(list("NC" + SPATIAL[rng.integers(0, 3)])))
    layout = layout.replace("N", "") if flip(rng, 0.2) else layout
    keep, data = flip(rng), floats(rng, [size(rng, 1, 5) for _ in layout])
    expression = ops.OPERATORS[name](ea.tensor("A", data.shape), layout, keep)
    spatial = tuple(k for k, letter in enumerate(layout) if letter in "DHW")
    return expression, {"A": data}, reduce(data, axis=spatial, keepdims=keep)


@case("global_avg_pool")
def global_avg_pool(rng: Any) -> Any:
    return whole(rng, "global_avg_pool", np.mean)


@case("global_max_pool")
def global_max_pool(rng: Any) -> Any:
    return whole(rng, "global_max_pool", np.max)
