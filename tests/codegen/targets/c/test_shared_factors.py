"""Sums of products with common factors keep their NaN and infinities."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.program.compile import compile_program
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import as_program
from tests.helpers.kernels import run_programs

SPECIAL = (np.inf, -np.inf, np.nan, 0.0, 1.0, -1.0, 2.0)
TRIPLES = np.array(list(product(SPECIAL, repeat=3)))
SIZE = len(TRIPLES)
BODIES = (
    "x[i]*y[i] + x[i]",
    "x[i]*y[i] - x[i]*z[i]",
    "x[i]**2 + x[i]",
    "x[i]**3 - 2*x[i]**2 + x[i]/2 - z[i]",
    "Max(x[i]*y[i] - x[i], 0)",
    "x[i]/4 - y[i]/4",
)
FACTORS = ("x[i]", "y[i]", "z[i]", "2", "1/4")


def arrays(program: ea.Program) -> dict[str, Any]:
    columns = dict(zip("xyz", TRIPLES.T))
    return {
        name: columns[name].astype(numpy_dtype(tensor.dtype))
        for name, tensor in program.inputs.items()
    }


def parsed(body: str, dtype: str) -> ea.Program:
    tensors = {name: ea.tensor(name, (SIZE,), dtype) for name in "xyz"}
    return as_program(ea.parse(f"O[i:{SIZE}] = {body}", **tensors))


def check(programs: list[ea.Program]) -> None:
    inputs = [arrays(program) for program in programs]
    for program, values, results in zip(programs, inputs, run_programs(programs, inputs)):
        expected = execute(program, values)["O"]
        np.testing.assert_array_equal(results["O"], expected, err_msg=str(program))


def test_no_nan_is_lost() -> None:
    check([parsed(body, dtype) for body, dtype in product(BODIES, ("f32", "f64"))])


def test_halves_are_not_added_before_they_are_halved() -> None:
    program = as_program(ea.parse("O[i] = x[i]/2 + y[i]/2", x=(5,), y=(5,)))
    large = np.full(5, 3e38, np.float32)
    np.testing.assert_array_equal(compile_program(program)(x=large, y=large), large)


def test_sums_without_common_factors_are_plain() -> None:
    assert "fused" not in compile_program(parsed("x[i]*y[i] + z[i]", "f32")).source()


@pytest.mark.parametrize(
    "body",
    [
        "A[i//2] + A[(i+1)//2]",
        "A[0] - A[i]",
        "exp(A[i//2]) + exp(A[(i+1)//2])",
        "A[i//2]*A[i] + A[i] + A[(i+1)//2]",
    ],
)
def test_terms_that_are_equal_at_a_place(body: str) -> None:
    program = as_program(ea.parse(f"O[i:4] = {body}", A=(8,)))
    values = np.arange(8, dtype=np.float32) / 4
    expected = execute(program, {"A": values})["O"]
    np.testing.assert_allclose(compile_program(program)(A=values), expected, rtol=1e-6)


terms = st.lists(st.sampled_from(FACTORS), min_size=1, max_size=3).map("*".join)
sums = st.lists(st.tuples(st.sampled_from("+-"), terms), min_size=2, max_size=4)


@settings(max_examples=1, phases=[Phase.generate])
@given(st.lists(sums, min_size=12, max_size=12))
def test_random_sums_keep_nan(several: list[Any]) -> None:
    programs = [parsed("".join(map("".join, parts)), "f32") for parts in several]
    programs = [program for program in programs if program.inputs]
    check(programs)
