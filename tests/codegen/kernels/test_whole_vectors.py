"""Rows of expensive functions that fill no vector: the same values, in vectors that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Alloc, For, Function, Store, walk
from codegen.kernels.expensive_values.rewriting import with_cheaper_values
from codegen.kernels.expensive_values.stored_values import with_stored_values
from codegen.kernels.expensive_values.whole_vectors import with_whole_vectors
from codegen.lowering.lower import lower
from einalg.language.ir.program import as_program
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK
from tests.helpers.kernels import check, evaluated, run_functions

MACHINE = CpuModel(64, 32)
SOFTMAX = "O[i,j] = exp(A[i,j]-Max[s](A[i,s]))/Sum[r](exp(A[i,r]-Max[s](A[i,s])))"
ACROSS = "O[i,j] = exp(A[i,j])/Sum[r](exp(A[r,j]))"
SUM = "O[i] = log(Sum[r](exp(A[i,r])))"
PRODUCT = "O[i] = Prod[r](tanh(A[i,r]))"
MAP = "O[i,j] = tanh(A[i,j]*A[i,0])"
PARTS = "O[i,j] = Sum[r](exp(A[i,r]))*A[i,j] + Sum[r](exp(A[i,r])*r)"
TEXTS = (SOFTMAX, ACROSS, SUM, PRODUCT, MAP, PARTS)


def loops(text: str, size: int, rows: int = 5, dtype: str = "f32") -> Function:
    return lower("O", ea.parse(text, A=ea.tensor("A", (rows, size), dtype)))


def vector_loops(function: Function) -> list[For]:
    """The loops over a row, in their order."""
    return [node for node in walk(function) if isinstance(node, For) and node.kind == "vec"]


def all_loops(function: Function) -> list[For]:
    return [node for node in walk(function) if isinstance(node, For)]


@settings(max_examples=batches(2), phases=UNSHRUNK)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(TEXTS),
            st.integers(1, 70),
            st.integers(1, 20),
            st.sampled_from(("f32", "f64")),
            st.sampled_from((MACHINE, CpuModel(32, 16), CpuModel(64, 32, turns=2))),
        ),
        min_size=6,
        max_size=10,
    )
)
def test_values(cases: list[tuple[str, int, int, str, CpuModel]]) -> None:
    rng = np.random.default_rng(3)
    functions, arrays, programs = [], [], []
    for text, size, rows, dtype, machine in cases:
        tensor = ea.tensor("A", (rows, size), dtype)
        functions.append(with_cheaper_values(loops(text, size, rows, dtype), machine))
        kind = {"f32": np.float32, "f64": np.float64}[dtype]
        arrays.append({"A": rng.uniform(-2, 2, (rows, size)).astype(kind)})
        programs.append(as_program(ea.parse(text, A=tensor)))
    for program, given_arrays, values in zip(programs, arrays, run_functions(functions, arrays)):
        check(program, evaluated(program, given_arrays), {program.outputs[0]: values})


@pytest.mark.parametrize(
    ("size", "ranges"),
    [(31, [(0, 16), (15, 31)]), (12, [(0, 8), (4, 12)]), (24, [(0, 16), (8, 24)]), (32, [(0, 32)])],
)
def test_the_last_vector_begins_earlier(size: int, ranges: list[Any]) -> None:
    function = with_whole_vectors(loops(MAP, size), MACHINE)
    assert [loop.range for loop in vector_loops(function)] == ranges


def test_a_sum_adds_what_is_left() -> None:
    """Of the last vector, only what no other one has added."""
    function = with_whole_vectors(loops(SUM, 31), MACHINE)
    assert [loop.range for loop in vector_loops(function)] == [(0, 16), (15, 31), (16, 31)]
    (row,) = [node.buf.shape for node in walk(function) if isinstance(node, Alloc)][-1:]
    assert row == (16,)


@pytest.mark.parametrize("size", [5, 7, 12, 15])
def test_a_short_softmax_has_one_exponential(size: int) -> None:
    """Its sum is no chain of calls, so that its loop stores what it computes."""
    function = with_stored_values(loops(SOFTMAX, size), MACHINE)
    stores = [node for node in walk(function) if isinstance(node, Store)]
    assert sum("exp" in repr(store.value) for store in stores) == 1


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_very_short_softmax_is_written_out(size: int) -> None:
    """Its rows are computed side by side."""
    assert all(loop.extent == 500 for loop in all_loops(loops(SOFTMAX, size, 500)))


def test_loops_without_functions_stay_as_they_are() -> None:
    function = loops("O[i,j] = A[i,j]/A[i,0] + Sum[r](A[i,r])", 31)
    assert with_whole_vectors(function, MACHINE) is function
    apart = loops("O[i,j] = exp(A[j,i])", 31, 31)
    ranges = [loop.range for loop in vector_loops(with_whole_vectors(apart, MACHINE))]
    assert ranges == [loop.range for loop in vector_loops(apart)]
