"""What may be asked of a space, and how a space is made of the choices for its fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from sys import float_info
from typing import Any, Protocol

from codegen.tuning.spaces import points
from codegen.tuning.spaces.holes import UNKNOWN, Hole, StepCard, with_typed_values
from codegen.tuning.spaces.points import Choices, Features, Point, logarithm, point_features
from codegen.tuning.spaces.unit import Reader
from einalg.errors import EinalgError
from einalg.options import shown

Identity = tuple[str, Point]  # of a candidate: the name of its space, and its point
Code = Any  # of a point: a loop nest, or the kernels of a device
NO_CODE = (EinalgError, ArithmeticError, ValueError, AssertionError)  # of a point without code
NEVER = float_info.max  # the cycles of a point without code
MAX_DRAWS = 64  # of random fields, before a walk from the start takes their place
WALK_STEPS = 6


class SearchSpace(Protocol):
    """What a search asks of a space: points, those near them, and what is known of each.

    All figures of `cycles` are on one scale, so that points of different spaces compare.
    """

    @property
    def name(self) -> str:
        """The kind of code, such as "contraction", by which records name the space."""
        ...

    def start(self) -> Point:
        """Return the point that the cost model thinks best."""
        ...

    def neighbours(self, point: Point) -> Iterator[Point]:
        """Yield the points that differ least from one."""
        ...

    def mutate(self, point: Point, rng: Random) -> Point:
        """Return one of the neighbours by chance; the point itself where it has none."""
        ...

    def sample(self, rng: Random) -> Point:
        """Return a point by chance."""
        ...

    def cross(self, one: Point, other: Point, rng: Random) -> Point:
        """Return a point that has something of two others."""
        ...

    def cycles(self, point: Point) -> float:
        """Return the cycles that the cost model expects of a run on one core, or on a device.

        Where the code is written to be priced, and cannot be, these are `NEVER`.
        """
        ...

    def features(self, point: Point) -> Features:
        """Return numbers of a point by their names, from which a model learns.

        They are few and come without writing code. A name means the same for all units.
        """
        ...


class ScheduleSpace(SearchSpace, Protocol):
    """The ways of one kind in which a unit can be computed."""

    def fits(self, point: Point) -> bool:
        """Say whether code can be written with these numbers."""
        ...

    def holes(self, point: Point) -> Sequence[Hole]:
        """Return the numbers of a point that may be chosen, each with its choices."""
        ...

    def with_values(
        self, point: Point, values: Mapping[str, Any], part: int | None = None
    ) -> Point:
        """Return a point with other numbers, and with those that follow from these.

        They are those of a `part`, where a point has several; without one, those of all parts that
        have such numbers.
        Raises `ValueError` that says in words why code cannot be written with them.
        """
        ...

    def build(self, point: Point) -> Code:
        """Return the loop nest of a point, or the kernels of a device."""
        ...

    def read(self, row: Any) -> Point:
        """Return the point that a row of JSON is of; `ValueError` for what does not fit."""
        ...

    def with_epilogue(self, point: Point, epilogue: Reader) -> CodeCandidate | None:
        """Return the same unit with its one reader, and the point like this one there.

        None where they cannot be one kernel, or not without a much slower one.
        """
        ...


@dataclass(frozen=True)
class CodeCandidate:
    """A point with its space."""

    space: ScheduleSpace
    point: Point

    @property
    def cycles(self) -> float:
        return self.space.cycles(self.point)

    def build(self) -> Code:
        return self.space.build(self.point)

    def with_epilogue(self, epilogue: Reader) -> CodeCandidate | None:
        """Return the candidate with a reader of the results; None where they cannot be one."""
        return self.space.with_epilogue(self.point, epilogue)


def identity(candidate: CodeCandidate) -> Identity:
    """Return what tells a candidate from all others of its unit."""
    return candidate.space.name, candidate.point


class Readable(ABC):
    """Points that are read, as of a record or of a file that may have been edited."""

    @abstractmethod
    def start(self) -> Point: ...

    @abstractmethod
    def refusal(self, point: Point) -> str | None:
        """Say in words why code cannot be written with these numbers; None where it can."""

    @abstractmethod
    def outside(self, point: Point) -> str | None:
        """Say in words which number no search may choose; None where it may choose all.

        Code with others has any length.
        """

    def fits(self, point: Point) -> bool:
        return self.refusal(point) is None

    def read(self, row: Any) -> Point:
        point = points.point_from_row(row, self.start())
        reason = self.outside(point) or self.refusal(point)
        if reason is not None:
            raise ValueError(f"code cannot be written with these numbers: {reason}")
        return point


class Fields(Readable):
    """Points whose fields are chosen one by one, where not every choice of them fits.

    `cards` says what each of these fields decides.
    """

    cards: Mapping[str, StepCard] = {}

    @abstractmethod
    def choices(self) -> Choices:
        """Return the values that each field may have, in ascending order."""
        ...

    @abstractmethod
    def cycles(self, point: Point) -> float: ...

    def outside(self, point: Point) -> str | None:
        """Say which number does not lie between choices for it, and is not that of the start."""
        start, choices = self.start(), self.choices()
        for name, value in vars(point).items():
            own = (getattr(start, name), *choices.get(name, ()))
            is_number = isinstance(value, int | float)
            if is_number and not min(own) <= value <= max(own):
                return f"{name} is {_span(own)} here, not {shown(value)}"
        return None

    def extents(self, point: Point) -> Mapping[str, int]:
        """Return what fields cut into steps, by their names, as the rows that tiles share."""
        return {}

    def features(self, point: Point) -> Features:
        return point_features(point, self.extents(point))

    def repaired(self, point: Point) -> Point:
        """Return a point with those numbers made to fit which follow from others."""
        return point

    def holes(self, point: Point) -> Sequence[Hole]:
        holes: list[Hole] = []
        for name, values in self.choices().items():
            card = self.cards.get(name, UNKNOWN)
            holes.append(Hole(name, getattr(point, name), tuple(values), card))
        return holes

    def with_values(
        self, point: Point, values: Mapping[str, Any], part: int | None = None
    ) -> Point:
        if part not in (None, 0):
            raise ValueError(f"there is no part {part}: the code has one part")
        changed = with_typed_values(point, values)
        reason = self.outside(changed)
        if reason is None:
            reason = self.refusal(changed)
            if reason is None:
                return changed
            repaired = self.repaired(changed)
            if with_typed_values(repaired, values) == repaired and self.fits(repaired):
                return repaired
        raise ValueError(reason)

    def neighbours(self, point: Point) -> Iterator[Point]:
        seen = {point}
        for near in points.neighbours(point, self.choices()):
            other = self.repaired(near)
            if other not in seen and self.fits(other):
                seen.add(other)
                yield other

    def mutate(self, point: Point, rng: Random) -> Point:
        near = list(points.neighbours(point, self.choices()))
        for _ in range(min(MAX_DRAWS, len(near))):
            other = self.repaired(rng.choice(near))
            if other != point and self.fits(other):
                return other
        return point

    def sample(self, rng: Random) -> Point:
        choices, start = self.choices(), self.start()
        for _ in range(MAX_DRAWS):
            point = self.repaired(points.random_point(start, choices, rng))
            if self.fits(point):
                return point
        point = start
        for _ in range(rng.randint(1, WALK_STEPS)):
            point = self.mutate(point, rng)
        return point

    def cross(self, one: Point, other: Point, rng: Random) -> Point:
        for _ in range(MAX_DRAWS):
            point = self.repaired(points.crossed(one, other, rng))
            if self.fits(point):
                return point
        return one


def _span(values: Sequence[Any]) -> str:
    """Return the least and the greatest value in words.

    >>> _span((2, 8, 4)), _span((16,))
    ('from 2 to 8', '16')
    """
    if min(values) == max(values):
        return str(min(values))
    return f"from {min(values)} to {max(values)}"


@dataclass(frozen=True)
class JointPoint:
    """A point of each part of a unit, in their order."""

    parts: tuple[Point, ...]


class Joint(Readable):
    """Points of several parts that are computed one after the other, as the phases of a stride."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[Fields]: ...

    def start(self) -> JointPoint:
        return JointPoint(tuple(part.start() for part in self.parts))

    def refusal(self, point: JointPoint) -> str | None:
        return self._first_reason(part.refusal(own) for part, own in zip(self.parts, point.parts))

    def outside(self, point: JointPoint) -> str | None:
        return self._first_reason(part.outside(own) for part, own in zip(self.parts, point.parts))

    def _first_reason(self, reasons: Iterable[str | None]) -> str | None:
        for number, reason in enumerate(reasons):
            if reason is not None:
                return self._of_part(number, reason)
        return None

    def _of_part(self, number: int, reason: str) -> str:
        """Return a reason with the number of the part that it is of, where there are several."""
        if len(self.parts) == 1:
            return reason
        return f"part {number}: {reason}"

    def holes(self, point: JointPoint) -> Sequence[Hole]:
        holes: list[Hole] = []
        for number, (part, own) in enumerate(zip(self.parts, point.parts)):
            for hole in part.holes(own):
                if len(self.parts) > 1:
                    hole = replace(hole, part=number)
                holes.append(hole)
        return holes

    def with_values(
        self, point: JointPoint, values: Mapping[str, Any], part: int | None = None
    ) -> JointPoint:
        numbers = range(len(self.parts))
        if part is not None and part not in numbers:
            raise ValueError(f"there is no part {part}: the last one is {len(self.parts) - 1}")
        chosen: Sequence[int] = numbers
        if part is not None:
            chosen = [part]
        elif any(values.keys() <= vars(own).keys() for own in point.parts):
            chosen = [n for n in numbers if values.keys() <= vars(point.parts[n]).keys()]
        changed = list(point.parts)
        for number in chosen:
            try:
                changed[number] = self.parts[number].with_values(changed[number], values)
            except ValueError as error:
                raise ValueError(self._of_part(number, str(error))) from None
        return replace(point, parts=tuple(changed))

    def cycles(self, point: JointPoint) -> float:
        return sum(part.cycles(own) for part, own in zip(self.parts, point.parts))

    def features(self, point: JointPoint) -> Features:
        """Return the number of parts, and the means of their features."""
        features: Features = {"parts": logarithm(len(point.parts))}
        for part, own in zip(self.parts, point.parts):
            for name, value in part.features(own).items():
                features[name] = features.get(name, 0.0) + value / len(point.parts)
        return features

    def neighbours(self, point: JointPoint) -> Iterator[JointPoint]:
        """Yield points with one part changed."""
        for number, part in enumerate(self.parts):
            for other in part.neighbours(point.parts[number]):
                changed = list(point.parts)
                changed[number] = other
                yield replace(point, parts=tuple(changed))

    def mutate(self, point: JointPoint, rng: Random) -> JointPoint:
        changed = list(point.parts)
        number = rng.randrange(len(changed))
        changed[number] = self.parts[number].mutate(changed[number], rng)
        return replace(point, parts=tuple(changed))

    def sample(self, rng: Random) -> JointPoint:
        return JointPoint(tuple(part.sample(rng) for part in self.parts))

    def cross(self, one: JointPoint, other: JointPoint, rng: Random) -> JointPoint:
        """Return the parts of both, each as one of them has it."""
        return JointPoint(tuple(map(rng.choice, zip(one.parts, other.parts))))
