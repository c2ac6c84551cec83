"""Rows to which several steps of a reduction are added at once have the values of one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.ir.nodes import For, walk
from codegen.lowering.lower import lower
from codegen.lowering.rows_together import FEWER_STEPS, STEPS, with_rows_together
from codegen.lowering.schedule import Schedule
from tests.helpers.batches import batches
from tests.helpers.kernels import check_statements

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
            st.sampled_from(["f32", "f64"]),
        ),
        min_size=12,
        max_size=12,
    )
)
def test_values(drawn: list[tuple[str, int, int, int, str]]) -> None:
    cases = []
    for term, steps, low, width, dtype in drawn:
        shapes = {"A": (low + steps, width), "x": (low + steps,), "y": (width,)}
        cases.append((f"O[n:{width}] = Sum[k:{low}:{low + steps}]({term})", shapes, dtype))
    check_statements(
        cases, lambda name, scope: with_rows_together(lower(name, scope, schedule=LONG_ROWS))
    )


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


@pytest.mark.parametrize(
    ("width", "steps"), [(1024, FEWER_STEPS), (3072, FEWER_STEPS), (1000, STEPS), (512, STEPS)]
)
def test_fewer_rows_where_they_have_the_same_places_in_a_cache(width: int, steps: int) -> None:
    """Rows that are a multiple of a way of the cache apart displace one another."""
    scope = ea.parse("O[n] += A[k,n]*x[k]", A=(2 * STEPS, width), x=(2 * STEPS,))
    function = with_rows_together(lower("O", scope, schedule=replace(LONG_ROWS, row=width)))
    rows = [node for node in walk(function) if isinstance(node, For) and len(node.body) > 1]
    assert [len(row.body) for row in rows if row.kind == "vec"] == [steps]
