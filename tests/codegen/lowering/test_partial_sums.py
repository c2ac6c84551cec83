"""Long sums in several registers have the values of one register."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.ir.nodes import For, walk
from codegen.lowering import partial_sums
from codegen.lowering.lower import lower
from codegen.lowering.partial_sums import STREAMS, with_partial_sums
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
    check(drawn)


@pytest.mark.parametrize("length", [512, 1000, 1099, 2311])
def test_parts_of_long_rows(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that fill no part of the row come after all others."""
    monkeypatch.setattr(partial_sums, "STREAM_BYTES", 64)
    function = with_partial_sums(lower("O", ea.parse("O[i] += A[i,k]", A=(ROWS, length))))
    blocks = [node for node in walk(function) if isinstance(node, For) and len(node.body) > 1]
    assert STREAMS in [len(block.body) for block in blocks]
    check([(term, length, low, dtype) for term in TERMS for low, dtype in ((0, "f32"), (3, "f64"))])


def check(drawn: Sequence[tuple[str, int, int, str]]) -> None:
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
