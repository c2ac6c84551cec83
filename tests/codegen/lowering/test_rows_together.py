"""Rows to which several steps of a reduction are added at once have the values of one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.lowering.lower import lower
from codegen.lowering.rows_together import STEPS, with_rows_together
from codegen.lowering.schedule import Schedule
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program
from tests.helpers.batches import batches
from tests.helpers.kernels import check, run_functions, spread_compiler

LONG_ROWS = Schedule(row=1000, unroll=1)
TERMS = (
    "A[k,n]",
    "A[k,n]*x[k]",
    "(A[k,n] - x[k])**2",
    "A[k,n]*x[k] + y[n]",
    "Piecewise((A[k,n], k<=n), (0, True))",
    "exp(A[k,n])",
)


@settings(max_examples=batches(1), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(TERMS),
            st.integers(1, 40),
            st.integers(0, 5),
            st.integers(1, 300),
            st.sampled_from("fd"),
        ),
        min_size=12,
        max_size=12,
    )
)
def test_values(cases: list[tuple[str, int, int, int, str]]) -> None:
    programs, functions, arrays = [], [], []
    random = np.random.default_rng(0)
    for term, steps, low, width, kind in cases:
        shapes = {"A": (low + steps, width), "x": (low + steps,), "y": (width,)}
        dtype = {"f": "f32", "d": "f64"}[kind]
        tensors = {name: ea.tensor(name, shape, dtype) for name, shape in shapes.items()}
        text = f"O[n:{width}] = Sum[k:{low}:{low + steps}]({term})"
        programs.append(as_program(ea.parse(text, **tensors)))
        ((name, scope),) = programs[-1].statements
        functions.append(with_rows_together(lower(name, scope, schedule=LONG_ROWS)))
        values = {name: random.uniform(-1, 1, shape) for name, shape in shapes.items()}
        arrays.append({name: array.astype(kind) for name, array in values.items()})
    results = run_functions(functions, arrays, cc=spread_compiler)
    for program, values, result in zip(programs, arrays, results):
        read = {name: values[name] for name in program.tensors}
        check(program, execute(program, read), {"O": result})


@pytest.mark.parametrize("steps", [2, STEPS, 3 * STEPS, 3 * STEPS + 1])
def test_rows_are_gone_through_once_for_several_steps(steps: int) -> None:
    function = lower(
        "O", ea.parse("O[n] += A[k,n]*x[k]", A=(steps, 200), x=(steps,)), schedule=LONG_ROWS
    )
    together = with_rows_together(function)
    assert together != function
    assert with_rows_together(together) == together


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("O[n] += exp(A[k,n])", (40, 500)),  # which takes longer than the row
        ("O[n] += A[k,n]", (40, 8)),  # in registers
        ("O[n] += A[n,k]", (500, 40)),  # one output after the other
        ("O[n] = Sum[k:40](A[k,n], where=k<=n)", (40, 500)),  # rows that depend on the step
    ],
)
def test_other_sums_stay(text: str, shape: tuple[int, int]) -> None:
    function = lower("O", ea.parse(text, A=shape), schedule=LONG_ROWS)
    assert with_rows_together(function) == function
