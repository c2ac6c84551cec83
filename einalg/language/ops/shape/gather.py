"""Elements at positions along an axis that are known ahead."""

from __future__ import annotations

from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.language.index.convert import affine
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import axis_number, kept, replaced
from einalg.language.ops.definition.operands import operand, spans
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.shape.concatenation import concat
from einalg.language.ops.shape.reshape import reshape

MOST_RUNS = 16
Array = np.ndarray[Any, Any]


@operator
def take(x: Any, positions: Any, axis: int = 0) -> Scope:
    """The elements of `x` at `positions` along an axis, as of `numpy.take`: an array of integers or
    lists of them, from the end where negative.

    The axes of `positions` come in the place of the axis. What grows evenly is one expression,
    anything else runs that do, one after another. Raises `ShapeError` for positions outside the
    axis, more than 16 runs, or an axis that `x` does not have.

    >>> import einalg as ea
    >>> take(ea.tensor("x", (2, 3)), [2, 1, 0], 1), take(ea.tensor("x", (9,)), [[0, 1], [4, 5]])
    (L[i:2, j:3](x[i, -j + 2]), L[i:2, j:2](x[4*i + j]))
    """
    found = operand(x, "x", least=1, dtype="any")
    place = axis_number(axis, "axis", found.rank)
    size, given = found.shape[place], np.asarray(positions)
    if given.dtype.kind not in "iu" and given.size:
        raise ShapeError(f"positions must be integers, not {given.dtype}\n  e.g. [0, 2, 1]")
    if given.size and not -size <= given.min() <= given.max() < size:
        raise ShapeError(
            f"positions lie from {given.min()} to {given.max()}, outside of axis {place}, "
            f"which has {size} elements\n"
            "  give others"
        )
    chosen = given.astype(np.int64) % size if given.size else given.astype(np.int64)
    steps = even_steps(chosen)
    if steps is not None:
        return _evenly(x, steps, chosen.shape, place)
    runs = _runs(chosen.ravel().tolist())
    if len(runs) > MOST_RUNS:
        raise ShapeError(
            f"positions are {chosen.size} numbers in {len(runs)} runs\n"
            f"  give at most {MOST_RUNS} runs of numbers that grow evenly"
        )
    rows = concat(
        [_evenly(x, (first, (step,)), (count,), place) for first, step, count in runs], place
    )
    return reshape(rows, (*found.shape[:place], *chosen.shape, *found.shape[place + 1 :]))


def _evenly(
    x: Any, steps: tuple[int, tuple[int, ...]], counts: tuple[int, ...], axis: int
) -> Scope:
    """Elements along an axis from a first one on, with a step for each axis that comes in its
    place.
    """
    found = operand(x, "x", least=1, dtype="any")
    at = kept(found.rank - 1 + len(counts))
    own, rest = at[axis : axis + len(counts)], at[:axis] + at[axis + len(counts) :]
    place = sum((i * step for i, step in zip(own, steps[1])), affine(steps[0]))
    shape = (*found.shape[:axis], *counts, *found.shape[axis + 1 :])
    return L[spans(at, shape)](found[(*rest[:axis], place, *rest[axis:])])


def even_steps(positions: Array) -> tuple[int, tuple[int, ...]] | None:
    """First number and steps along each axis of an array that grows evenly; None where it does not.

    >>> even_steps(np.array([[1, 4], [3, 6]])), even_steps(np.array([1, 2, 4]))
    ((1, (2, 3)), None)
    """
    if not positions.size:
        return 0, (0,) * positions.ndim
    first = int(positions.flat[0])
    origin = (0,) * positions.ndim
    steps = tuple(
        int(positions[replaced(origin, {k: 1})]) - first if n > 1 else 0
        for k, n in enumerate(positions.shape)
    )
    even = first + sum(
        (np.arange(n) * step).reshape(replaced((1,) * positions.ndim, {k: n}))
        for k, (n, step) in enumerate(zip(positions.shape, steps))
    )
    return (
        (first, steps)
        if np.array_equal(np.broadcast_to(even, positions.shape), positions)
        else None
    )


def _runs(numbers: list[int]) -> list[tuple[int, int, int]]:
    """The numbers cut into runs that grow evenly: first number, step and how many.

    >>> _runs([0, 2, 4, 1, 1, 3])
    [(0, 2, 3), (1, 0, 2), (3, 0, 1)]
    """
    runs: list[tuple[int, int, int]] = []
    for number in numbers:
        first, step, count = runs[-1] if runs else (0, 0, 0)
        if count == 1:
            runs[-1] = first, number - first, 2
        elif count and number == first + step * count:
            runs[-1] = first, step, count + 1
        else:
            runs.append((number, 0, 1))
    return runs
