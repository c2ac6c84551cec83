"""Moves of models keep what NaN and infinities give; those of mathematics are free."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

import einalg as ea
from derive.programs.passes.normalise import fused, shaped
from derive.rewriting.moves import Move, apply
from derive.rewriting.nonfinite import keeps_nonfinite
from derive.rules import ALL, OF_MODELS
from einalg.errors import RuleError

i = ea.indices("i")
x, y = ea.tensor("A", (4,))[i], ea.tensor("B", (4,))[i]
LOST = {
    "T[i] - A[i]": "A[i] + B[i]",
    "T[i]/A[i]": "A[i]*B[i]",
    "T[i] - 2*A[i]": "3*A[i]",
    "T[i]**2": "sqrt(A[i])",
    "log(T[i])": "exp(A[i])",
    "exp(T[i])": "log(A[i])",
    "T[i]*exp(A[i])": "exp(-A[i])",
    "Piecewise((1, T[i] >= 0), (2, True))": "A[i]**2",
    "Piecewise((1, T[i] > A[i]), (2, True))": "A[i] + 1",
    "Max(A[i], T[i])": "Min(A[i], B[i])",
}
KEPT = {
    "T[i] + A[i]": "A[i] + B[i]",
    "T[i]*A[i]": "A[i]*B[i]",
    "Max(T[i], 0)": "Max(A[i], B[i])",
    "Max(T[i], 0)**2": "2*A[i]",
    "sqrt(T[i])": "A[i]**2",
    "1/T[i]": "1/A[i]",
    "Piecewise((1, isnan(T[i])), (T[i], True))": "exp(A[i])",
    "Piecewise((1, Not(T[i] < 0)), (2, True))": "A[i] - B[i]",
    "Sum[j:3](T[i]*C[j])": "A[i] - B[i]",
}


def fusion(reader: str, producer: str, rules: Any) -> Any:
    program = ea.parse(f"T[i:4] = {producer}\nO[i:4] = {reader}", A=(4,), B=(4,), C=(3,))
    return apply(program, Move("expression fusion", ("O",), {"producer": "T"}), rules)


@pytest.mark.parametrize("reader", LOST)
def test_what_would_lose_nan_stays_apart(reader: str) -> None:
    assert len(fusion(reader, LOST[reader], ALL).statements) == 1
    with pytest.raises(RuleError, match="another number for NaN"):
        fusion(reader, LOST[reader], OF_MODELS)


@pytest.mark.parametrize("reader", KEPT)
def test_what_loses_nothing_is_fused(reader: str) -> None:
    assert fusion(reader, KEPT[reader], OF_MODELS) == fusion(reader, KEPT[reader], ALL)


@pytest.mark.parametrize("reader", LOST)
def test_programs_of_models_are_fused_without_loss(reader: str) -> None:
    text = f"T[i:4] = {LOST[reader]}\nO[i:4] = {reader}"
    program = ea.parse(text, A=(4,), B=(4,))
    assert len(shaped(program)[0].statements) == 2
    kept = ea.parse("T[i:4] = A[i]*B[i]\nO[i:4] = T[i] + 1", A=(4,), B=(4,))
    assert len(fused(kept)[0].statements) == 1


@pytest.mark.parametrize(
    ("function", "operands", "result", "keeps"),
    [
        (sympy.Add, (x, x), 2 * x, True),
        (sympy.Add, (x, -x), sympy.S.Zero, False),
        (sympy.Mul, (sympy.S.Zero, x), sympy.S.Zero, False),
        (sympy.Mul, (x, 1 / x), sympy.S.One, False),
        (sympy.Mul, (sympy.exp(x), sympy.exp(y)), sympy.exp(x + y), False),
        (sympy.Max, (x, sympy.S.Infinity), sympy.S.Infinity, False),
        (sympy.Max, (x, -sympy.S.Infinity), x, True),
        (sympy.StrictLessThan, (x, x), sympy.false, True),
        (sympy.LessThan, (x, x), sympy.true, False),
        (sympy.Pow, (x, sympy.S.Zero), sympy.S.One, True),
    ],
)
def test_evaluations(function: Any, operands: Any, result: Any, keeps: bool) -> None:
    assert keeps_nonfinite(function, operands, result) == keeps


def test_whole_numbers_are_neither_nan_nor_infinite() -> None:
    n = ea.tensor("N", (4,), "i32")[i]
    assert keeps_nonfinite(sympy.Add, (n, -n), sympy.S.Zero)
    assert keeps_nonfinite(sympy.LessThan, (n, n), sympy.true)
