"""The steps that are possible, numbered, with what each makes; shown number by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from textwrap import fill
from typing import Any

from codegen.tuning.by_hand.moves import ScheduleMove
from codegen.tuning.by_hand.unit import PossibleMove, ScheduledUnit, applied
from codegen.tuning.spaces.space import CodeCandidate
from einalg.boundary import public
from einalg.text.tables import Listing
from einalg.text.terminal import width

VALUE_INDENT = " " * 6
NO_BREAK = "\u00a0"  # a space at which no line ends


@public
@dataclass(frozen=True, eq=False)
class ScheduleChoice:
    """A step that is possible, with its number: `name`, `condition` and `effect` say what it is."""

    number: int
    possible: PossibleMove
    scheduled: ScheduledUnit

    @property
    def move(self) -> ScheduleMove:
        """The step as a value."""
        return self.possible.move

    @property
    def name(self) -> str:
        """The name of the step, such as "tile"."""
        return self.possible.card.step

    @property
    def condition(self) -> str:
        """What has to hold for the step to be possible."""
        return self.possible.card.condition

    @property
    def effect(self) -> str:
        """What the step changes."""
        return self.possible.card.effect

    @property
    def value(self) -> Any:
        """The value that the step sets, or the kind of code that it chooses."""
        if self.move.space is not None:
            return self.move.space
        return self.move.values[0][1]

    @cached_property
    def after(self) -> CodeCandidate:
        """The kind of code and its numbers after the step."""
        return applied(self.scheduled, self.move).candidate

    @property
    def cycles(self) -> float:
        """The cycles that the cost model expects after the step."""
        return self.after.cycles

    def __str__(self) -> str:
        return f"{self.number}. {self.move}"

    __repr__ = __str__


@dataclass(frozen=True)
class NumberChoices:
    """The steps that set one number, or choose a kind of code: `title` says what it is now."""

    title: str
    choices: list[ScheduleChoice]

    @property
    def first(self) -> ScheduleChoice:
        return self.choices[0]


class ScheduleChoices(Listing[ScheduleChoice]):
    """The steps that are possible, each with its number; `s.apply(number)` applies one.

    Shown with a line for each number of the code: the step that sets it, its value now, what it
    is and its condition, and below it the values that are possible, each after its number.
    """

    def by_number(self) -> Iterator[NumberChoices]:
        """Yield the steps that set the same number of the same kernel."""
        for _, group in groupby(self, key=_place):
            choices = list(group)
            yield NumberChoices(_title(choices[0]), choices)

    def __str__(self) -> str:
        lines: list[str] = []
        for row in self.by_number():
            condition = row.first.condition
            suffix = "" if condition == "none" else f"; if {condition}"
            lines.append(f"{row.title} ({row.first.name}): {row.first.effect}{suffix}")
            lines.append(_wrapped(f"{choice.number}: {choice.value}" for choice in row.choices))
        return "\n".join(lines) or "no step is possible"


def _wrapped(values: Iterable[str]) -> str:
    """Return values beside each other, none of them cut at the end of a line."""
    whole = "  ".join(value.replace(" ", NO_BREAK) for value in values)
    text = fill(whole, width(), initial_indent=VALUE_INDENT, subsequent_indent=VALUE_INDENT)
    return text.replace(NO_BREAK, " ")


def _place(choice: ScheduleChoice) -> tuple[str, int | None, str]:
    """Return the kernel, the part and the name of what a step sets."""
    move = choice.move
    if move.space is not None:
        return move.kernel, None, ""
    return move.kernel, move.part, move.values[0][0]


def _title(choice: ScheduleChoice) -> str:
    """Return what a step sets with its value now: `O: rows=6`, `O, part 1: rows=6`."""
    move, hole = choice.move, choice.possible.hole
    if hole is None:
        return f"{move.kernel}: {choice.scheduled.candidate.space.name}"
    return str(ScheduleMove(move.kernel, None, ((hole.name, hole.value),), move.part))
