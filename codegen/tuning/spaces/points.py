"""Points of spaces: frozen dataclasses of numbers, flags, names, and tuples of such points.

What a search does with points comes from their fields, whatever the space: JSON, neighbours and
crossover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from math import log2
from random import Random
from typing import Any

Point = Any  # of a space: hashable, equal to another one with the same fields
Choices = Mapping[str, Sequence[Any]]  # by the name of a field, in ascending order
Features = dict[str, float]  # numbers that a learned cost model knows a point by
FLAGS = (False, True)


def point_row(point: Point) -> dict[str, Any]:
    """Return a point as JSON values.

    >>> from codegen.kernels.stencil.tile_choice import StencilTile
    >>> point_row(StencilTile(8, 1, 2, 3, 1))["filters"]
    2
    """
    return asdict(point)


def point_from_row(row: Any, example: Point) -> Point:
    """Return the point that a row is of, with fields of the types that another point's have.

    Raises `ValueError` for anything else.

    >>> from codegen.kernels.stencil.tile_choice import StencilTile
    >>> tile = StencilTile(8, 1, 2, 3, 1)
    >>> point_from_row(point_row(tile), StencilTile(1, 1, 1, 1, 1)) == tile
    True
    """
    names = [field.name for field in fields(example)]
    if not isinstance(row, Mapping) or sorted(row) != sorted(names):
        raise ValueError(f"a point has the fields {', '.join(names)}")
    values = {name: _value(row[name], getattr(example, name)) for name in names}
    return replace(example, **values)


def _value(value: Any, example: Any) -> Any:
    if isinstance(example, tuple):
        if not isinstance(value, Sequence) or len(value) != len(example):
            raise ValueError(f"a point has {len(example)} parts here")
        return tuple(point_from_row(part, like) for part, like in zip(value, example))
    if is_dataclass(example):
        return point_from_row(value, example)
    if type(value) is not type(example):
        raise ValueError(f"{value!r} is no {type(example).__name__}")
    return value


def random_point(example: Point, choices: Choices, rng: Random) -> Point:
    """Return a point with a choice of each field, which need not fit."""
    return replace(example, **{name: rng.choice(values) for name, values in choices.items()})


def crossed(one: Point, other: Point, rng: Random) -> Point:
    """Return a point with each field of one of two points, which need not fit."""
    values: dict[str, Any] = {}
    for field in fields(one):
        values[field.name] = getattr(rng.choice((one, other)), field.name)
    return replace(one, **values)


def neighbours(point: Point, choices: Choices) -> Iterator[Point]:
    """Yield points with one field changed to the next choice, then with two of them exchanged.

    Of two numbers one is less and the other more then, as where a register tile has a row more and
    a vector less. None of them need fit.

    >>> from codegen.kernels.stencil.tile_choice import StencilTile
    >>> choices = {"lines": (1, 2, 4), "vectors": (1, 2)}
    >>> [(p.lines, p.vectors) for p in neighbours(StencilTile(8, 1, 1, 2, 2), choices)]
    [(1, 2), (4, 2), (2, 1), (4, 1)]
    """
    less: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for name, values in choices.items():
        value = getattr(point, name)
        if isinstance(value, bool | str):
            for other in values:
                if other != value:
                    yield replace(point, **{name: other})
            continue
        lower = [other for other in values if other < value]
        higher = [other for other in values if other > value]
        if lower:
            less[name] = max(lower)
            yield replace(point, **{name: less[name]})
        if higher:
            more[name] = min(higher)
            yield replace(point, **{name: more[name]})
    for one, smaller in less.items():
        for other, larger in more.items():
            if one != other:
                yield replace(point, **{one: smaller, other: larger})


def point_features(point: Point, extents: Mapping[str, int]) -> Features:
    """Return the fields of a point as numbers: flags, and logarithms of all others.

    To a field that cuts an extent come the steps that this takes, and what the last one leaves
    empty, as logarithms too.

    >>> from codegen.kernels.stencil.tile_choice import StencilTile
    >>> point_features(StencilTile(8, 1, 2, 4, 1), {"lines": 8})
    {'lanes': 3.0, 'phases': 0.0, 'filters': 1.0, 'lines': 2.0, 'lines steps': 1.0,
     'lines empty': 0.0, 'vectors': 0.0, 'block': 0.0}
    """
    features: Features = {}
    for name, value in vars(point).items():
        if isinstance(value, bool):
            features[name] = float(value)
            continue
        if isinstance(value, str):
            features[f"{name} {value}"] = 1.0
            continue
        features[name] = logarithm(value)
        if name in extents:
            steps = -(-extents[name] // value)
            features[f"{name} steps"] = logarithm(steps)
            features[f"{name} empty"] = logarithm(steps * value / extents[name])
    return features


def logarithm(number: float) -> float:
    """Return the binary logarithm of a number above 0; 0 for others.

    >>> logarithm(8), logarithm(0)
    (3.0, 0.0)
    """
    return log2(number) if number > 0 else 0.0


def ladder(most: int) -> tuple[int, ...]:
    """Return numbers from 1 up to `most`: powers of two, half as much again, and even shares.

    >>> ladder(14)
    (1, 2, 3, 4, 5, 6, 7, 8, 12, 14)
    """
    numbers = {1, most}
    step = 1
    while step < most:
        numbers |= {step, min(most, step + step // 2)}
        step *= 2
    numbers |= {-(-most // parts) for parts in range(1, 5)}
    return tuple(sorted(number for number in numbers if 1 <= number <= max(1, most)))
