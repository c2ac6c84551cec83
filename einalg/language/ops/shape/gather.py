"""Elements at positions along axes that are compile-time constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.language.index.convert import affine
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import axis_number, result_indices, with_entries
from einalg.language.ops.definition.operands import operand, spans
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.shape.concatenation import concat
from einalg.language.ops.shape.reshape import reshape

MAX_RUNS = 16
Array = np.ndarray[Any, Any]
Place = tuple[int, ...]  # a position along each of several axes
Steps = tuple[int, tuple[int, ...]]  # the first position along an axis, and steps from it


@operator
def take(x: Any, positions: Any, axis: int = 0) -> Scope:
    """Return the elements of `x` at `positions` along an axis, as of `numpy.take`: an array of
    integers or lists of them, from the end where negative.

    The axes of `positions` come in the place of the axis. What grows evenly is one expression,
    anything else runs that do, one after another. Raises `ShapeError` for positions outside the
    axis, more than 16 runs, or an axis that `x` does not have.

    >>> import einalg as ea
    >>> take(ea.tensor("x", (2, 3)), [2, 1, 0], 1), take(ea.tensor("x", (9,)), [[0, 1], [4, 5]])
    (L[i:2, j:3](x[i, -j + 2]), L[i:2, j:2](x[4*i + j]))
    """
    view = operand(x, "x", least=1, dtype="any")
    return take_together(x, [positions], axis_number(axis, "axis", view.rank))


def take_together(x: Any, positions: Sequence[Any], axis: int) -> Scope:
    """Return the elements of `x` at positions along several axes, the first of which is `axis` and
    the others those after it: `x[:, positions[0], positions[1]]` of NumPy for axis 1.

    The arrays of positions are broadcast. Raises `ShapeError` as `take` does.

    >>> import einalg as ea
    >>> take_together(ea.tensor("x", (2, 4, 4)), [[3, 2, 1], [0, 1, 2]], 1)
    L[i:2, j:3](x[i, -j + 3, j])
    """
    view = operand(x, "x", least=axis + len(positions), dtype="any")
    numbers: list[Array] = []
    for place, along in enumerate(positions, axis):
        numbers.append(_checked_positions(along, place, view.shape[place]))
    numbers = list(np.broadcast_arrays(*numbers))
    counts = numbers[0].shape
    steps = [even_steps(along) for along in numbers]
    if None not in steps:
        return _evenly(x, [step for step in steps if step is not None], counts, axis)
    runs = _runs([*zip(*(along.ravel().tolist() for along in numbers))])
    if len(runs) > MAX_RUNS:
        raise ShapeError(
            f"positions are {numbers[0].size} numbers in {len(runs)} runs\n"
            f"  give at most {MAX_RUNS} runs of numbers that grow evenly"
        )
    parts: list[Scope] = []
    for first, step, count in runs:
        parts.append(_evenly(x, [(low, (by,)) for low, by in zip(first, step)], (count,), axis))
    shape = (*view.shape[:axis], *counts, *view.shape[axis + len(positions) :])
    return reshape(concat(parts, axis), shape)


def _checked_positions(positions: Any, axis: int, size: int) -> Array:
    """Return positions along an axis of `size` elements as integers from 0 on."""
    numbers = np.asarray(positions)
    if not numbers.size:
        return numbers.astype(np.int64)
    if numbers.dtype.kind not in "iu":
        raise ShapeError(f"positions must be integers, not {numbers.dtype}\n  e.g. [0, 2, 1]")
    if not -size <= numbers.min() <= numbers.max() < size:
        raise ShapeError(
            f"positions lie from {numbers.min()} to {numbers.max()}, outside of axis {axis}, "
            f"which has {size} elements\n"
            "  give others"
        )
    return numbers.astype(np.int64) % size


def _evenly(x: Any, steps: Sequence[Steps], counts: tuple[int, ...], axis: int) -> Scope:
    """Return elements along axes, each from a first one on with a step for each axis of `counts`,
    which come in their place.
    """
    view = operand(x, "x", least=1, dtype="any")
    at = result_indices(view.rank - len(steps) + len(counts))
    before, inside, after = at[:axis], at[axis : axis + len(counts)], at[axis + len(counts) :]
    places: list[Any] = []
    for first, strides in steps:
        place = affine(first)
        for index, stride in zip(inside, strides):
            place = place + index * stride
        places.append(place)
    shape = (*view.shape[:axis], *counts, *view.shape[axis + len(steps) :])
    return L[spans(at, shape)](view[(*before, *places, *after)])


def even_steps(positions: Array) -> Steps | None:
    """Return the first number of an array that grows evenly, and its step along each axis; None for
    other arrays.

    >>> even_steps(np.array([[1, 4], [3, 6]])), even_steps(np.array([1, 2, 4]))
    ((1, (2, 3)), None)
    """
    if not positions.size:
        return 0, (0,) * positions.ndim
    first = int(positions.flat[0])
    steps = []
    even = np.full(positions.shape, first)
    for axis, size in enumerate(positions.shape):
        step = 0
        if size > 1:
            step = int(positions.take(1, axis).flat[0]) - first
        steps.append(step)
        even += (np.arange(size) * step).reshape(with_entries((1,) * positions.ndim, {axis: size}))
    if not np.array_equal(even, positions):
        return None
    return first, tuple(steps)


def _runs(numbers: Sequence[Place]) -> list[tuple[Place, Place, int]]:
    """Cut places into runs that grow evenly: the first, the step along each axis, how many.

    >>> _runs([(0,), (2,), (4,), (1,), (1,), (3,)])
    [((0,), (2,), 3), ((1,), (0,), 2), ((3,), (0,), 1)]
    """
    runs: list[tuple[Place, Place, int]] = []
    for number in numbers:
        if runs:
            first, step, count = runs[-1]
            if count == 1:
                step = tuple(here - before for here, before in zip(number, first))
            if number == tuple(low + by * count for low, by in zip(first, step)):
                runs[-1] = first, step, count + 1
                continue
        runs.append((number, (0,) * len(number), 1))
    return runs
