"""Two programs without symbolic sizes: whether they differ, at an input or by a proof."""

from __future__ import annotations

import pytest

import einalg as ea
from derive.substitutions.verification.comparing import differ
from einalg.language.ir.program import as_program, as_symbolic_program

SIDES = [
    ("relu", "O[i] = Max(A[i], 0)", "O[i] = Max(A[i], 0)*1", False),
    ("no relu", "O[i] = Max(A[i], 0)", "O[i] = A[i]", True),
    ("no whole numbers", "O[i] = tanh(A[i])", "O[i] = tanh(2*A[i])", True),
    ("far from whole numbers", "O[i] = floor(A[i])", "O[i] = A[i]", True),
    ("no value", "O[i] = 1/floor(A[i]/99)", "O[i] = A[i]", True),
]


@pytest.mark.parametrize("name, one, two, expected", SIDES, ids=lambda value: str(value))
def test_differ(name: str, one: str, two: str, expected: bool) -> None:
    sides = [as_program(ea.parse(text, A=(4,))) for text in (one, two)]
    assert differ(*sides) == expected, name


def test_values_of_other_types_are_not_drawn() -> None:
    A = ea.tensor("A", (4,), "u8")
    sides = [as_program(ea.parse(text, A=A)) for text in ("O[i] = Max(A[i], 0)", "O[i] = A[i]*1")]
    assert not differ(*sides)


def test_sizes_that_stay_open_are_left_to_a_proof() -> None:
    texts = "O[i] += A[i,k]", "O[i] += A[i,k]*1", "O[i] += A[i,k]*A[i,k]"
    same, equal, other = [as_symbolic_program(ea.parse(text, A=("N", 300))) for text in texts]
    assert not differ(same, equal) and differ(same, other)
