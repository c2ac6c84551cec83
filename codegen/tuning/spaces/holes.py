"""The open numbers of a point, as who schedules by hand sees them: each with a card and choices.

A card says which step of a schedule changes the number, on which condition, and with what effect.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from codegen.tuning.spaces.points import Point
from einalg.options import shown


@dataclass(frozen=True)
class StepCard:
    """A step of a schedule that sets a number: its name, its condition and its effect.

    An example is `StepCard("tile", "rows of a register tile", "the sums fit into the registers")`.
    """

    step: str
    effect: str
    condition: str = "none"


UNKNOWN = StepCard("set", "a number of the code")


@dataclass(frozen=True)
class Hole:
    """A number of a point by its name: its value, and the `choices` for it, not all of which fit.

    Where a point has several parts, `part` says which one of them it is of.
    """

    name: str
    value: Any
    choices: Sequence[Any]
    card: StepCard
    part: int | None = None


def with_typed_values(point: Point, values: Mapping[str, Any]) -> Point:
    """Return a point with other values of some fields; `ValueError` for one of another type.

    >>> from codegen.kernels.stencil.tile_choice import StencilTile
    >>> with_typed_values(StencilTile(8, 1, 2, 3, 1), {"lines": 2}).lines
    2
    >>> with_typed_values(StencilTile(8, 1, 2, 3, 1), {"line": 2})
    Traceback (most recent call last):
    ValueError: there is no number line: the code has lanes, phases, filters, lines, vectors, block
    """
    own = vars(point)
    typed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in own:
            raise ValueError(f"there is no number {name}: the code has {', '.join(own)}")
        typed[name] = _typed(name, value, own[name])
    return replace(point, **typed)


def _typed(name: str, value: Any, example: Any) -> Any:
    """Return a value as the type of another one; `ValueError` where it has another type."""
    if isinstance(example, bool):
        if type(value) is bool:
            return value
        raise ValueError(f"{name} is True or False, not {shown(value)}")
    if isinstance(example, int) and not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            raise ValueError(f"{name} is a whole number, not {shown(value)}") from None
    if isinstance(example, float) and isinstance(value, int | float):
        return value
    if type(value) is not type(example):
        raise ValueError(f"{name} is of type {type(example).__name__}, not {shown(value)}")
    return value
