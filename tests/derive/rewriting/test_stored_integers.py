"""Moves store no integers that overflow where they did not before."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.rewriting.moves import Move, apply, moves
from derive.rules import ALL
from einalg.errors import RuleError
from einalg.language.analysis.infinite_integers import InfiniteIntegers
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.traversal import reductions
from einalg.testing import strategies
from tests.helpers.batches import examples
from tests.helpers.random_derivations import RandomDerivation, are_small, check_values

ROWS, TERMS = 4, 3
MOST_MOVES = 20
PARTS = (
    "Sum[j:3](u[i,j] - v[i,j])",
    "Sum[j:3](u[i,j]*v[i,j])",
    "(Sum[j:3](u[i,j]) - 2*v[i,0])",
    "Sum[j:3](Sum[k:3](u[i,j]*v[i,k]) - v[i,j])",
    "Sum[j:3](Max(u[i,j], v[i,j]) - v[i,j]*u[i,0])",
    "(Max[j:3](v[i,j]*u[i,j]) - u[i,2])",
    "Max[j:3](Max[k:3](v[i,j]*u[i,k], where=k > i) - v[i,0])",
    "(Min[j:3](u[i,j] - v[i,j], where=j > i) + u[i,2])",
)
READERS = (
    "Max({}, w[i])",
    "Min({}, 3)",
    "Abs({})",
    "floor({}/2)",
    "Mod({}, 5)",
    "Piecewise((1, {} > w[i]), (0, True))",
    "Sum[s:2](Max({} - s, 0))",
    "({} + w[i])",
    "(2*{} + x[i])",
)


def parsed(text: str, dtype: str, wide: str = "f64") -> Program:
    tensors = {
        "u": ea.tensor("u", (ROWS, TERMS), dtype),
        "v": ea.tensor("v", (ROWS, TERMS), dtype),
        "w": ea.tensor("w", (ROWS,), dtype),
        "x": ea.tensor("x", (ROWS,), wide),
    }
    return as_program(ea.parse(text, **{n: t for n, t in tensors.items() if f"{n}[" in text}))


SPLIT = Move("summation splitting", ["O"], {"reduction": 0, "outer": []})


@pytest.mark.parametrize(
    ("text", "dtype", "wide"),
    [
        ("O[i:4] = Max(Sum[j:3](u[i,j] - v[i,j]), 0)", "u8", "f64"),
        ("O[i:4] = Max(Sum[j:3](u[i,j]*v[i,j]), 0)", "i8", "f64"),
        ("O[i:4] = floor(Sum[j:3](u[i,j])/2)", "i16", "f64"),
        ("O[i:4] = Sum[j:3](u[i,j]) + x[i]", "i8", "f32"),
        ("O[i:4] = Sum[j:3](u[i,j]) + x[i]", "i8", "i32"),
        ("O[i:4] = Max(Sum[j:3](u[i,j] - v[i,j]), 0)", "u32", "f64"),
    ],
)
def test_what_may_overflow_is_not_stored(text: str, dtype: str, wide: str) -> None:
    with pytest.raises(RuleError, match="does not hold all values of a new scope"):
        apply(parsed(text, dtype, wide), SPLIT, ALL)
    assert SPLIT not in moves(parsed(text, dtype, wide), [ALL[SPLIT.rule]])


@pytest.mark.parametrize(
    ("text", "is_stored"),
    [
        ("O[i:4] = Max[j:3](u[i,j], where=j > i) + x[i]", False),
        ("O[i:4] = 2*Max[j:3](u[i,j], where=j > i)", False),
        ("O[i:4] = Max(Max[j:3](2*u[i,j], where=j > i), 7)", True),
        ("O[i:4] = Max(2*Max[j:3](u[i,j], where=j > i), 7)", False),  # twice the end is another one
        ("O[i:4] = Max(Max[j:3](u[i,j], where=j > i), 7)", True),  # the end of the type is as good
        ("O[i:4] = Max[j:3](u[i,j], where=j >= i - 1) + x[i]", True),  # over some points everywhere
    ],
)
def test_no_extreme_over_perhaps_no_points_is_stored(text: str, is_stored: bool) -> None:
    program = parsed(text, "i64")
    assert (SPLIT in moves(program, [ALL[SPLIT.rule]])) is is_stored
    if not is_stored:
        with pytest.raises(RuleError, match="no type of integers has an infinity"):
            apply(program, SPLIT, ALL)


def test_what_is_any_number_is_read_as_a_whole() -> None:
    program = parsed("O[i:4] = Max[j:3](2*Max[k:3](u[i,k], where=k > j))", "i64")
    text = "O[i:4] = (L[i:4](Max[j:3](2*Max[k:3](u[i, k], where=k >= j + 1))))[i]"
    assert str(apply(program, SPLIT, ALL)) == text


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("O[i:4] = 3*Sum[j:3](u[i,j] - v[i,j]) + w[i]", "u8"),  # wraps round as the whole does
        ("O[i:4] = Max(Sum[j:3](u[i,j]*v[i,j]), 0)", "i32"),  # wraps round in place too
        ("O[i:4] = Max(Sum[j:3](u[i,j]), 0)", "u32"),
        ("O[i:4] = Max(Sum[j:3](u[i,j] - v[i,j]), 0)", "i64"),
        ("O[i:4] = Max(Sum[j:3](u[i,j] - v[i,j]), 0)", "bool"),
    ],
)
def test_what_fits_or_wraps_round_anyway_is_stored(text: str, dtype: str) -> None:
    assert SPLIT in moves(parsed(text, dtype), [ALL[SPLIT.rule]])


def test_a_statement_is_not_fused_where_what_it_reads_would_overflow() -> None:
    text = "B[i:4] = u[i,0] - v[i,0]\nT[i:4] = B[i] + 5\nO[i:4] = Max(T[i], 100)"
    program = parsed(text, "u8")
    with pytest.raises(RuleError, match="new scope, from -255 to 255"):
        apply(program, Move("expression fusion", ["O"], {"producer": "T"}), ALL)
    first = apply(program, Move("expression fusion", ["T"], {"producer": "B"}), ALL)
    assert apply(first, Move("expression fusion", ["O"], {"producer": "T"}), ALL).names == ("O",)


def test_what_may_have_overflowed_before_is_rewritten() -> None:
    program = parsed("T[i:4] = Sum[j:3](u[i,j] - v[i,j])\nO[i:4] = Max(T[i], 0)", "u8")
    split = [move for move in moves(program, ALL.values()) if move.rule == "expression splitting"]
    assert {move.path for move in split} == {("O",), ("T",)}


@st.composite
def integer_derivations(draw: Any) -> RandomDerivation:
    """Programs that read small integers exactly, and what moves make of them."""
    dtype = draw(st.sampled_from(["u8", "i8", "u16", "i16", "u32", "i32"]))
    text = draw(st.sampled_from(PARTS))
    for reader in draw(st.lists(st.sampled_from(READERS), min_size=1, max_size=2, unique=True)):
        text = reader.format(text)
    text = f"O[i:4] = {text}"
    if draw(st.booleans()):
        text = f"T{text[1:]}\nO[i:4] = {draw(st.sampled_from(READERS)).format('T[i]')}"
    program = parsed(text, dtype, draw(st.sampled_from(["f64", "i32"])))
    arrays = draw(strategies.arrays_for(program, 7))
    assume(are_small(program, arrays))
    steps: list[Program] = []
    current = program
    for _ in range(draw(st.integers(1, 3))):
        possible = list(islice(moves(current, ALL.values()), MOST_MOVES))
        if possible:
            current = apply(current, draw(st.sampled_from(possible)), ALL)
            steps.append(current)
    return RandomDerivation(program, arrays, tuple(steps))


@settings(
    max_examples=examples(20, at_night=400),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(integer_derivations())
def test_moves_of_small_integers_store_what_fits(derivation: Any) -> None:
    check_values(derivation)


def test_extremes_of_inner_scopes_may_be_over_no_points() -> None:
    """Where the inner scope has no value, its padding is read, which the largest passes over."""
    inner = "(L[i:4, j:3](u[i,j] + 1, where=j < i)).pad(0, 1, fill=-inf)"
    text = f"O[i:4] = Max[j:3]({inner}[i,j]) + x[i]"
    program = parsed(text, "i64")
    (largest,) = [node for node in reductions(program["O"].body) if node.op == "Max"]
    assert InfiniteIntegers(program["O"]).ends(largest).below
    assert SPLIT not in moves(program, [ALL[SPLIT.rule]])
