"""The moves that are possible, numbered, with what each would make of its place; that is computed
when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import inf

from derive.matching import Distance, distance, nearest_distance
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import paths, scope_at
from derive.search.expansion import is_heavy
from einalg.boundary import public
from einalg.errors import RuleError
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.text.tables import Listing
from einalg.text.terminal import differing, width, wrapped

Changed = Scope | Sequence[tuple[str, Scope]]  # a scope, or statements with their names


@dataclass(frozen=True)
class Aim:
    """An operator that a derivation goes towards, and the distance of a program from it."""

    operator: str
    distance: Distance


@public
class NumberedMove:
    """One numbered move of a program, with the place it changes, before and after.

    Where the session aims at an operator, `aim` has it with the distance before the move, and
    `distance_to_aim` is that after it.
    """

    def __init__(
        self,
        number: int,
        move: Move,
        program: Program,
        rules: Mapping[str, Rule],
        aim: Aim | None = None,
    ):
        self.number, self.move, self.program, self.aim = number, move, program, aim
        self._rules = rules

    @cached_property
    def made(self) -> Program:
        """The program after the move; it is not proven here."""
        return apply(self.program, self.move, self._rules)

    @cached_property
    def before(self) -> str:
        """The part that changes, as text: the scope at the move's place, or the statements that are
        gone after it.
        """
        if self._is_local:
            return str(self._scope(self.program))
        return _without(self.program, self.made)

    @cached_property
    def after(self) -> str:
        """The same part after the move, as text."""
        if self._is_local:
            return str(self._scope(self.made))
        return _without(self.made, self.program)

    @cached_property
    def change(self) -> tuple[Changed, Changed]:
        """The parts before and after the move: two scopes, or statements that differ."""
        if self._is_local:
            return self._scope(self.program), self._scope(self.made)
        old, new = self.program.statements, self.made.statements
        return [s for s in old if s not in new], [s for s in new if s not in old]

    @property
    def _is_local(self) -> bool:
        return self._rules[self.move.rule].level == "scope"

    def _scope(self, program: Program) -> Scope:
        return scope_at(program, self.move.path)

    @property
    def distance(self) -> float:
        """How far the program would be from the operators of the libraries."""
        return program_distance(self.made)

    @cached_property
    def distance_to_aim(self) -> Distance | None:
        """How far the program would be from the operator that the session aims at.

        None without one, and where it turns out that the move cannot be applied.
        """
        if self.aim is None:
            return None
        try:
            return nearest_distance(self.made, self.aim.operator)
        except RuleError:
            return None

    @property
    def is_nearer(self) -> bool:
        """Whether the move lessens the distance to the operator that the session aims at."""
        after = self.distance_to_aim
        return self.aim is not None and after is not None and after < self.aim.distance

    @property
    def nearness(self) -> str:
        """The distance to the aim before and after, such as `matmul 6 → 1.5`; empty without one."""
        if self.aim is None or self.distance_to_aim is None:
            return ""
        before, after = float(self.aim.distance), float(self.distance_to_aim)
        change = f"{before:g}" if before == after else f"{before:g} → {after:g}"
        return f"{self.aim.operator} {change}"

    def renumbered(self, number: int) -> NumberedMove:
        """Return the same move with another number."""
        if number == self.number:
            return self
        choice = copy(self)
        choice.number = number
        return choice

    def __str__(self) -> str:
        heading = f"{self.number:3}. {self.move}"
        if self.nearness:
            heading += f"   ({self.nearness})"
        return wrapped(f"{heading}\n       {self.before}\n     ⇒ {self.after}", width())

    __repr__ = __str__


class MoveList(Listing[NumberedMove]):
    """The moves that are possible, numbered from 0; shown place by place, each with what it makes
    of it.

    Where the session aims at an operator, moves that lessen the distance to it come first. In a
    terminal, what stays as it was is left out: `choice.after` has all of it.
    """

    def __str__(self) -> str:
        lines: list[str] = []
        for title, choices in self.by_nearness():
            if title:
                lines.append(f"{title}:")
            lines += _by_place(choices)
        return wrapped("\n".join(lines), width()) or "no move is possible"

    def by_nearness(self) -> list[tuple[str, MoveList]]:
        """The moves that lead nearer to the operator that the session aims at, and the others, each
        under its title; all under none where it aims at nothing.
        """
        aims = [choice.aim for choice in self if choice.aim is not None]
        if not aims:
            return [("", self)]
        operator, now = aims[0].operator, float(aims[0].distance)
        nearer = MoveList(choice for choice in self if choice.is_nearer)
        others = MoveList(choice for choice in self if not choice.is_nearer)
        titles = (f"nearer to {operator} than {now:g}", f"no nearer to {operator}")
        groups = zip(titles, (nearer, others))
        return [(title, choices) for title, choices in groups if choices]


def aimed(choices: Iterable[NumberedMove]) -> MoveList:
    """Return moves numbered anew, those first that lead nearest to what the session aims at.

    Of two that lead nearer alike, that one is first which leaves the whole program nearer to the
    operators of the libraries.
    """

    def rank(choice: NumberedMove) -> tuple[float, float, int]:
        if choice.aim is None:
            return 0.0, 0.0, choice.number
        distance = choice.distance_to_aim
        if distance is None:
            return inf, inf, choice.number
        if not choice.is_nearer:
            return float(distance), 0.0, choice.number
        return float(distance), choice.distance, choice.number

    ranked = sorted(choices, key=rank)
    return MoveList(choice.renumbered(number) for number, choice in enumerate(ranked))


def _by_place(choices: Iterable[NumberedMove]) -> Iterator[str]:
    """Yield the lines of moves; the place is said where it is another one than before.

    Moves without an aim have no order, so that all of one place stand together.
    """
    choices = list(choices)
    if choices and choices[0].aim is None:
        places = list(dict.fromkeys(map(_place, choices)))
        choices.sort(key=lambda choice: places.index(_place(choice)))
    described = set()
    for (place, before), group in groupby(choices, key=_place):
        yield f"at {place}:" if before in described else f"at {place}: {before}"
        described.add(before)
        for choice in group:
            heading = f"{choice.number:3}. {choice.move.rule}: {choice.move.arguments}"
            yield f"{heading}   ({choice.nearness})" if choice.nearness else heading
            yield f"     ⇒ {differing(choice.after, before)}"


def _place(choice: NumberedMove) -> tuple[str, str]:
    return choice.move.place, choice.before


def program_distance(program: Program) -> float:
    """How far a program is from the operators of the libraries, as the search counts it: 0 where
    all heavy scopes are one.
    """
    return distance((scope for _, scope in paths(program)), heavy=is_heavy)


def _without(program: Program, other: Program) -> str:
    """The statements that the other program does not have."""
    lines = str(other).splitlines()
    return "; ".join(line for line in str(program).splitlines() if line not in lines)
