"""What nothing reads is not computed, and the values stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.programs.passes.normalise import shaped
from derive.programs.passes.unread_parts import without_unread_parts

LAST_ROW = """
X[i,j] += A[i,k]*B[k,j]
Y[i,j] += X[i,k]*B[k,j]
S[i,j] = Max(0, Y[i,j]) + X[i,j]
O[j] = S[8,j]
"""
CAUSAL = """
S[i,j] += A[i,k]*A[j,k]
M[i] = Max[j:9](S[i,j], where=j <= i)
E = L[i:9,j:9](exp(S[i,j] - M[i]), where=j <= i)
T[i] = Sum[j:9](E[i,j], where=j <= i)
O[c:6] = Sum[j:9](E[8,j]*A[j,c], where=j <= 8)/T[8]
"""


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (LAST_ROW, {"X": (1, 6), "Y": (1, 6), "S": (1, 6)}),
        ("S[i,j] = 2*A[i,j]\nO[i:3,j:6] = S[2*i,j] + S[4*i,j]", {"S": (5, 6)}),
        ("S[i,j] = 2*A[i,j]\nO[i:3,j:6] = S[2*i,j] + S[2*i+3,j]", {"S": (9, 6)}),
        ("S[i,j] = i*A[i,j]\nO[i:3,j:2] = S[8-2*i,j+3]", {"S": (3, 2)}),
        ("S[i,j] = 2*A[i,j]\nO[i:3,j:6] = S[i//3+4,j%2]", {"S": (1, 2)}),
        ("S[i,j] = 2*A[i,j]\nO[i:3,j:6] = S.pad(0,1)[i,j-1]", {"S": (3, 6)}),
        ("S[i,j] = 2*A[i,j]\nO[i:8,j:6] = S[i,j]", {"S": (9, 6)}),
        ("S[i,j] = 2*A[i,j]\nO[j:6] = Sum[i:2](S[3*i+1,j]) + Sum[i:1](S[2*i,j])", {"S": (5, 6)}),
        ("S[i:2:9,j] = i*A[i,j]\nO[j:6] = S[5,j] + S[7,j]", {"S": (2, 6)}),
    ],
)
def test_places_that_are_read(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    program = ea.parse(text, A=(9, 6), B=(6, 6))
    narrow = without_unread_parts(program)
    assert {name: narrow[name].shape for name in shapes} == shapes
    _assert_same_values(program, narrow)


def test_outputs_and_what_is_all_read_stay() -> None:
    program = ea.parse("S[i] = 2*A[i]\nT[i:2] = S[i]", A=(9,))
    both = ea.Program(program.statements, ("S", "T"))
    assert without_unread_parts(both) is both


def test_conditions_on_the_only_row_are_gone() -> None:
    program = shaped(ea.parse(CAUSAL, A=(9, 6)))[0]
    narrow = without_unread_parts(program)
    assert all("where" not in str(scope) for _, scope in narrow.statements)
    assert max(np.prod(scope.shape) for _, scope in narrow.statements) == 9
    _assert_same_values(program, narrow)


SUBSCRIPTS = ("i", "3-i", "2*i", "2*i+1", "7", "i//2", "4*(i%2)", "i+2", "0", "6-2*i", "2")


@st.composite
def programs(draw: st.DrawFn) -> ea.Program:
    """Statements of two axes, of which each reads some places of those before it."""
    lines, known = [], ["A"]
    for number in range(draw(st.integers(2, 5))):
        terms = []
        for _ in range(draw(st.integers(1, 2))):
            name = draw(st.sampled_from(known[-2:]))
            row, column = draw(st.sampled_from(SUBSCRIPTS)), draw(st.sampled_from(SUBSCRIPTS))
            term = f"{name}[{row},{column.replace('i', 'j')}]"
            if draw(st.booleans()):
                term = f"Sum[k:2]({name}[{row},{column.replace('i', 'k')}])"
            terms.append(term)
        # Every statement is as large as the subscripts reach, so that any may read any.
        lines.append(f"T{number}[i:4,j:4] = i + {' + '.join(terms)}")
        lines.append(f"U{number}[i:8,j:8] = T{number}[i//2,j//2]")
        known.append(f"U{number}")
    lines.append(f"O[i:2] = {known[-1]}[{draw(st.sampled_from(SUBSCRIPTS))},3]")
    return ea.Program(ea.parse("\n".join(lines), A=(8, 8)).statements, ("O",))


@given(programs())
def test_values(program: ea.Program) -> None:
    _assert_same_values(program, without_unread_parts(program))


def _assert_same_values(program: ea.Program, narrow: ea.Program) -> None:
    random = np.random.default_rng(0)
    arrays = {}
    for name, tensor in program.inputs.items():
        arrays[name] = random.integers(-3, 3, tensor.shape).astype("f4")
    expected, values = ea.evaluate(program, **arrays), ea.evaluate(narrow, **arrays)
    np.testing.assert_allclose(values, expected, rtol=1e-6)
