"""Equal statements become one, values that points share are stored, and the values stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.programs.passes.shared_values import shared, with_shared_values
from tests.helpers.networks import assert_same_values

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


SHAPES = {"X": (3, 3, 8), "Y": (8, 3, 3), "U": (8,), "V": (3, 8), "S": ()}


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ("X[h,w,c]/(1 + exp(-T[c]))", ["1/(1 + exp(-T[c]))"]),
        ("X[h,w,c]*tanh(T[c]) + exp(T[c])", ["exp(T[c])", "tanh(T[c])"]),
        ("T[c] + X[h,w,c]*sqrt(V[w,c]**2 + 1)", []),  # three reads of each
        ("X[h,w,c]/sqrt(T[c]**2 + 1)", ["1/sqrt(T[c]**2 + 1)"]),
        ("X[h,w,c]/exp(T[c])", ["exp(-T[c])"]),
        ("X[h,w,c]/log(T[c]**2 + 2)", ["log(T[c]**2 + 2)"]),  # its inverse may be infinite
        ("X[h,w,c]/tanh(T[c])**2", ["tanh(T[c])"]),
        ("X[h,w,c]*exp(T[c]) + Y[c,h,w]*exp(T[c])", ["exp(T[c])"]),
        ("X[h,w,c]*T[c]/(1 + U[c])", []),  # cheap
        ("T[c] + X[h,w,c]*exp(S[()] + h)", []),  # before the loops
        ("X[h,w,c]*Piecewise((log(T[c]), T[c] > 0), (0, True))", []),
        ("X[h,w,c]*exp(X[h,w,c] - T[c])", []),
    ],
)
def test_expensive_values_that_points_share(body, stored):
    """Channels are innermost: what they alone have is stored, not what the loops compute once."""
    program = ea.parse(f"T[c] = 2*U[c]\nO[h:3,w:3,c:8] = {body}", **_read(body))
    changed = with_shared_values(program)
    added = [name for name in changed.names if name not in program.names]
    assert sorted(str(changed[name].body) for name in added) == stored
    assert_same_values(program, changed)


def test_channels_that_are_first_store_nothing():
    text = "T[c] = 2*U[c]\nO[c:8,h:3,w:3] = Y[c,h,w]/(1 + exp(-T[c]))"
    program = ea.parse(text, **_read(text))
    assert with_shared_values(program) is program


def test_halves_are_not_stored():
    """They would be rounded, which what is computed by the way is not."""
    shapes = {name: ea.tensor(name, SHAPES[name], "f16") for name in ("U", "X")}
    program = ea.parse("T[c] = 2*U[c]\nO[h:3,w:3,c:8] = X[h,w,c]*exp(T[c])", **shapes)
    assert with_shared_values(program) is program


def _read(text):
    return {name: shape for name, shape in SHAPES.items() if f"{name}[" in text} | {"U": (8,)}
