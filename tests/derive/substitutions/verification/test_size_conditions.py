"""Conditions on sizes of rules of functions, of which no relation tells where they hold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import einalg as ea
from einalg.language.ir.program import Program

MATRIX, TWO = {"A": ("M", "N")}, {"A": ("M", "N"), "B": ("M", "K")}
RULES = {
    "means of parts": (
        "O[i] = (Sum[j](A[i,j])/N + Sum[k](B[i,k])/K)/2",
        "O[i] = (Sum[j](A[i,j]) + Sum[k](B[i,k]))/(N + K)",
        TWO,
        "N = K",
    ),
    "a number in a sum": (
        "O[i] = Sum[j](exp(A[i,j]) + 1)",
        "O[i] = 1 + Sum[j](exp(A[i,j]))",
        MATRIX,
        "N = 1",
    ),
    "a function of a sum": (
        "O[i] = exp(Sum[j](A[i,j]))",
        "O[i] = Sum[j](exp(A[i,j]))",
        MATRIX,
        "N = 1",
    ),
    "an even length": (
        "O[i] = Sum[j](exp(A[i,j]))*(N//2)",
        "O[i] = Sum[j](exp(A[i,j]))*N/2",
        MATRIX,
        "(N) mod 2 = 0",
    ),
    "an odd length": (
        "O[i] = Sum[j](exp(A[i,j]))*(N//2)",
        "O[i] = Sum[j](exp(A[i,j]))*(N - 1)/2",
        MATRIX,
        "(1 + N) mod 2 = 0",
    ),
    "a scale of unknown sign": (
        "O[i] = Max[j](A[i,j]*B[i])",
        "O[i] = Max[j](A[i,j])*B[i]",
        {"A": ("M", "N"), "B": ("M",)},
        "N = 1",
    ),
    "a mean by another size": (
        "O[i] = Sum[j](A[i,j])/N",
        "O[i] = Sum[j](A[i,j])/M",
        MATRIX,
        "N = M",
    ),
    "a square": (
        "O[i] = Sum[j](exp(A[i,j]))*M",
        "O[i] = Sum[j](exp(A[i,j]))*N",
        MATRIX,
        "N = M",
    ),
}


def sides(name: str) -> list[Program]:
    before, after, shapes, _ = RULES[name]
    return [Program([("O", ea.parse(text, **shapes))], ["O"]) for text in (before, after)]


@pytest.mark.parametrize("name", RULES)
def test_the_condition_is_inferred_and_proved(name: str) -> None:
    before, after, shapes, condition = RULES[name]
    verdict = ea.substitutions.verify(ea.substitutions.Rule(name, before, after, **shapes))
    assert (verdict.verdict, verdict.condition_text) == ("proved", condition)
    assert "other sizes" in verdict.coverage and verdict.counterexample
    one, other = sides(name)
    rng = np.random.default_rng(0)
    axes = {letter: range(1, 5) for letter in sorted(one.sizes)}
    met = 0
    for numbers in product(*axes.values()):
        sizes = dict(zip(axes, numbers))
        point = verdict.condition
        for letter, number in sizes.items():
            point = point.intersect(type(point)(f"[{letter}] -> {{ : {letter} = {number} }}"))
        programs = [one.at(**sizes), other.at(**sizes)]
        tensors = {**programs[0].inputs, **programs[1].inputs}
        arrays = {tensor: rng.standard_normal(t.shape) for tensor, t in tensors.items()}
        values = []
        for program in programs:
            values.append(ea.evaluate(program, **{n: arrays[n] for n in program.inputs}))
        if not point.is_empty():
            met += 1
            np.testing.assert_allclose(*values, rtol=1e-12)
        elif sizes == verdict.counterexample:
            assert not np.allclose(*values)
    assert met


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("O[i,j] = exp(A[i,j])", "O[i,j] = exp(A[i,j]) + 1"),
        ("O[i] = Sum[j](exp(A[i,j]))*(N + 3)", "O[i] = Sum[j](exp(A[i,j]))*(2*N + M)"),
    ],
)
def test_what_holds_nowhere_or_where_nobody_looks_is_different(before: str, after: str) -> None:
    verdict = ea.substitutions.verify(ea.substitutions.Rule("rule", before, after, **MATRIX))
    assert (verdict.verdict, verdict.condition) == ("different", None)
