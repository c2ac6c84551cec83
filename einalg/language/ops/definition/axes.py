"""Axes of operators: NumPy's axis numbers, index names, broadcasting of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.ops.definition.operands import ArrayView, is_whole

_KEPT = "ijklmnopq"
_REDUCED = "rstuvwxyz"


def _names(letters: str, count: int) -> tuple[Index, ...]:
    if count <= len(letters):
        return tuple(Index(letter) for letter in letters[:count])
    return tuple(Index(f"{letters[0]}{position}") for position in range(count))


def kept(count: int) -> tuple[Index, ...]:
    """Names for the indices of a result: `i, j, k, …`."""
    return _names(_KEPT, count)


def reduced(count: int) -> tuple[Index, ...]:
    """Names for indices that are reduced over: `r, s, t, …`."""
    return _names(_REDUCED, count)


def spatial(count: int) -> tuple[Index, ...]:
    """Names for axes of space: `w`, `h, w` or `d, h, w`; other letters for more."""
    return tuple(Index(letter) for letter in "dhw"[3 - count :]) if count <= 3 else reduced(count)


def axis_number(value: Any, name: str, rank: int) -> int:
    """An axis number in `[-rank, rank)`, counted from 0.

    >>> axis_number(-1, "axis", 4)
    3
    """
    if not is_whole(value):
        raise ShapeError(f"{name} must be an integer, not {value!r}\n  e.g. {name}=0")
    if not -rank <= int(value) < rank:
        remedy = (
            f"give an axis from {-rank} to {rank - 1}"
            if rank
            else "a scalar has no axis: add one first"
        )
        raise ShapeError(f"{name} is {value}, but there are {rank} axes\n  {remedy}")
    return int(value) % rank


def axis_numbers(value: Any, name: str, rank: int) -> tuple[int, ...]:
    """Distinct axis numbers, given as one, as several, or as None for all axes.

    >>> axis_numbers((-1, 0), "axes", 3), axis_numbers(None, "axes", 2)
    ((2, 0), (0, 1))
    """
    if value is None:
        return tuple(range(rank))
    entries = value if isinstance(value, (tuple, list)) else (value,)
    found = tuple(axis_number(entry, name, rank) for entry in entries)
    if len(set(found)) < len(found):
        twice = next(a for a in found if found.count(a) > 1)
        raise ShapeError(
            f"{name} is {value!r}, which names axis {twice} twice\n  name every axis once"
        )
    return found


def entries(value: Any, name: str, count: int, what: str) -> tuple[Any, ...]:
    """`count` entries, given one by one or as a single one for all."""
    if not isinstance(value, (tuple, list)):
        return (value,) * count
    if len(value) != count:
        raise ShapeError(
            f"{name} has {len(value)} entries, but there are {count} {what}\n"
            "  give one entry for each"
        )
    return tuple(value)


def integer(value: Any, name: str) -> int:
    """An integer of either sign."""
    if not is_whole(value):
        raise ShapeError(f"{name} must be an integer, not {value!r}\n  e.g. {name}=1")
    return int(value)


def broadcast_shape(operands: Sequence[ArrayView]) -> tuple[int, ...]:
    """The shape that NumPy broadcasting gives: axes are aligned at the end, and 1 stands for any
    size.
    """
    rank = max((o.rank for o in operands), default=0)
    sizes = [1] * rank
    for found in operands:
        for position, size in enumerate(found.shape, rank - found.rank):
            if size != 1 and sizes[position] not in (1, size):
                raise _two_sizes(operands, position - rank, sizes[position], size)
            sizes[position] = size if sizes[position] == 1 else sizes[position]
    return tuple(sizes)


def _two_sizes(operands: Sequence[ArrayView], axis: int, one: int, two: int) -> ShapeError:
    shapes = " and ".join(f"{o.name} of shape {o.shape}" for o in operands)
    return ShapeError(
        f"{shapes} do not broadcast: axis {axis} has the sizes {one} and {two}\n"
        "  make the two equal, or one of them 1"
    )


def aligned(found: ArrayView, indices: Sequence[Index], shape: Sequence[int]) -> Any:
    """The element of an operand that broadcasting puts at `indices` of a result of that shape."""
    start = len(shape) - found.rank
    return found[
        tuple(
            i if size == full else 0
            for i, full, size in zip(indices[start:], shape[start:], found.shape, strict=True)
        )
    ]


def replaced(row: Sequence[Any], changes: dict[int, Any]) -> tuple[Any, ...]:
    """A row with the entries at some positions replaced.

    >>> replaced("abc", {1: "x"})
    ('a', 'x', 'c')
    """
    return tuple(changes.get(position, entry) for position, entry in enumerate(row))


def without(row: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    """A row without the entries at some positions."""
    return tuple(entry for position, entry in enumerate(row) if position not in positions)
