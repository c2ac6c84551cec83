"""A unit whose schedule is chosen by hand: the steps that are possible, and what they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from codegen.tuning.by_hand.moves import ScheduleMove
from codegen.tuning.spaces.holes import Hole, StepCard
from codegen.tuning.spaces.space import NO_CODE, CodeCandidate, identity
from codegen.tuning.spaces.unit import CodeUnit
from einalg.errors import RuleError

KIND = "kind"
KIND_CARD = StepCard(
    KIND, "writes the kernel as another kind of code, with the numbers that the model thinks best"
)


@dataclass(frozen=True, eq=False)
class ScheduledUnit:
    """A unit with the starts of its spaces, and the candidate that is chosen.

    `outputs` are the kernels that share its code, by the statement that each computes.
    """

    outputs: tuple[str, ...]
    unit: CodeUnit
    starts: tuple[CodeCandidate, ...]
    candidate: CodeCandidate

    @property
    def name(self) -> str:
        return self.outputs[0]

    def start_of(self, space: str) -> CodeCandidate:
        """Return the start of a kind of code; `RuleError` where the unit has no such code."""
        for start in self.starts:
            if start.space.name == space:
                return start
        kinds = ", ".join(start.space.name for start in self.starts)
        raise RuleError(
            f"{self.name} cannot be written as {space!r}\n  it can be written as: {kinds}"
        )

    def with_candidate(self, candidate: CodeCandidate) -> ScheduledUnit:
        return replace(self, candidate=candidate)


@dataclass(frozen=True)
class PossibleMove:
    """A step that is possible, with its card, and the number that it changes where it is one."""

    move: ScheduleMove
    card: StepCard
    hole: Hole | None = None


def possible_moves(scheduled: ScheduledUnit) -> Iterator[PossibleMove]:
    """Yield the steps that are possible: other kinds of code, then other values of each number."""
    candidate = scheduled.candidate
    for start in scheduled.starts:
        if identity(start) != identity(candidate):
            yield PossibleMove(ScheduleMove(scheduled.name, start.space.name), KIND_CARD)
    for hole in candidate.space.holes(candidate.point):
        for value in possible_values(candidate, hole):
            move = ScheduleMove(scheduled.name, None, ((hole.name, value),), hole.part)
            yield PossibleMove(move, hole.card, hole)


def possible_values(candidate: CodeCandidate, hole: Hole) -> list[Any]:
    """Return the other values that a number may have."""
    values: list[Any] = []
    for value in hole.choices:
        if value != hole.value and _fits(candidate, {hole.name: value}, hole.part):
            values.append(value)
    return values


def _fits(candidate: CodeCandidate, values: Mapping[str, Any], part: int | None) -> bool:
    try:
        candidate.space.with_values(candidate.point, values, part)
    except ValueError:
        return False
    return True


def applied(scheduled: ScheduledUnit, move: ScheduleMove) -> ScheduledUnit:
    """Return a unit after a step; `RuleError` says in words why it is not possible."""
    candidate = scheduled.candidate
    if move.space is not None:
        candidate = scheduled.start_of(move.space)
    if move.values:
        candidate = _with_values(candidate, move)
    try:
        candidate.build()
    except NO_CODE as error:
        reason = str(error).splitlines() or [type(error).__name__]
        raise RuleError(
            f"{move} is not possible: there is no such code ({reason[0]})\n"
            "  choose another value: see s.moves()"
        ) from None
    return scheduled.with_candidate(candidate)


def _with_values(candidate: CodeCandidate, move: ScheduleMove) -> CodeCandidate:
    space = candidate.space
    try:
        point = space.with_values(candidate.point, dict(move.values), move.part)
    except ValueError as error:
        raise RuleError(f"{move} is not possible: {error}\n  {_remedy(candidate, move)}") from None
    return CodeCandidate(space, point)


def _remedy(candidate: CodeCandidate, move: ScheduleMove) -> str:
    """Return what is possible instead, where a single number was to change."""
    holes = candidate.space.holes(candidate.point)
    named = [hole for hole in holes if hole.name in dict(move.values)]
    if move.part is not None:
        named = [hole for hole in named if hole.part == move.part]
    if len(move.values) != 1 or len(named) != 1:
        return "s.moves() lists what is possible"
    (hole,) = named
    values = possible_values(candidate, hole)
    if not values:
        return f"{hole.name} stays {hole.value} unless others change first: see s.moves()"
    return f"possible here: {hole.name}={', '.join(map(str, values))}"
