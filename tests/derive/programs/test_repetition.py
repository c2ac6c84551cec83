"""Windows over repeated elements: sums that read each element once, or as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.matching import kernels_of
from derive.programs.passes.weights.repetition import without_repetitions
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program
from tests.helpers.networks import assert_nearly_same_values, weight

SIDES = (5, 4)


def upsampled(
    times: tuple[int, int], taps: tuple[int, int], before: tuple[int, int], after: tuple[int, int]
) -> Program:
    """Return a convolution of an image whose elements are repeated along its two axes."""
    sizes = [size * count for size, count in zip(SIDES, times)]
    results = [
        size + first + last - window + 1
        for size, first, last, window in zip(sizes, before, after, taps)
    ]
    (height, width), (rows, columns) = sizes, results
    reads = [f"{index}//{count}" for index, count in zip("hw", times)]
    pads = ", ".join(map(str, zip(before, after)))
    at = [f"{out} + {tap} - {first}" for out, tap, first in zip("hw", "rs", before)]
    text = (
        f"U[n, c, h:{height}, w:{width}] = A[n, c, {', '.join(reads)}]\n"
        f"O[n, f, h:{rows}, w:{columns}] = Sum[c, r:{taps[0]}, s:{taps[1]}]"
        f"(U.pad(0, 0, {pads})[n, c, {', '.join(at)}]*W[f, c, r, s])"
    )
    return ea.parse(text, A=(2, 3, *SIDES), W=weight("W", 4, 3, *taps))


PAIRS = st.tuples(st.integers(0, 2), st.integers(0, 2))


@settings(max_examples=20)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    PAIRS,
    PAIRS,
)
def test_no_element_is_read_again(
    times: tuple[int, int], taps: tuple[int, int], before: tuple[int, int], after: tuple[int, int]
) -> None:
    program = upsampled(times, taps, before, after)
    changed = without_repetitions(program)
    if max(times) == 1:
        assert changed is program
        return
    assert_nearly_same_values(program, changed)
    is_read_once = "U" not in changed.names
    for count, window, *amounts in zip(times, taps, before, after):
        if count > 1 and window == 1 and any(amounts):
            assert not is_read_once
            return
    assert is_read_once


def test_it_is_a_transposed_convolution() -> None:
    program = upsampled((2, 2), (3, 3), (1, 1), (1, 1))
    kernels = kernels_of(without_repetitions(program))
    assert [kernel.op for kernel in kernels][1:] == ["conv_transpose2d"]


def test_results_of_single_taps_are_repeated() -> None:
    changed = without_repetitions(upsampled((2, 3), (1, 1), (0, 0), (0, 0)))
    assert [scope.shape for _, scope in changed.statements] == [(2, 4, *SIDES), (2, 4, 10, 12)]


@pytest.mark.parametrize(
    "text",
    [
        "U[c,h:16] = A[c,h//2]\nO[f,h:14] += U[c,h+r]*B[f,c,r]",  # no weights
        "U[c,h:15] = A[c,h//2]\nO[f,h:15] += U.pad(0,1)[c,h+r-1]*W[f,c,r]",  # not all elements
        "U[c,h:16] = A[c,h//2]\nO[f,h:12] += U[c,h+2*r]*W[f,c,r]",  # dilated
        "U[c,h:16] = A[c,h//2]\nO[f,h:7] += U[c,2*h+r]*W[f,c,r]",  # with steps
        "U[c,h:16] = A[c,h//2] + 1\nO[f,h:14] += U[c,h+r]*W[f,c,r]",  # computed
        "U[c,h:12] = A[c,2*h//3]\nO[f,h:10] += U[c,h+r]*W[f,c,r]",  # not evenly
    ],
)
def test_others_stay_as_they_were(text: str) -> None:
    program = ea.parse(text, A=(2, 8), B=(4, 2, 3), W=weight("W", 4, 2, 3))
    assert without_repetitions(program) is program


def test_nothing_is_changed_once_it_is_late() -> None:
    program = upsampled((2, 2), (3, 3), (1, 1), (1, 1))
    assert without_repetitions(program, lambda: True) is program


@pytest.mark.parametrize("dtype", ["i8", "u8", "f16", "bool"])
def test_weights_of_a_shorter_type_are_not_added(dtype: str) -> None:
    """Their sums may not fit into it."""
    W = ea.tensor("W", (4, 2, 3), dtype, role="weight")
    text = "U[c,h:16] = A[c,h//2]\nO[f,h:16] += U.pad(0,1)[c,h+r-1]*W[f,c,r]"
    program = ea.parse(text, A=(2, 8), W=W)
    weights = np.full((4, 2, 3), 1 if dtype == "bool" else 100).astype(numpy_dtype(dtype))
    found = ea.optimize(program, {"A": np.zeros((2, 8), np.float32), "W": weights}, seconds=0)
    ones = np.ones((2, 8), np.float32)
    np.testing.assert_array_equal(found(ones), ea.evaluate(program, A=ones, W=weights))
