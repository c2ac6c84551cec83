"""Outlines: derivations without what the cleanup does, so that they hold at other sizes.

A move of the cleanup has the extents of its program as arguments; at other sizes, it has others.
The moves between are those that were chosen, and say the same at all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from derive.rewriting.moves import Move, Rule, apply
from derive.search.cleanup import cleaned_up
from einalg.language.ir.program import Program


@dataclass(frozen=True)
class Outline:
    """The chosen moves of a derivation, in groups: after each group, there is a cleanup."""

    groups: tuple[tuple[Move, ...], ...]

    @classmethod
    def of(cls, start: Program, moves: Sequence[Move], rules: Mapping[str, Rule]) -> Outline:
        """Return the outline of a derivation from a program.

        >>> import einalg as ea
        >>> from derive.rules import ALL
        >>> from einalg.language.ir.program import as_program
        >>> p = as_program(ea.parse("O[i] += A[i,j,k]*x[k]", A=(4, 5, 6), x=(6,)))
        >>> move = ea.Session(p).moves("summation splitting")[0].move
        >>> print(Outline.of(p, [move], ALL).groups[0][0])
        summation splitting at O: reduction=0, outer=(j)
        """
        groups, group = [], []
        program, position = start, 0
        while position < len(moves):
            program = apply(program, moves[position], rules)
            group.append(moves[position])
            position += 1
            clean, cleaning = cleaned_up(program, rules)
            if _are_next(cleaning, moves, position):
                program, position = clean, position + len(cleaning)
                groups.append(tuple(group))
                group = []
        if group:
            groups.append(tuple(group))
        return cls(tuple(groups))

    def followed_from(
        self, start: Program, rules: Mapping[str, Rule]
    ) -> tuple[Program, tuple[Move, ...]]:
        """Return what the derivation leads to from a program of other sizes, with the moves there.

        Raises an `EinalgError` where a move does not apply.
        """
        program, steps = start, list[Move]()
        for group in self.groups:
            for move in group:
                program = apply(program, move, rules)
            program, cleaning = cleaned_up(program, rules)
            steps += [*group, *cleaning]
        return program, tuple(steps)


def _are_next(cleaning: Sequence[Move], moves: Sequence[Move], position: int) -> bool:
    """Tell whether a cleanup is what a derivation goes on with."""
    return list(cleaning) == list(moves[position : position + len(cleaning)])
