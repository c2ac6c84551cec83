"""Interpolation, adaptive poolings and changes of the element type against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from einalg.language import ops
from tests.helpers.operators.harness import case, floats, integers, size
from tests.helpers.operators.harness import flip as coin
from tests.helpers.operators.operands import readable


def _places(old: int, new: int, corners: bool, scale: float | None) -> Any:
    """The positions that the definition names."""
    return (
        np.arange(new) * (old - 1) / max(new - 1, 1)
        if corners
        else (np.arange(new) + 0.5) / (scale or new / old) - 0.5
    )


def _interpolated(
    values: Any, axis: int, new: int, corners: bool, scale: float | None = None
) -> Any:
    """NumPy's interpolation."""
    old = values.shape[axis]
    places = _places(old, new, corners, scale)
    return np.apply_along_axis(lambda row: np.interp(places, np.arange(old), row), axis, values)


@case("upsample_linear")
def upsample_linear(rng: Any) -> Any:
    shape = (size(rng, 1, 2), size(rng, 1, 2), *(size(rng, 1, 4) for _ in range(size(rng, 1, 2))))
    new, corners = tuple(size(rng, 1, 7) for _ in shape[2:]), coin(rng)
    x, stored, values = readable(rng, floats(rng, shape))
    expected = values
    for axis, length in enumerate(new, 2):
        expected = _interpolated(expected, axis, length, corners)
    return ops.upsample_linear(x, size=new, align_corners=corners), {"x": stored}, expected


@case("upsample_linear")
def upsample_linear_by_a_factor(rng: Any) -> Any:
    shape, factor = (1, 1, size(rng), size(rng, 1, 3)), size(rng, 1, 3)
    x, stored, values = readable(rng, floats(rng, shape))
    expected = _interpolated(
        _interpolated(values, 2, shape[2] * factor, False), 3, shape[3] * factor, False
    )
    return ops.upsample_linear(x, factor), {"x": stored}, expected


def _cubically(values: Any, axis: int, new: int, corners: bool, scale: float | None = None) -> Any:
    """Each position by the cubic of the four elements around it, those beyond the ends being the
    first and last ones.
    """
    old, a = values.shape[axis], -0.75
    places = _places(old, new, corners, scale)
    weights = np.zeros((new, old))
    for row, place in zip(weights, places):
        for k in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
            d = abs(place - k)
            row[min(max(k, 0), old - 1)] += (
                (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4)
            )
    return np.moveaxis(np.moveaxis(values, axis, -1) @ weights.T, -1, axis)


@case("upsample_cubic")
def upsample_cubic(rng: Any) -> Any:
    shape = (1, size(rng, 1, 2), *(size(rng, 1, 5) for _ in range(size(rng, 1, 2))))
    new, corners = tuple(size(rng, 1, 7) for _ in shape[2:]), coin(rng)
    x, stored, values = readable(rng, floats(rng, shape))
    expected = values
    for axis, length in enumerate(new, 2):
        expected = _cubically(expected, axis, length, corners)
    return ops.upsample_cubic(x, size=new, align_corners=corners), {"x": stored}, expected


def _register_fractions(name: str, function: Any) -> None:
    @case(name)
    def by_a_fraction(rng: Any) -> Any:
        """What the size rounds away is not in the positions."""
        old, above, below, corners = (
            size(rng, 3, 9),
            size(rng, 1, 7),
            size(rng, 1, 3),
            coin(rng, 0.3),
        )
        x, stored, values = readable(rng, floats(rng, (1, 2, old)))
        expected = function(values, 2, old * above // below, corners, above / below)
        return getattr(ops, name)(x, above / below, align_corners=corners), {"x": stored}, expected


_register_fractions("upsample_linear", _interpolated)
_register_fractions("upsample_cubic", _cubically)


def _pooled(values: Any, new: tuple[int, ...], function: Any) -> Any:
    """Every window by Python's slices."""
    first = values.ndim - len(new)
    result = np.empty((*values.shape[:first], *new))
    for point in product(*map(range, new)):
        ends = [
            (p * n // m, -(-(p + 1) * n // m)) for p, n, m in zip(point, values.shape[first:], new)
        ]
        window = values[(..., *(slice(*pair) for pair in ends))]
        result[(..., *point)] = function(window, axis=tuple(range(first, values.ndim)))
    return result


def _register_pooling(name: str, function: Any) -> None:
    def pooling(rng: Any) -> Any:
        axes = size(rng, 1, 2)
        shape = tuple(size(rng, 1, 6) for _ in range(axes + size(rng, 0, 2)))
        new = tuple(size(rng, 1, 6) for _ in range(axes))
        given = tuple(
            None if m == n and coin(rng) else m for m, n in zip(new, shape[len(shape) - axes :])
        )
        x, stored, values = readable(rng, floats(rng, shape))
        return getattr(ops, name)(x, given, axes), {"x": stored}, _pooled(values, new, function)

    case(name)(pooling)


_register_pooling("adaptive_avg_pool", np.mean)
_register_pooling("adaptive_max_pool", np.max)


@case("cast")
def cast(rng: Any) -> Any:
    x, stored, values = readable(rng, integers(rng, (size(rng), size(rng)), -2, 2))
    dtype = str(rng.choice(["i64", "f32", "f64", "bool"]))
    expected = {"bool": values.astype(bool), "i64": values}.get(dtype, values.astype(float))
    return ops.cast(x, dtype), {"x": stored}, expected


@case("cast")
def cast_of_truth_values(rng: Any) -> Any:
    x, stored, values = readable(rng, rng.random((size(rng),)) < 0.5)
    return ops.cast(x, "i32"), {"x": stored}, values.astype(int)
