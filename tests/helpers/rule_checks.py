"""Checks of many rules on the same random programs, which are drawn once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import data

from derive.rewriting.moves import Rule
from derive.rewriting.user_rules import check_moves, check_rule
from einalg.errors import RuleError
from einalg.language.ir.program import Program, as_program
from einalg.testing import strategies
from tests.helpers.batches import is_nightly

MOST_MOVES = 3  # of a rule at one place, by day
Strategy = Callable[..., Any]
Case = tuple[Program, Any]


@cache
def drawn(examples: int, strategy: Strategy, *args: Any) -> list[Case]:
    """Return so many examples of a strategy, as programs with arrays for them."""
    cases: list[Case] = []

    @settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(data())
    def draw(choices: Any) -> None:
        program = as_program(choices.draw(strategy(*args)))
        cases.append((program, choices.draw(strategies.arrays_for(program))))

    draw()
    return cases


def with_few_moves(rule: Rule) -> Rule:
    """Return the rule with a few of its moves at each place, spread over all of them."""

    def find(expression: Any) -> Iterator[Any]:
        choices = list(rule.find(expression))
        return iter(choices[:: -(-len(choices) // MOST_MOVES) or 1])

    return replace(rule, find=find)


def check_on(rule: Rule, examples: int, strategy: Strategy, *args: Any, min_moves: int = 0) -> None:
    """Check the moves of a rule on random programs, on more of them where there are too few moves.

    Those are all moves at night, and a few of those at one place by day. Where one is wrong,
    hypothesis looks for the smallest program with which the rule fails.
    """
    checked = rule
    if not is_nightly():
        checked = with_few_moves(rule)
    moves = 0
    for times in (1, 2, 4, 8):
        cases = drawn(times * examples, strategy, *args)
        try:
            moves = sum(check_moves(checked, *case) for case in cases)
        except RuleError:
            check_rule(rule, examples=len(cases), strategy=strategy(*args))
            raise
        if moves >= min_moves:
            return
    raise AssertionError(f"{moves} moves of {rule.name} on {len(cases)} programs")
