"""Long sums in several registers have the values of one register."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.lowering.lower import lower
from codegen.lowering.partial_sums import with_partial_sums
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program
from tests.helpers.batches import batches
from tests.helpers.kernels import check, run_functions, spread_compiler

TERMS = (
    "A[i,k]",
    "A[i,k]**2",
    "Abs(A[i,k] - b[i])",
    "A[i,k]*c[k]",
    "exp(A[i,k])",
    "Max(A[i,k], 0)",
)
ROWS = 3


@settings(max_examples=batches(1), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(TERMS), st.integers(1, 1100), st.integers(0, 9), st.sampled_from("fd")
        ),
        min_size=10,
        max_size=10,
    )
)
def test_values(cases: list[tuple[str, int, int, str]]) -> None:
    programs, functions, arrays = [], [], []
    random = np.random.default_rng(0)
    for term, length, low, kind in cases:
        shapes = {"A": (ROWS, low + length), "b": (ROWS,), "c": (low + length,)}
        dtype = {"f": "f32", "d": "f64"}[kind]
        tensors = {name: ea.tensor(name, shape, dtype) for name, shape in shapes.items()}
        text = f"O[i:{ROWS}] = Sum[k:{low}:{low + length}]({term})"
        programs.append(as_program(ea.parse(text, **tensors)))
        ((name, scope),) = programs[-1].statements
        functions.append(with_partial_sums(lower(name, scope)))
        values = {name: random.uniform(-1, 1, shape) for name, shape in shapes.items()}
        arrays.append({name: array.astype(kind) for name, array in values.items()})
    results = run_functions(functions, arrays, cc=spread_compiler)
    for program, values, result in zip(programs, arrays, results):
        read = {name: values[name] for name in program.tensors}
        check(program, execute(program, read), {"O": result})


def test_what_is_no_long_simple_sum_stays() -> None:
    for text, shape in (
        ("O[i] += exp(A[i,k])", (4, 1000)),  # for which an addition waits
        ("O[i] += A[i,k]", (4, 200)),
        ("O[i] = Max[k](A[i,k])", (4, 1000)),
        ("O[i] += A[k,i]", (1000, 64)),  # sums side by side
    ):
        function = lower("O", ea.parse(text, A=shape))
        assert with_partial_sums(function) == function
