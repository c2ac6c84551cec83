"""The shapes at which a function is compared: those of an expression, or those that a function of
shapes takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from einalg.language.ir.program import as_program
from einalg.testing.equality.problem import Problem
from einalg.testing.shape_space import Family, Shapes, ShapeSpace, by_name, input_order, size_of

POOL = 24  # shapes that are tried
MAX_SMALLER = 3000  # shapes that are looked at for the smallest
MATRIX = 2  # axes: a function of vectors and of matrices is tried on both
MAX_SPACES = 6
MAX_BASES = 400
Takes = Callable[[Problem], bool]  # whether a function has results of the right shapes


class World(Protocol):
    """The problems that a function is compared on, the smallest first."""

    @property
    def pool(self) -> Sequence[Problem]: ...

    @property
    def has_shapes(self) -> bool:
        """Whether there are several shapes."""
        ...

    def smaller(self, problem: Problem) -> Sequence[Problem]:
        """Return problems of shapes that are not larger, the smallest first."""
        ...


@dataclass(frozen=True)
class FixedWorld:
    """One expression, whose inputs a function takes by name or in order."""

    problem: Problem

    @property
    def pool(self) -> Sequence[Problem]:
        return [self.problem]

    @property
    def has_shapes(self) -> bool:
        return False

    def smaller(self, problem: Problem) -> Sequence[Problem]:
        return []


@dataclass(frozen=True)
class FamilyWorld:
    """The expressions of a function of shapes, of one or several numbers of axes."""

    family: Family
    spaces: tuple[ShapeSpace, ...]
    parameters: tuple[str, ...]
    pools: tuple[tuple[Shapes, ...], ...]

    @property
    def pool(self) -> Sequence[Problem]:
        shapes = sorted({one for pool in self.pools for one in pool}, key=size_of)
        return [self.problem(one) for one in shapes]

    @property
    def has_shapes(self) -> bool:
        return True

    def problem(self, shapes: Shapes) -> Problem:
        """Return the expression of some shapes."""
        program = self.family.program(shapes)
        assert program is not None
        place = 0
        for number, space in enumerate(self.spaces):
            if _ranks(space.base) == _ranks(shapes):
                place = number
        order = input_order(self.family, [shapes, *self.pools[place]])
        return Problem(program, tuple(by_name(self.parameters, order)))

    def smaller(self, problem: Problem) -> Sequence[Problem]:
        shapes = self._shapes(problem)
        candidates: set[Shapes] = set()
        for space, pool in zip(self.spaces, self.pools):
            candidates.update(pool)
            if _ranks(space.base) == _ranks(shapes):
                candidates.update(space.smaller(shapes, MAX_SMALLER))
        smaller = [one for one in candidates if size_of(one) < size_of(shapes)]
        return LazyProblems(self, sorted(smaller, key=size_of))

    def _shapes(self, problem: Problem) -> Shapes:
        for pool in self.pools:
            for shapes in pool:
                if self.family.program(shapes) is problem.program:
                    return shapes
        raise LookupError("the problem is none of the pool")


class LazyProblems(Sequence[Problem]):
    """Problems that are made when they are looked at, without those of shapes that do not fit."""

    def __init__(self, world: FamilyWorld, shapes: Sequence[Shapes]):
        self._world, self._shapes = world, shapes

    def __len__(self) -> int:
        return len(self._shapes)

    def __getitem__(self, place: Any) -> Any:
        return self._world.problem(self._shapes[place])

    def __iter__(self) -> Any:
        for shapes in self._shapes:
            if self._world.family.program(shapes) is not None:
                yield self._world.problem(shapes)


def _ranks(shapes: Shapes) -> tuple[int, ...]:
    return tuple(map(len, shapes))


def fixed_world(expected: Any, parameters: Sequence[str]) -> FixedWorld:
    """Return the world of an expression."""
    program = as_program(expected)
    return FixedWorld(Problem(program, tuple(by_name(parameters, list(program.inputs)))))


def family_world(
    family: Family, parameters: Sequence[str], seed: int, takes: Takes, empty: bool = False
) -> FamilyWorld:
    """Return the world of a function of shapes, with axes of size 0 if `empty`.

    Where it takes several numbers of axes, those count at which the function under test returns
    results of the right shapes: of vectors and matrices all, else the fewest.
    """
    bases = _bases(family, parameters, takes)
    spaces = tuple([ShapeSpace(family, base) for base in bases])
    count = max(POOL // len(spaces), POOL // 4)
    pools = [tuple(space.pool(count, seed, empty)) for space in spaces]
    return FamilyWorld(family, spaces, tuple(parameters), tuple(pools))


def _bases(family: Family, parameters: Sequence[str], takes: Takes) -> list[Shapes]:
    """Return shapes of each number of axes that counts."""
    first: Shapes | None = None
    chosen: list[Shapes] = []
    most = 0
    for base in islice(family.bases(), MAX_BASES):
        most_axes = _most_axes(base)
        if chosen and (most_axes > max(most, MATRIX) or len(chosen) == MAX_SPACES):
            break
        if first is None or _most_axes(first) < min(most_axes, MATRIX):
            first = base
        program = family.program(base)
        assert program is not None
        order = input_order(family, [base])
        if takes(Problem(program, tuple(by_name(parameters, order)))):
            chosen.append(base)
            most = most_axes
    if chosen:
        return chosen
    assert first is not None
    return [first]


def _most_axes(shapes: Shapes) -> int:
    return max(_ranks(shapes), default=0)
