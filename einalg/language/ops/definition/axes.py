"""Axes of operators: NumPy's axis numbers, index names, broadcasting of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.ops.definition.operands import ArrayView, is_whole

RESULT_LETTERS = "ijklmnopq"
REDUCTION_LETTERS = "rstuvwxyz"


def _indices(letters: str, count: int) -> tuple[Index, ...]:
    """Return the first `count` letters as indices, or `i0, i1, …` where there are not so many."""
    names = list(letters[:count])
    if count > len(letters):
        names = [f"{letters[0]}{position}" for position in range(count)]
    return tuple(map(Index, names))


def result_indices(count: int) -> tuple[Index, ...]:
    """Return indices for the axes of a result: `i, j, k, …`."""
    return _indices(RESULT_LETTERS, count)


def reduction_indices(count: int) -> tuple[Index, ...]:
    """Return indices that are reduced over: `r, s, t, …`."""
    return _indices(REDUCTION_LETTERS, count)


def spatial_indices(count: int) -> tuple[Index, ...]:
    """Return indices for axes of space: `w`, `h, w` or `d, h, w`; other letters for more."""
    if count > 3:
        return reduction_indices(count)
    return _indices("dhw"[3 - count :], count)


def axis_number(value: Any, name: str, rank: int) -> int:
    """Return an axis number in `[-rank, rank)`, counted from 0.

    >>> axis_number(-1, "axis", 4)
    3
    """
    if not is_whole(value):
        raise ShapeError(f"{name} must be an integer, not {value!r}\n  e.g. {name}=0")
    if not -rank <= int(value) < rank:
        remedy = "a scalar has no axis: add one first"
        if rank:
            remedy = f"give an axis from {-rank} to {rank - 1}"
        raise ShapeError(f"{name} is {value}, but there are {rank} axes\n  {remedy}")
    return int(value) % rank


def axis_numbers(value: Any, name: str, rank: int) -> tuple[int, ...]:
    """Return distinct axis numbers, given as one, as several, or as None for all axes.

    >>> axis_numbers((-1, 0), "axes", 3), axis_numbers(None, "axes", 2)
    ((2, 0), (0, 1))
    """
    if value is None:
        return tuple(range(rank))
    axes: list[int] = []
    for entry in as_tuple(value):
        axes.append(axis_number(entry, name, rank))
    for axis in axes:
        if axes.count(axis) > 1:
            raise ShapeError(
                f"{name} is {value!r}, which names axis {axis} twice\n  name every axis once"
            )
    return tuple(axes)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return several values as a tuple, and any other value as a tuple of one.

    >>> as_tuple([2, 3]), as_tuple(2)
    ((2, 3), (2,))
    """
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (value,)


def entries(value: Any, name: str, count: int, what: str) -> tuple[Any, ...]:
    """Return `count` entries, given one by one or as a single one for all."""
    if not isinstance(value, (tuple, list)):
        return (value,) * count
    if len(value) != count:
        raise ShapeError(
            f"{name} has {len(value)} entries, but there are {count} {what}\n"
            "  give one entry for each"
        )
    return tuple(value)


def integer(value: Any, name: str) -> int:
    """Return an integer of either sign."""
    if not is_whole(value):
        raise ShapeError(f"{name} must be an integer, not {value!r}\n  e.g. {name}=1")
    return int(value)


def broadcast_shape(operands: Sequence[ArrayView]) -> tuple[int, ...]:
    """Return the shape that NumPy broadcasting gives: axes are aligned at the end, and 1 stands for
    any size.
    """
    rank = max((o.rank for o in operands), default=0)
    sizes = [1] * rank
    for view in operands:
        for position, size in enumerate(view.shape, rank - view.rank):
            if size != 1 and sizes[position] not in (1, size):
                raise _two_sizes(operands, position - rank, sizes[position], size)
            if sizes[position] == 1:
                sizes[position] = size
    return tuple(sizes)


def _two_sizes(operands: Sequence[ArrayView], axis: int, one: int, two: int) -> ShapeError:
    shapes = " and ".join(f"{o.name} of shape {o.shape}" for o in operands)
    return ShapeError(
        f"{shapes} do not broadcast: axis {axis} has the sizes {one} and {two}\n"
        "  make the two equal, or one of them 1"
    )


def aligned(view: ArrayView, indices: Sequence[Index], shape: Sequence[int]) -> Any:
    """Return the element of an operand that broadcasting puts at `indices` of a result of that
    shape.
    """
    start = len(shape) - view.rank
    subscripts: list[Any] = []
    for index, full, size in zip(indices[start:], shape[start:], view.shape, strict=True):
        subscripts.append(index if size == full else 0)
    return view[tuple(subscripts)]


def with_entries(row: Sequence[Any], changes: dict[int, Any]) -> tuple[Any, ...]:
    """Return a row with the entries at some positions replaced.

    >>> with_entries("abc", {1: "x"})
    ('a', 'x', 'c')
    """
    entries = list(row)
    for position, entry in changes.items():
        entries[position] = entry
    return tuple(entries)


def without_entries(row: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    """Return a row without the entries at some positions."""
    return tuple(entry for position, entry in enumerate(row) if position not in positions)
