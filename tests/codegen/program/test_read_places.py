"""What nothing reads of a statement is not computed: causal attention, sums of a band, and others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.problem import BuildProblem
from codegen.program.compile import compile_program
from codegen.targets.c.compiler import find_compiler
from derive.matching import kernels_of
from einalg.language.ir.program import Program

TRIANGLE, BAND = "j <= i", "(j <= i) & (j >= i - 4)"
PRODUCT = "S[b,i,j] = Sum[d](Q[b,i,d]*K[b,j,d])\n"
SCALED = "T[b,i,j] = S[b,i,j]/8\n"
TEXTS = {
    "attention": PRODUCT
    + SCALED
    + """M[b,i:{n}] = Max[j:{n}](T[b,i,j], where={where})
        E = L[b:{b},i:{n},j:{n}](exp(T[b,i,j] - M[b,i]), where={where})
        Z[b,i:{n}] = Sum[j:{n}](E[b,i,j], where={where})
        O[b,i:{n},d] = Sum[j:{n}](E[b,i,j]*V[b,j,d], where={where})/Z[b,i]""",
    "one kernel": PRODUCT + "O[b,i:{n}] = Sum[j:{n}](S[b,i,j], where={where})",
    "two readers": PRODUCT
    + """M[b,i:{n}] = Max[j:{n}](S[b,i,j], where={where})
        O[b,i:{n}] = Sum[j:{n}](S[b,i,j]*M[b,i], where=({where}) & (j >= 1))""",
    "two conditions": PRODUCT
    + """M[b,i:{n}] = Max[j:{n}](S[b,i,j], where={where})
        O[b,i:{n}] = M[b,i] + Sum[j:{n}](S[b,i,j], where=j >= i)""",
    "a chain": PRODUCT
    + """T[b,i,j] = 2*S[b,i,j] + 1
        U[b,j,i] = Max(T[b,i,j], 0)
        O[b,i:{n}] = Sum[j:{n}](U[b,j,i], where={where})""",
    "the product itself": PRODUCT
    + SCALED
    + "O[b,i:{n},j] = S[b,i,j] + Sum[k:{n}](T[b,i,k], where=k <= i)",
    "shifted": PRODUCT
    + """M[b,i:{m}] = Max[j:{m}](S[b,i+1,j], where={where})
        O[b,j:{m}] = Sum[i:{m}](S[b,i+1,j]*M[b,j], where={where})""",
    "padded": PRODUCT + "O[b,i:{n}] = Sum[j:{n}](S.pad(0,1,0)[b,i-1,j], where={where})",
    "columns": PRODUCT
    + """M[b,j:{n}] = Max[i:{n}](S[b,i,j], where={where})
        O[b,i:{n}] = Sum[j:{n}](S[b,i,j]*M[b,j], where={where})""",
}
NARROWED = {
    "attention": {"T", "E"},
    "one kernel": set(),
    "two readers": set(),
    "two conditions": set(),
    "a chain": {"T", "U"},
    "the product itself": {"T"},
    "shifted": {"S"},
    "padded": set(),
    "columns": {"S"},
}


def program(name: str, n: int, where: str, b: int = 2, d: int = 8) -> Program:
    text = TEXTS[name].format(n=n, m=n - 1, b=b, where=where)
    shapes = {tensor: (b, n, d) for tensor in "QKV" if f"{tensor}[" in text}
    return ea.parse(text, **shapes)


def problem_of(program: Program) -> BuildProblem:
    compiler = find_compiler()
    assert compiler is not None
    return BuildProblem.of(program, kernels_of(program), compiler, DEFAULT, 60.0)


def arrays_of(program: Program, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal(tensor.shape).astype(np.float32)
        for name, tensor in program.inputs.items()
    }


@pytest.mark.parametrize("name", TEXTS)
def test_values_are_computed_where_they_are_read(name: str) -> None:
    problem = problem_of(program(name, 40, TRIANGLE))
    assert {each for each, scope in problem.program.statements if scope.where} == NARROWED[name]
    assert problem.unread_gaps == NARROWED[name]


@given(
    st.sampled_from(sorted(TEXTS)),
    st.sampled_from((2, 17, 40, 65)),
    st.sampled_from((TRIANGLE, BAND, "j >= i", "2*j <= i", "Eq(i, j)", "i + j >= 20")),
    st.sampled_from((1, 3)),
    st.sampled_from((1, 8, 31)),
    st.integers(0, 1 << 30),
)
def test_programs_equal_the_reference(
    name: str, n: int, where: str, b: int, d: int, seed: int
) -> None:
    expression = program(name, n, where, b, d)
    arrays = arrays_of(expression, seed)
    expected = ea.evaluate(expression, **arrays)
    result = compile_program(expression, kernels_of(expression))(**arrays)
    np.testing.assert_allclose(result, expected, 1e-4, 1e-4, equal_nan=True)


def test_what_is_not_read_may_be_anything() -> None:
    """Elements that are multiplied for nobody may be NaN."""
    expression = program("attention", 70, TRIANGLE, d=16)
    arrays = arrays_of(expression, 1)
    arrays["K"][:, 60:], arrays["V"][:, 60:] = np.nan, np.inf
    expected = ea.evaluate(expression, **arrays)
    assert np.isfinite(expected[:, :60]).all() and np.isnan(expected[:, 60:]).all()
    result = compile_program(expression, kernels_of(expression))(**arrays)
    np.testing.assert_allclose(result, expected, 1e-4, 1e-4, equal_nan=True)
