"""Text that Python cannot read is told with the line as it is meant, which can be read."""

from __future__ import annotations

import ast
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.language.notation.source import MAX_REPAIRED, repaired

SHAPES = {"A": (8, 6), "B": (6, 5), "M": (8, 6), "x": (6,)}
MISSPELT = [
    ("O[i,j] = A[i,j", "O[i,j] = A[i,j]"),
    ("O[i,j] += A[i,k]*B[k,j", "O[i,j] += A[i,k]*B[k,j]"),
    ("O[i] = Sum[j:6](A[i,j]", "O[i] = Sum[j:6](A[i,j])"),
    ("O[i] = Sum[j:6](A[i,j)", "O[i] = Sum[j:6](A[i,j])"),
    ("O[i,j] = A[i,j])", "O[i,j] = A[i,j]"),
    ("O[i j] = A[i,j]", "O[i,j] = A[i,j]"),
    ("O[i,j] = A[i j]", "O[i,j] = A[i,j]"),
    ("O[i,j] = A[i,j] M[i,j]", "O[i,j] = A[i,j]*M[i,j]"),
    ("O[i,j] = 2A[i,j]", "O[i,j] = 2*A[i,j]"),
    ("O[i,j] = 2.5 A[i,j]", "O[i,j] = 2.5*A[i,j]"),
    ("O[i:3] = x[2i]", "O[i:3] = x[2*i]"),
    ("O(i,j) = A[i,j]", "O[i,j] = A[i,j]"),
    ("O(i) += A[i,j]", "O[i] += A[i,j]"),
    ("O[i,j] := A[i,j]", "O[i,j] = A[i,j]"),
    ("O[i,j] <- A[i,j]", "O[i,j] = A[i,j]"),
    ("O[i,j] -> A[i,j]", "O[i,j] = A[i,j]"),
    ("O[i,j] == A[i,j]", "O[i,j] = A[i,j]"),
    ("let O[i,j] = A[i,j]", "O[i,j] = A[i,j]"),
    ("O[i,j] = A{i,j}", "O[i,j] = A[i,j]"),
    ("O[i,j] = exp A[i,j]", "O[i,j] = exp(A[i,j])"),
    ("O[i] = Sum[j=0:6](A[i,j])", "O[i] = Sum[j:0:6](A[i,j])"),
    ("O[i,j] += A[i,k] × B[k,j]", "O[i,j] += A[i,k] * B[k,j]"),
    ("O[i,j] += A[i,k]·B[k,j]", "O[i,j] += A[i,k]*B[k,j]"),
    ("O[i,j] = A[i,j]² − 1", "O[i,j] = A[i,j]**2 - 1"),
    ("O[i] = ∑[j](A[i,j])", "O[i] = Sum[j](A[i,j])"),
    ("O[i,j] = A[i,j] > 0 ? A[i,j] : 0", "O[i,j] = Piecewise((A[i,j], A[i,j] > 0), (0, True))"),
    ("O[i,j] = if i > j then A[i,j] else 0", "O[i,j] = Piecewise((A[i,j], i > j), (0, True))"),
]


@pytest.mark.parametrize("text, meant", MISSPELT)
def test_the_line_as_it_is_meant(text: str, meant: str) -> None:
    with pytest.raises(ea.NotationError) as caught:
        ea.parse(text, **SHAPES)
    assert caught.value.placed and caught.value.message.endswith(f"\n  write {meant}")
    ea.parse(meant, **SHAPES)


def test_one_line_of_several() -> None:
    with pytest.raises(ea.NotationError, match=r"\n  write T\[i\] = x\[i\]$"):
        ea.parse("T[i] = x[i\nO[i] = 2*T[i]", **SHAPES)


def test_nothing_is_made_up_where_nothing_helps() -> None:
    with pytest.raises(ea.NotationError, match="check the brackets and the signs"):
        ea.parse("O[i] = @ @ @", **SHAPES)
    assert repaired("O[i] = " + "(" * MAX_REPAIRED, 0) is None


@given(st.text("AOijk[](){},=+-*/ 0123<>?:×²", max_size=60), st.integers(0, 60))
def test_what_is_written_can_be_read(line: str, column: int) -> None:
    written = repaired(line, column)
    if written is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, about calls of numbers
            ast.parse(written)


OTHERS = [
    ("O[i,j] += a[i,k]*B[k,j]", r"write A, or give its shape: parse\(..., a=\(8, 6\)\)"),
    ("O[i,j] = A[i/2,j]", "write i//2"),
    ("O[i,j] = A[int(i/2),j]", "write i // 2"),
    ("O[i] = Sum_j(A[i,j])", r"write Sum\[j\]\(A\[i, j\]\)"),
    ("O[i] = Sum(A[i,j], j)", r"write Sum\[j\]\(A\[i, j\]\)"),
    ("O[i] = Sum[j in range(6)](A[i,j])", "write j:6"),
    ("O[i,j] = A[i,j].pad(1)", r"write A.pad\(1, 1\)\[i, j\]"),
    ("O[i,j] = A.pad(1, 1, value=0)[i,j]", "write fill=0"),
    ("O[i] = Max[j](A[i,j], axis=1)", r"leave it out: Max\[j\]\(A\[i, j\]\)"),
    ("O[i,j] = A[i,j],", r"write A\[i, j\]"),
    ("O[i,j] = A[[i,j]]", r"write A\[i, j\]"),
    ('O[i,j] = A["i",j]', "write it without quotes: i"),
    ("O = A", r"give it its subscripts: O\[i, j\] = A\[i, j\]"),
    ("O[i,j] = A[i,j]*np.pi", "write pi"),
    ('O[i,j] = Min(A[i,j], float("inf"))', "write inf"),
]


@pytest.mark.parametrize("text, remedy", OTHERS)
def test_habits_of_other_languages(text: str, remedy: str) -> None:
    with pytest.raises(ea.NotationError, match=f"\n  {remedy}$") as caught:
        ea.parse(text, **SHAPES)
    assert re.search(r"\^", caught.value.message)
