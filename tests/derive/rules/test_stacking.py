"""Statements are stacked along an index only where it does nothing but read their tensors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.rewriting.moves import Move, apply, moves
from derive.rules import ALL
from derive.rules.inter.expression_merging import stacking_key
from einalg.language.ir.program import Program, as_program

SHAPES = {"x": (5, 3), "U": (3, 4), "V": (3, 4)}
MERGING = ALL["expression merging"]


def siblings(body: str) -> Program:
    """Return two statements of one body, the second one with V for U, and their product."""
    lines = [f"P[i,j:4] = {body}", f"Q[i,j:4] = {body.replace('U', 'V')}", "O[i,j] = P[i,j]*Q[i,j]"]
    return as_program(ea.parse("\n".join(lines), **SHAPES))


def values_after(program: Program, move: Move | None = None) -> list[object]:
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(1, 9, tensor.shape) for name, tensor in program.inputs.items()}
    after = program if move is None else apply(program, move, ALL)
    return ea.evaluate(after, **arrays).tolist()


INDEX_COUNTS = [
    "j*Sum[k](x[i,k]*U[k,j])",
    "Sum[k](x[i,k]*U[k,j]*(j + k))",
    "Sum[k](x[i,k]*U[k,j], where=k <= j)",
    "Sum[k](x[i,k]*Piecewise((U[k,j], U[k,j] > j), (0, True)))",
]


@pytest.mark.parametrize("body", INDEX_COUNTS)
def test_statements_are_not_stacked_along_an_index_that_counts(body: str) -> None:
    program = siblings(body)
    found = list(moves(program, [MERGING]))
    assert [move.args["axis"] for move in found] == [None]
    assert values_after(program, found[0]) == values_after(program)
    with pytest.raises(ea.RuleError, match="tensors that can be stacked along axis 1"):
        apply(program, Move(MERGING.name, ("P",), {"sibling": "Q", "axis": 1}), ALL)
    assert stacking_key(program["P"], 1) is None


FACTORS = ["x[i,k]", "U[k,j]", "(j + 1)", "(k + 2)", "(i + j)", "U[k,2]", "U[k,j]**2"]
CONDITIONS = ["", ", where=k <= j", ", where=k <= i", ", where=i + j >= 3"]


@settings(max_examples=25)
@given(
    factors=st.lists(st.sampled_from(FACTORS), max_size=3),
    condition=st.sampled_from(CONDITIONS),
    outer=st.sampled_from(["", "j*", "x[i,0]*"]),
)
def test_stacked_statements_have_their_values(
    factors: list[str], condition: str, outer: str
) -> None:
    terms = "*".join(["x[i,k]", "U[k,j]", *factors])
    program = siblings(f"{outer}Sum[k:3]({terms}{condition})")
    expected = values_after(program)
    for move in moves(program, [MERGING]):
        assert values_after(program, move) == expected
