"""Programs become one scope, but for what many read again and again."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

import einalg as ea
from derive.rewriting.paths import paths, place_count
from derive.rules import ALL
from derive.search.cleanup import MAX_REPETITION, MIN_PLACES, fully_inlined
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program
from einalg.testing import strategies


def blocks(number: int) -> Program:
    """Return blocks of two products, each added to what it reads."""
    lines = []
    for k in range(number):
        lines.append(f"P{k}[i,j] += S{k}[i,k]*W[k,j]")
        lines.append(f"S{k + 1}[i,j] = S{k}[i,j] + P{k}[i,j]")
    return ea.parse("\n".join(lines), S0=(2, 2), W=(2, 2))


def test_blocks_that_are_added_to_what_they_read_are_merged_in_part() -> None:
    """Every block would double the places of all before it."""
    program = blocks(12)
    flat, moves = fully_inlined(program, ALL)
    assert moves and len(flat.statements) < len(program.statements)
    assert place_count(flat) <= max(MIN_PLACES, MAX_REPETITION * place_count(program))
    arrays = {"S0": np.array([[1, 2], [3, 4]]), "W": np.array([[0, 1], [-1, 1]])}
    (expected,), (got,) = execute(program, arrays).values(), execute(flat, arrays).values()
    np.testing.assert_array_equal(got, expected)


def test_a_few_blocks_become_one_scope() -> None:
    flat, _ = fully_inlined(blocks(3), ALL)
    assert len(flat.statements) == 1


@settings(max_examples=20)
@given(strategies.programs(max_statements=3))
def test_places_are_counted_without_a_walk(program: Program) -> None:
    for spelling in (program, fully_inlined(program, ALL)[0]):
        assert place_count(spelling) == len(list(paths(spelling)))
