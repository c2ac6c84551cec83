"""A space of the points of a kernel that a log has: a search of it measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from statistics import median
from typing import Any

import numpy as np

from codegen.tuning.records.log import TuningRecord
from codegen.tuning.spaces.points import Features

NEAR = 8  # neighbours of a point at most
MAX_DIFFERENT = 2  # of its fields


@dataclass(frozen=True)
class RecordedPoint:
    """The fields of a point, and of its parts, in their order."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class RecordedSpace:
    """The points of one space that were measured, with what is known of each: a `SearchSpace`.

    Neighbours are those that differ in the fewest fields, and a point that has something of two
    others is the one most like a crossing of their fields.
    """

    name: str
    points: Sequence[RecordedPoint]
    known: Mapping[RecordedPoint, tuple[float, Features, float]]  # cycles, features, seconds
    codes: Any  # a row of numbers for each point; equal ones of a column are equal values

    @classmethod
    def of(cls, name: str, records: Iterable[TuningRecord]) -> RecordedSpace:
        """Return the space of records; several of a point count as one, with its median time."""
        groups: dict[RecordedPoint, list[TuningRecord]] = {}
        for record in records:
            if record.outcome.score is not None:
                groups.setdefault(RecordedPoint(_values(record.point)), []).append(record)
        known: dict[RecordedPoint, tuple[float, Features, float]] = {}
        for point, group in groups.items():
            seconds = median(record.outcome.score or 0.0 for record in group)
            known[point] = group[-1].cycles, group[-1].features, seconds
        columns = zip(*(point.values for point in known))
        codes = [np.unique(list(map(str, column)), return_inverse=True)[1] for column in columns]
        return cls(name, list(known), known, np.array(codes).reshape(len(codes), len(known)).T)

    @cached_property
    def numbers(self) -> Mapping[RecordedPoint, int]:
        """Return the rows of the codes by their points."""
        return {point: number for number, point in enumerate(self.points)}

    def seconds(self, point: RecordedPoint) -> float:
        return self.known[point][2]

    def start(self) -> RecordedPoint:
        return min(self.points, key=self.cycles)

    def neighbours(self, point: RecordedPoint) -> Iterator[RecordedPoint]:
        different = (self.codes != self.codes[self.numbers[point]]).sum(axis=1)
        for number in np.argsort(different, kind="stable")[1 : NEAR + 1]:
            if different[number] <= MAX_DIFFERENT:
                yield self.points[number]

    def mutate(self, point: RecordedPoint, rng: Random) -> RecordedPoint:
        return rng.choice([*self.neighbours(point), point])

    def sample(self, rng: Random) -> RecordedPoint:
        return rng.choice(self.points)

    def cross(self, one: RecordedPoint, other: RecordedPoint, rng: Random) -> RecordedPoint:
        both = self.codes[[self.numbers[one], self.numbers[other]]]
        wanted = [column[rng.randrange(2)] for column in both.T]
        return self.points[int((self.codes != wanted).sum(axis=1).argmin())]

    def cycles(self, point: RecordedPoint) -> float:
        return self.known[point][0]

    def features(self, point: RecordedPoint) -> Features:
        return self.known[point][1]


def _values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values of a row of JSON, with those of its parts in their order."""
    values: list[Any] = []
    for value in row.values():
        if isinstance(value, Sequence) and not isinstance(value, str):
            values += [number for part in value for number in _values(part)]
        else:
            values.append(value)
    return tuple(values)
