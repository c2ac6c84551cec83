"""Equal statements become one, and the values stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.programs.passes.shared_statements import shared

SIZE = 6
TWICE = "S[i] = {}\nT[i] = {}\nO[i,j] = S[i]*T[j]"
CHAINS = """
S[i] = exp(A[i])
T[i] = exp(A[i])
U[i] = S[i]**2
V[i] = T[i]**2
O[i,j] = U[i]*V[j]
"""
BODIES = (
    *("Max(0, {0}[i])", "{0}[i] + {1}[i]", "{1}[i] + {0}[i]", "{0}[5-i]", "{0}[i]*{1}[5-i]"),
    *("Sum[k:6]({0}[k]*{1}[i])", "2*{0}[i]", "Max(0, {0}.pad(1)[i-1])"),
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (TWICE.format("Max(0, A[i])", "Max(0, A[i])"), ("S", "O")),
        (TWICE.format("A[i]*B[i]", "B[i]*A[i]"), ("S", "O")),
        (TWICE.format("Max(0, A[i])", "Max(0, B[i])"), ("S", "T", "O")),
        (TWICE.format("Max(0, A[i])", "Max(0, A[2-i])"), ("S", "T", "O")),
        (CHAINS, ("U", "O")),
    ],
)
def test_statements_that_are_left(text: str, left: tuple[str, ...]) -> None:
    assert shared(ea.parse(text, A=(3,), B=(3,))).names == left


def test_outputs_stay() -> None:
    program = ea.parse("S[i] = 2*A[i]\nT[i] = 2*A[i]", A=(3,))
    assert program.outputs == ("S", "T")
    assert shared(program) is program


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A program of up to seven statements, many of them equal."""
    known, lines = ["A", "B"], list[str]()
    for number in range(draw(st.integers(2, 6))):
        body = draw(st.sampled_from(BODIES))
        read = draw(st.lists(st.sampled_from(known), min_size=2, max_size=2))
        lines.append(f"T{number}[i:{SIZE}] = {body.format(*read)}")
        known.append(f"T{number}")
    total = " + ".join(f"{name}[i]" for name in known)
    return "\n".join([*lines, f"O[i:{SIZE}] = {total}"])


@given(texts())
def test_values(text: str) -> None:
    program = ea.parse(text, A=(SIZE,), B=(SIZE,))
    random = np.random.default_rng(0)
    arrays = {name: random.uniform(-1, 1, SIZE) for name in program.inputs}
    merged = shared(program)
    assert len(merged.statements) <= len(program.statements)
    expected = ea.evaluate(program, **arrays)
    np.testing.assert_allclose(ea.evaluate(merged, **arrays), expected, rtol=1e-6)
