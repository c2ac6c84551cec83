"""The moves that are possible, numbered, with what each would make of its place; that is computed
when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from derive.matching import distance
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import paths, scope_at
from derive.search.expansion import is_heavy
from einalg.boundary import public
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.text.tables import Listing
from einalg.text.terminal import differing, width, wrapped

Changed = Scope | Sequence[tuple[str, Scope]]  # a scope, or statements with their names


@public
class NumberedMove:
    """One numbered move of a program, with the place it changes, before and after."""

    def __init__(self, number: int, move: Move, program: Program, rules: Mapping[str, Rule]):
        self.number, self.move, self.program = number, move, program
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

    def __str__(self) -> str:
        return wrapped(
            f"{self.number:3}. {self.move}\n       {self.before}\n     ⇒ {self.after}", width()
        )

    __repr__ = __str__


class MoveList(Listing[NumberedMove]):
    """The moves that are possible, numbered from 0; shown place by place, each with what it makes
    of it.

    In a terminal, what stays as it was is left out of that: `choice.after` has all of it.
    """

    def __str__(self) -> str:
        groups: dict[Any, list[NumberedMove]] = {}
        for choice in self:
            groups.setdefault((choice.move.place, choice.before), []).append(choice)
        lines: list[str] = []
        for (place, before), choices in groups.items():
            lines += _at(place, before, choices)
        return wrapped("\n".join(lines), width()) or "no move is possible"


def _at(place: str, before: str, choices: Iterable[NumberedMove]) -> Iterator[str]:
    """A place as it is, and what each move makes of it."""
    yield f"at {place}: {before}"
    for choice in choices:
        yield f"{choice.number:3}. {choice.move.rule}: {choice.move.arguments}"
        yield f"     ⇒ {differing(choice.after, before)}"


def program_distance(program: Program) -> float:
    """How far a program is from the operators of the libraries, as the search counts it: 0 where
    all heavy scopes are one.
    """
    return distance((scope for _, scope in paths(program)), heavy=is_heavy)


def _without(program: Program, other: Program) -> str:
    """The statements that the other program does not have."""
    lines = str(other).splitlines()
    return "; ".join(line for line in str(program).splitlines() if line not in lines)
