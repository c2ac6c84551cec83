"""Long sums in several registers have the values of one register."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.lowering.lower import lower
from codegen.lowering.partial_sums import with_partial_sums
from tests.helpers.batches import batches
from tests.helpers.kernels import check_statements

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
            st.sampled_from(TERMS),
            st.integers(1, 1100),
            st.integers(0, 9),
            st.sampled_from(["f32", "f64"]),
        ),
        min_size=10,
        max_size=10,
    )
)
def test_values(drawn: list[tuple[str, int, int, str]]) -> None:
    cases = []
    for term, length, low, dtype in drawn:
        shapes = {"A": (ROWS, low + length), "b": (ROWS,), "c": (low + length,)}
        cases.append((f"O[i:{ROWS}] = Sum[k:{low}:{low + length}]({term})", shapes, dtype))
    check_statements(cases, lambda name, scope: with_partial_sums(lower(name, scope)))


def test_what_is_no_long_simple_sum_stays() -> None:
    for text, shape in (
        ("O[i] += exp(A[i,k])", (4, 1000)),  # for which an addition waits
        ("O[i] += A[i,k]", (4, 60)),
        ("O[i] = Max[k](A[i,k])", (4, 1000)),
        ("O[i] += A[k,i]", (1000, 64)),  # sums side by side
    ):
        function = lower("O", ea.parse(text, A=shape))
        assert with_partial_sums(function) == function
