"""What a search may ask of a space, and how a space is made of the choices for its fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from sys import float_info
from typing import Any, Protocol

from codegen.ir.nodes import Function
from codegen.tuning.spaces import points
from codegen.tuning.spaces.points import Choices, Point
from codegen.tuning.spaces.unit import Epilogue
from einalg.errors import EinalgError

NO_CODE = (EinalgError, ArithmeticError, ValueError, AssertionError)  # of a point without code
NEVER = float_info.max  # the cycles of a point without code
MAX_DRAWS = 64  # of random fields, before a walk from the start takes their place
WALK_STEPS = 6


class ScheduleSpace(Protocol):
    """The ways of one kind in which a unit can be computed.

    All figures of `cycles` are on one scale, so that points of different spaces compare.
    """

    @property
    def name(self) -> str:
        """The kind of code, such as "contraction", by which records name the space."""
        ...

    def start(self) -> Point:
        """Return the point that the cost model thinks best."""
        ...

    def fits(self, point: Point) -> bool:
        """Say whether code can be written with these numbers."""
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

    def build(self, point: Point) -> Function:
        """Return the loop nest of a point."""
        ...

    def cycles(self, point: Point) -> float:
        """Return the cycles that the cost model expects of a run on one core.

        Where the code is written to be priced, and cannot be, these are `NEVER`.
        """
        ...

    def read(self, row: Any) -> Point:
        """Return the point that a row of JSON is of; `ValueError` for what does not fit."""
        ...

    def with_epilogue(self, point: Point, epilogue: Epilogue) -> CodeCandidate | None:
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

    def build(self) -> Function:
        return self.space.build(self.point)

    def with_epilogue(self, epilogue: Epilogue) -> CodeCandidate | None:
        """Return the candidate with a reader of the results; None where they cannot be one."""
        return self.space.with_epilogue(self.point, epilogue)


class Readable(ABC):
    """Points that are read, as of a record or of a file that may have been edited."""

    @abstractmethod
    def start(self) -> Point: ...

    @abstractmethod
    def fits(self, point: Point) -> bool: ...

    @abstractmethod
    def is_in_range(self, point: Point) -> bool:
        """Say whether a search may choose numbers like these: code with others has any length."""

    def read(self, row: Any) -> Point:
        point = points.point_from_row(row, self.start())
        if not self.is_in_range(point) or not self.fits(point):
            raise ValueError("code cannot be written with these numbers")
        return point


class Fields(Readable):
    """Points whose fields are chosen one by one, where not every choice of them fits."""

    @abstractmethod
    def choices(self) -> Choices:
        """Return the values that each field may have, in ascending order."""
        ...

    @abstractmethod
    def cycles(self, point: Point) -> float: ...

    def is_in_range(self, point: Point) -> bool:
        """Say whether each number lies between choices for it, or is that of the start."""
        start, choices = self.start(), self.choices()
        for name, value in vars(point).items():
            own = (getattr(start, name), *choices.get(name, ()))
            is_number = isinstance(value, int | float)
            if is_number and not min(own) <= value <= max(own):
                return False
        return True

    def repaired(self, point: Point) -> Point:
        """Return a point with those numbers made to fit which follow from others."""
        return point

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

    def fits(self, point: JointPoint) -> bool:
        return all(part.fits(own) for part, own in zip(self.parts, point.parts))

    def is_in_range(self, point: JointPoint) -> bool:
        return all(part.is_in_range(own) for part, own in zip(self.parts, point.parts))

    def cycles(self, point: JointPoint) -> float:
        return sum(part.cycles(own) for part, own in zip(self.parts, point.parts))

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
