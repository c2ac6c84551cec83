"""Tests for NaN and infinities in bodies, extremes that keep NaN, and remainders: the same in both
evaluators, in the text, and in what is compiled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from einalg.language.conditions import disjunction, isfinite, isinf, isnan, negation
from einalg.language.index.remainder import Mod, Quotient
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program

NAN, INF = math.nan, math.inf
SPECIAL = np.array([1.0, NAN, INF, -INF, -2.0, 0.0, 0.5, 1e30, 1e-30], np.float32)
A, i = ea.tensor("A", SPECIAL.shape), ea.indices("i")
TEXTS = {
    "isnan(A[i])": np.isnan,
    "~isnan(A[i])": lambda x: ~np.isnan(x),
    "isinf(A[i])": np.isinf,
    "isfinite(2*A[i])": lambda x: np.isfinite(2 * x.astype(float)),
    "Piecewise((0, isnan(A[i])), (A[i], True))": lambda x: np.where(np.isnan(x), 0, x),
    "Piecewise((1, Not(A[i] < 0)), (0, True))": lambda x: 1 - (x < 0),
    "Piecewise((1, A[i] < 0), (2, A[i] >= 0), (3, True))": (
        lambda x: np.where(x < 0, 1, np.where(x >= 0, 2, 3))
    ),
    "Piecewise((1, isnan(A[i]) | (A[i] > 0)), (0, True))": lambda x: np.isnan(x) | (x > 0),
    "Piecewise((1, (A[i] < 0) | (A[i] >= 0)), (0, True))": lambda x: (x < 0) | (x >= 0),
    "Max(A[i], 0)": lambda x: np.maximum(x, 0),
    "Min(A[i], Max(A[i], -1))": lambda x: np.minimum(x, np.maximum(x, -1)),
    "floor(A[i])": np.floor,
    "sign(A[i])": lambda x: np.where(np.isnan(x), 0, np.sign(x)),
    "Mod(A[i], 3)": lambda x: np.mod(x, np.float32(3)),
    "Quotient(A[i], 0.25)": lambda x: np.floor_divide(x, np.float32(0.25)),
    "A[i]*Piecewise((1, A[i] > 0), (0, True))": lambda x: x * (x > 0),
}


def alike(found: Any, expected: Any) -> bool:
    return bool(np.allclose(found, np.asarray(expected, float), rtol=1e-6, equal_nan=True))


@pytest.mark.parametrize("text", TEXTS)
def test_values_and_text(text: str) -> None:
    scope = ea.parse(f"O[i] = {text}", A=SPECIAL.shape)
    assert ea.parse(str(scope), A=SPECIAL.shape) == scope
    with np.errstate(all="ignore"):
        expected = TEXTS[text](SPECIAL)
        assert alike(ea.evaluate(scope, A=SPECIAL), expected)
        assert alike(execute(as_program(scope), {"A": SPECIAL})["O"], expected)


def test_no_condition_is_true_of_real_numbers_alone() -> None:
    x = A[i]
    assert isnan(x) != sympy.false and isfinite(sympy.exp(x)) != sympy.true
    assert isinf(x**2 + 1) not in (sympy.true, sympy.false)
    assert negation(x < 0) != (x >= 0) and negation(negation(x < 0)) == (x < 0)
    assert disjunction(x < 0, x >= 0) != sympy.true
    assert negation(i < 2) == (i >= 2)  # of whole numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Xor(Eq(i,j), Ne(j,i), Eq(j,i))", lambda i, j: i != j),
        ("Xor(Ne(i,j), Eq(j,i), Ne(j,i), i<2)", lambda i, j: (i == j) != (i < 2)),
        ("Xor(i<j, j>i, i>=j)", lambda i, j: i >= j),
        ("Xor(i<2, Xor(2>i, j<1))", lambda i, j: j < 1),
    ],
)
def test_alternatives_that_stand_twice_cancel(text: str, value: Any) -> None:
    scope = ea.parse(f"O[i:4, j:5] = Piecewise((1, {text}), (0, True))")
    expected = [[int(value(i, j)) for j in range(5)] for i in range(4)]
    assert ea.evaluate(scope).tolist() == expected


def test_numbers_are_tested_where_they_are_written() -> None:
    assert [isnan(v) for v in (sympy.nan, sympy.oo, sympy.pi)] == [True, False, False]
    assert [isinf(v) for v in (sympy.nan, -sympy.oo, sympy.pi)] == [False, True, False]
    assert [isfinite(v) for v in (sympy.nan, -sympy.oo, sympy.pi)] == [False, False, True]
    assert Quotient(7, -2) == -4 and Mod(7, -2) == -1
    with pytest.raises(ZeroDivisionError):
        Quotient(A[i], 0)


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("size", [1, 2, 7, 16, 17, 33])
def test_extremes_keep_nan_wherever_it_is(op: str, size: int) -> None:
    scope = ea.parse(f"O[i] = {op}[j](B[i, j])", B=(size, size))
    rows = np.arange(size * size, dtype=np.float32).reshape(size, size)
    rows[np.arange(size), np.arange(size)] = NAN
    assert np.isnan(ea.evaluate(scope, B=rows)).all()
    assert np.isnan(execute(as_program(scope), {"B": rows})["O"]).all()


NUMBERS = st.one_of(
    st.sampled_from([NAN, INF, -INF, 0.0, -0.0, 1e30, -1e30, 1e-30]),
    st.floats(-100, 100, width=32),
)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_remainders_and_quotients_are_exact(pairs: list[tuple[float, float]]) -> None:
    """Both evaluators agree with NumPy, whose algorithm the frameworks have too."""
    p, q = (np.array(column) for column in zip(*pairs, strict=True))
    shapes = {"p": p.shape, "q": q.shape}
    with np.errstate(all="ignore"):
        for text, expected in (("Mod", np.mod(p, q)), ("Quotient", np.floor_divide(p, q))):
            scope = ea.parse(f"O[i] = {text}(p[i], q[i])", **shapes)
            exact = np.asarray(ea.evaluate(scope, p=p, q=q), float)
            assert np.allclose(exact, expected, rtol=1e-9, equal_nan=True)
