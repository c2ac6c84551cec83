"""The search starts from sums over windows on other axes, with the cheaper corrections."""

from __future__ import annotations

from typing import Any

import pytest

import einalg as ea
from bench.partial import convolution
from derive.rewriting.moves import Move, apply
from derive.rules import ALL
from derive.search.best_first import Budget, search
from derive.search.cleanup import cleaned_up
from derive.search.expansion import ideal_seconds
from derive.search.starts.partly_equal import partly_equal
from einalg.language.ir.program import Program, as_program

NAME = "partial substitution"


def dilated(images: int, channels: int, h: int, w: int, dilation: int) -> Program:
    """Return a convolution of 3 by 3 that keeps the size of its images."""
    return as_program(convolution((images, channels, h, w), channels, 3, dilation))


CASES = [
    (dilated(1, 256, 14, 14, 2), ["interleave", "interleave"]),
    (dilated(1, 128, 17, 21, 3), ["interleave", "interleave"]),
    (dilated(5, 256, 13, 11, 1), ["join"]),
]


@pytest.mark.parametrize(("program", "kinds"), CASES)
def test_starts_are_replayed_and_proved(program: Program, kinds: list[str]) -> None:
    starts = list(partly_equal(program, ALL, cleaned_up, ideal_seconds))
    assert starts
    for start, steps in starts:
        assert [mutation["kind"] for mutation in steps[0].args["mutations"]] == kinds
        replayed = program
        for move in steps:
            replayed = apply(replayed, move, ALL)
        assert replayed == start
        assert ea.prove(program, start).verdict == "proved"


def cost_of(program: Program, pitch: int) -> float:
    """Return what two phases of both axes cost at least, each this far from the other."""
    phases = {"kind": "interleave", "phases": 2, "pitch": pitch}
    mutations = [{**phases, "index": index} for index in "hw"]
    corrected = apply(program, Move(NAME, ("O",), {"mutations": mutations}), ALL)
    return ideal_seconds(cleaned_up(corrected, ALL)[0])


def test_the_cheaper_of_both_corrections_is_searched() -> None:
    program = CASES[0][0]
    ((start, _),) = partly_equal(program, ALL, cleaned_up, ideal_seconds)
    costs = [cost_of(program, pitch) for pitch in (7, 8)]
    assert costs[0] != costs[1]
    assert ideal_seconds(start) == min(costs)


NOTHING = [
    ("O[i,j] += A[i,k]*B[k,j]", {"A": (64, 64), "B": (64, 64)}),
    ("O[f,h:32] = Sum[c,r](A.pad(0,1)[c,h+r-1]*K[f,c,r])", {"A": (64, 32), "K": (64, 64, 3)}),
    ("O[i] = exp(A[i])", {"A": (64,)}),
]


@pytest.mark.parametrize(("text", "shapes"), NOTHING)
def test_what_has_neither_dilation_nor_batch_has_no_such_start(text: str, shapes: Any) -> None:
    program = as_program(ea.parse(text, **shapes))
    assert not list(partly_equal(program, ALL, cleaned_up, ideal_seconds))


@pytest.mark.parametrize("rules", [None, [name for name in ALL if name != NAME]])
def test_the_search_has_such_candidates_where_the_rule_may_be_used(rules: Any) -> None:
    candidates, _, _ = search(CASES[0][0], Budget(states=1, seconds=600), rules)
    used = any(move.rule == NAME for candidate in candidates for move in candidate.moves)
    assert used == (rules is None)
