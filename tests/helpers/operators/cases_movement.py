"""Operators that read elements elsewhere, and changes of shape, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from einalg.language import ops
from tests.helpers.operators.harness import case, integers, size
from tests.helpers.operators.harness import flip as coin
from tests.helpers.operators.operands import readable, some_axes, some_shape


def compared(
    rng: Any, shape: Any, call: Callable[[Any], Any], reference: Callable[[Any], Any]
) -> Any:
    """One operand of random integers."""
    x, stored, values = readable(rng, integers(rng, shape))
    return call(x), {"x": stored}, reference(values)


def _one_or_all(axes: tuple[int, ...]) -> Any:
    return axes[0] if len(axes) == 1 else axes


@case("transpose")
def transpose(rng: Any) -> Any:
    shape = some_shape(rng, 0, 4)
    axes = (
        None
        if coin(rng, 0.2)
        else tuple(int(a) - len(shape) * coin(rng) for a in rng.permutation(len(shape)))
    )
    return compared(rng, shape, lambda x: ops.transpose(x, axes), lambda v: v.transpose(axes))


def _factors(rng: Any, count: int) -> tuple[int, ...]:
    """A shape of `count` elements, with some axes of size 1."""
    found = []
    while count > 1:
        divisor = int(rng.choice([d for d in range(2, count + 1) if count % d == 0]))
        found.append(divisor)
        count //= divisor
    return tuple(int(s) for s in rng.permutation(found + [1] * size(rng, 0, 2)))


@case("reshape")
def reshape(rng: Any) -> Any:
    count = int(rng.choice([1, 2, 7, 12, 24, 30, 36, 60, 64]))
    shape, new = _factors(rng, count), _factors(rng, count)
    given = tuple(-1 if a == size(rng, 0, 5) else s for a, s in enumerate(new))
    return compared(
        rng,
        shape,
        lambda x: ops.reshape(x, given if given.count(-1) < 2 else new),
        lambda v: v.reshape(new),
    )


@case("reshape")
def without_elements(rng: Any) -> Any:
    shape, new = (list(some_shape(rng, 1, 3)) for _ in range(2))
    shape[size(rng, 0, len(shape) - 1)] = new[size(rng, 0, len(new) - 1)] = 0
    return compared(rng, shape, lambda x: ops.reshape(x, new), lambda v: v.reshape(new))


@case("flatten")
def flatten(rng: Any) -> Any:
    shape = some_shape(rng, 0, 4)
    start, end = sorted(rng.integers(0, max(len(shape), 1), 2).tolist())
    new = (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])
    if shape and coin(rng):
        return compared(
            rng, shape, lambda x: ops.flatten(x, start, end - len(shape)), lambda v: v.reshape(new)
        )
    return compared(rng, shape, lambda x: ops.flatten(x, start, end), lambda v: v.reshape(new))


@case("squeeze")
def squeeze(rng: Any) -> Any:
    shape = tuple(1 if coin(rng) else s for s in some_shape(rng, 0, 4))
    units = tuple(a - len(shape) * coin(rng) for a, s in enumerate(shape) if s == 1 and coin(rng))
    axes = None if coin(rng, 0.3) else units
    return compared(rng, shape, lambda x: ops.squeeze(x, axes), lambda v: v.squeeze(axes))


@case("unsqueeze")
def unsqueeze(rng: Any) -> Any:
    shape, count = some_shape(rng), size(rng, 0, 3)
    axes = tuple(
        int(a)
        for a in rng.permutation(len(shape) + count)[:count] - (len(shape) + count) * coin(rng)
    )
    return compared(
        rng, shape, lambda x: ops.unsqueeze(x, _one_or_all(axes)), lambda v: np.expand_dims(v, axes)
    )


def _bound(rng: Any) -> int | None:
    return None if coin(rng, 0.25) else int(rng.integers(-9, 10))


@case("slice")
def slices(rng: Any) -> Any:
    shape = some_shape(rng, 1, 3, 6)
    axes = some_axes(rng, len(shape), 1)
    rows = [(_bound(rng), _bound(rng), rng.choice([1, 2, 3, -1, -2, None])) for _ in axes]
    place = dict(zip((a % len(shape) for a in axes), rows))
    where = tuple(slice(*place[a]) if a in place else slice(None) for a in range(len(shape)))
    starts, stops, steps = (_one_or_all(column) for column in zip(*rows))
    return compared(
        rng, shape, lambda x: ops.slice(x, starts, stops, steps, axes), lambda v: v[where]
    )


@case("slice")
def slices_of_the_first_axes(rng: Any) -> Any:
    shape, starts = some_shape(rng, 2, 3, 6), (_bound(rng), _bound(rng))
    return compared(
        rng,
        shape,
        lambda x: ops.slice(x, starts, (None, -1)),
        lambda v: v[starts[0] :, starts[1] : -1],
    )


@case("flip")
def flip(rng: Any) -> Any:
    shape = some_shape(rng)
    axes = None if coin(rng, 0.2) else some_axes(rng, len(shape))
    return compared(rng, shape, lambda x: ops.flip(x, axes), lambda v: np.flip(v, axes))


@case("roll")
def roll(rng: Any) -> Any:
    shape = some_shape(rng, 1, 3)
    axes = some_axes(rng, len(shape), 1)
    shifts = tuple(int(s) for s in rng.integers(-9, 10, len(axes)))
    return compared(
        rng,
        shape,
        lambda x: ops.roll(x, _one_or_all(shifts), _one_or_all(axes)),
        lambda v: np.roll(v, shifts, axes),
    )


@case("repeat")
def repeat(rng: Any) -> Any:
    shape, times = some_shape(rng, 1, 3), size(rng, 0, 3)
    axis = int(rng.integers(-len(shape), len(shape)))
    return compared(
        rng, shape, lambda x: ops.repeat(x, times, axis), lambda v: np.repeat(v, times, axis)
    )


@case("tile")
def tile(rng: Any) -> Any:
    shape, repeats = (
        some_shape(rng, 0, 3, 3),
        tuple(size(rng, 0, 3) for _ in range(size(rng, 1, 3))),
    )
    return compared(
        rng, shape, lambda x: ops.tile(x, _one_or_all(repeats)), lambda v: np.tile(v, repeats)
    )


@case("broadcast_to")
def broadcast_to(rng: Any) -> Any:
    full = some_shape(rng, 0, 4, 3)
    start = size(rng, 0, len(full))
    shape = tuple(1 if coin(rng, 0.4) else s for s in full[start:])
    given = full[:start] + tuple(
        -1 if s == old and coin(rng) else s for s, old in zip(full[start:], shape)
    )
    return compared(
        rng, shape, lambda x: ops.broadcast_to(x, given), lambda v: np.broadcast_to(v, full)
    )


@case("diagonal")
def diagonal(rng: Any) -> Any:
    shape = some_shape(rng, 2, 4)
    first, second = (int(a) - len(shape) * coin(rng) for a in rng.permutation(len(shape))[:2])
    offset = int(rng.integers(-4, 5))
    # beyond the corners NumPy has no error and no element
    return compared(
        rng,
        shape,
        lambda x: ops.diagonal(x, offset, first, second),
        lambda v: v.diagonal(offset, first, second),
    )


def register_triangle(name: str) -> None:
    def triangle(rng: Any) -> Any:
        shape, k = some_shape(rng, 2, 3), int(rng.integers(-4, 5))
        return compared(
            rng, shape, lambda x: getattr(ops, name)(x, k), lambda v: getattr(np, name)(v, k)
        )

    def read_by_an_operator(rng: Any) -> Any:
        """Where the triangle has no value, an operator reads 0."""
        shape, k = some_shape(rng, 2, 3), int(rng.integers(-4, 5))
        return compared(
            rng,
            shape,
            lambda x: ops.flip(getattr(ops, name)(x, k)),
            lambda v: np.flip(getattr(np, name)(v, k)),
        )

    case(name)(triangle)
    case(name)(read_by_an_operator)


register_triangle("tril")
register_triangle("triu")


@case("take")
def take(rng: Any) -> Any:
    """Positions without a pattern, in a few axes, from the end too."""
    shape = tuple(size(rng, 1, 4) for _ in range(size(rng, 1, 3)))
    axis = int(rng.integers(-len(shape), len(shape)))
    positions = rng.integers(
        -shape[axis], shape[axis], [size(rng, 1, 4) for _ in range(size(rng, 0, 2))]
    )
    return compared(
        rng, shape, lambda x: ops.take(x, positions, axis), lambda v: np.take(v, positions, axis)
    )


@case("take")
def take_in_runs(rng: Any) -> Any:
    runs = [
        np.arange(size(rng, 1, 5)) * size(rng, 0, 2) + size(rng, 0, 3)
        for _ in range(size(rng, 0, 6))
    ]
    positions = np.concatenate([*runs, np.zeros(0, np.int64)]).astype(np.int64)
    return compared(
        rng,
        (3, 12),
        lambda x: ops.take(x, positions.tolist(), 1),
        lambda v: np.take(v, positions, 1),
    )
