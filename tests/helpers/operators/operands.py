"""Operands of every kind that hold a given array, so that an operator is tested on more than plain
tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import einalg as ea
from einalg.language.index.affine import Index
from einalg.language.ir.tensor import Tensor
from tests.helpers.operators.harness import size

DTYPES = {"b": "bool", "i": "i64", "f": "f64"}
FILLS = (0, 1, -2)
Array = np.ndarray[Any, Any]
Made = tuple[Any, Array, Array]


def readable(rng: np.random.Generator, array: Array, name: str = "x") -> tuple[Any, Array, Array]:
    """An operand of the shape of `array`, the array to give for the tensor `name` under it, and the
    operand's elements.

    A tensor, one whose axes do not start at 0, a scope with such axes, a scope without a value in
    its first rows, or a
    padded view; the last two have other elements than `array` where they are filled up.
    """
    kinds = [_tensor, _shifted_tensor, _shifted_scope]
    if array.dtype != bool:
        kinds += [_padded, _cut]
    return kinds[rng.integers(0, len(kinds))](rng, np.asarray(array), name)


def _named(name: str, axes: Any, array: Array) -> Tensor:
    return Tensor(name, axes, DTYPES[array.dtype.kind])


def _boxes(rng: np.random.Generator, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(low, low + extent) for extent in shape for low in [int(rng.integers(-3, 4))]]


def _tensor(rng: np.random.Generator, array: Array, name: str) -> Made:
    return _named(name, array.shape, array), array, array


def _shifted_tensor(rng: np.random.Generator, array: Array, name: str) -> Made:
    return _named(name, _boxes(rng, array.shape), array), array, array


def _shifted_scope(rng: np.random.Generator, array: Array, name: str, where: Any = None) -> Made:
    boxes = _boxes(rng, array.shape)
    at = [Index(f"t{axis}") for axis in range(array.ndim)]
    body = _named(name, array.shape, array)[tuple(i - low for i, (low, _) in zip(at, boxes))]
    condition = None if where is None or not at else at[0] >= boxes[0][0] + where
    return (
        ea.L[tuple(slice(i, low, high) for i, (low, high) in zip(at, boxes))](
            body, where=condition
        ),
        array,
        array,
    )


def _padded(rng: np.random.Generator, array: Array, name: str) -> Made:
    """The border of the array becomes the fill of a view."""
    fill = FILLS[rng.integers(0, len(FILLS))]
    amounts = [
        (before, size(rng, 0, min(2, extent - before)))
        for extent in array.shape
        for before in [size(rng, 0, min(2, extent))]
    ]
    inner = tuple(
        slice(before, extent - after) for extent, (before, after) in zip(array.shape, amounts)
    )
    stored = array[inner]
    value = np.full_like(array, fill)
    value[inner] = stored
    return _named(name, stored.shape, array).pad(*amounts, fill=fill), stored, value


def _cut(rng: np.random.Generator, array: Array, name: str) -> Made:
    """A scope without a value in its first rows, which operators read as 0."""
    value, rows = array.copy(), size(rng, 0, 2)
    if array.ndim:
        value[:rows] = 0
    return *_shifted_scope(rng, array, name, rows)[:2], value


def some_shape(
    rng: np.random.Generator, least: int = 0, most: int = 3, high: int = 4
) -> tuple[int, ...]:
    """`least` to `most` axes, a size in twenty being 0 and others from 1 to `high`."""
    return tuple(
        0 if rng.random() < 0.05 else size(rng, 1, high) for _ in range(size(rng, least, most))
    )


def some_axes(rng: np.random.Generator, rank: int, least: int = 0) -> tuple[int, ...]:
    """Distinct axes, some counted from the end."""
    chosen = rng.permutation(rank)[: size(rng, least, rank)]
    return tuple(int(a) - rank * bool(rng.integers(0, 2)) for a in chosen)
