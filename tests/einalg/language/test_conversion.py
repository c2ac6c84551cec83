"""Numbers as numbers of another element type: read, printed, computed and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.rules.inter.lifting_nesting import nest
from einalg.language.conversion import HALVES, converted, rounded
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program, in_double
from tests.helpers.batches import examples
from tests.helpers.kernels import run_programs

TEXTS = [
    "O[i] = {0}(A[i]*A[i])*f32(A[i])",
    "O[i] = {0}(A[i]/3) + A[i]",
    "O[i] = f32({0}(exp(A[i]))*2)",
    "O[i] = {0}({0}(A[i] + 0.3)*{0}(A[i] - 0.3))",
    "O[()] = {0}(Sum[i](f32(A[i])**2)/37)",
]


def halves(dtype: str, values: Any) -> Any:
    """Numbers of a type of 16 bits, as f32."""
    return np.asarray(rounded(np.asarray(values, np.float32), dtype))


@given(st.floats(width=32), st.sampled_from(HALVES))
def test_rounding_is_to_the_nearest_and_to_even(value: float, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    expected = torch.tensor(value, dtype=torch.float32).to(kind).float().numpy()
    np.testing.assert_array_equal(rounded(np.float32(value), dtype), expected)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("text", TEXTS)
def test_text_that_is_printed_reads_back(text: str, dtype: str) -> None:
    A = ea.tensor("A", (37,), dtype)
    scope = ea.parse(text.format(dtype), A=A)
    again = ea.parse(f"O = {scope}".replace("O = L", "L"), A=A)
    assert again == scope and again.dtype == scope.dtype


def test_types() -> None:
    A = ea.tensor("A", (3,))
    assert ea.parse("O[i] = f16(A[i])", A=A).dtype == "f16"
    assert ea.parse("O[i] = bf16(A[i]) + 1", A=A).dtype == "bf16"
    assert ea.parse("O[i] = bf16(A[i])*A[i]", A=A).dtype == "f32"
    assert converted(sympy.Rational(1, 3), "f16") == sympy.Rational(1365, 4096)
    assert converted(sympy.Integer(70_000), "f16") == sympy.oo


@pytest.mark.parametrize("dtype", HALVES)
def test_generated_code_and_numpy_round_where_it_is_written(dtype: str) -> None:
    values = halves(dtype, np.random.default_rng(0).normal(0, 2, 37))
    values[:3] = halves(dtype, [300, -300, 65000])
    programs = [
        as_program(ea.parse(text.format(dtype), A=ea.tensor("A", (37,), dtype))) for text in TEXTS
    ]
    results = run_programs(programs, [{"A": values}] * len(programs))
    for program, result in zip(programs, results):
        expected = execute(program, {"A": values})["O"]
        np.testing.assert_allclose(result["O"], expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_statements_are_stored_as_numbers_of_their_type(dtype: str) -> None:
    """Of bf16 too, which is held as f32."""
    values = halves(dtype, np.random.default_rng(0).normal(0, 2, 67))
    program = as_program(ea.parse("O[i] = A[i]*3.1", A=ea.tensor("A", (67,), dtype)))
    (result,) = run_programs([program], [{"A": values}])
    expected = halves(dtype, values * np.float32(3.1))
    np.testing.assert_array_equal(result["O"], expected)
    np.testing.assert_array_equal(execute(program, {"A": values})["O"], expected)


@settings(max_examples=examples(8, at_night=150))
@given(
    st.sampled_from(["A[i,k]*B[k,j]", "A[i,k]*A[j,k]", "A[i,k]*B[k,j] + A[i,k]"]),
    st.integers(1, 40),
    st.integers(1, 40),
)
def test_products_are_stored_as_numbers_of_their_type(body: str, rows: int, depth: int) -> None:
    A, B = ea.tensor("A", (rows, depth), "bf16"), ea.tensor("B", (depth, rows), "bf16")
    tensors = {"A": A}
    if "B" in body:
        tensors["B"] = B
    random = np.random.default_rng(0)
    arrays = {name: halves("bf16", random.normal(size=t.shape)) for name, t in tensors.items()}
    program = as_program(ea.parse(f"O[i:{rows},j:{rows}] = Sum[k]({body})", **tensors))
    (result,) = run_programs([program], [arrays])
    np.testing.assert_array_equal(result["O"], rounded(result["O"], "bf16"))


@pytest.mark.parametrize("dtype", HALVES)
def test_a_statement_that_is_read_in_place_is_rounded(dtype: str) -> None:
    """What is chosen among elements needs no rounding, and a proof leaves it out."""
    A = ea.tensor("A", (5,), dtype)
    program = ea.parse("T[i] = A[i]*A[i]\nO[i] = T[i]*f32(A[i])", A=A)
    nested = nest(program, ("O",), "T")
    assert f"{dtype}(A[i]**2)" in str(nested)
    assert ea.prove(program, nested).verdict == "proved"
    plain = ea.parse("T[i] = Max(A[i], 0)\nO[i] = 2*T[i]", A=A)
    assert dtype not in str(nest(plain, ("O",), "T"))


def test_the_reference_in_double_rounds_where_statements_do() -> None:
    A = ea.tensor("A", (1,), "f16")
    program = ea.parse("T[i] = A[i]*A[i]\nO[i] = f32(T[i])", A=A)
    assert execute(in_double(program), {"A": np.array([300.0])})["O"] == np.inf
