"""Quotients by sums as products: the same values, also where a sum is no normal number."""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from codegen.ir.nodes import If, walk
from codegen.kernels.expensive_values.sum_quotients import with_sum_reciprocals
from codegen.lowering.lower import lower
from tests.helpers.kernels import compiler, run_functions

ROW = 128
SUMS = {  # of a row, with its first elements
    "f32": (3.0, -7.5, 1e-39, -1e-44, 0.0, 3e38, np.inf, -np.inf, np.nan),
    "f64": (3.0, -7.5, 1e-309, -5e-324, 0.0, 1.7e308, np.inf, -np.inf, np.nan),
}


@pytest.mark.parametrize("dtype", SUMS)
def test_values(dtype: str) -> None:
    sums = SUMS[dtype]
    A, B = ea.tensor("A", (len(sums), ROW), dtype), ea.tensor("B", (len(sums), ROW), dtype)
    scope = ea.parse("O[i,j] = B[i,j]/Sum[r](A[i,r])", A=A, B=B)
    kind = np.dtype({"f32": "f", "f64": "d"}[dtype])
    divisors = np.zeros((len(sums), ROW), kind)
    divisors[:, 0] = sums
    values = np.linspace(-4, 4, len(sums) * ROW).reshape(len(sums), ROW).astype(kind)
    values[:, :5] = 0, np.inf, -np.inf, np.nan, np.finfo(kind).tiny
    function = with_sum_reciprocals(lower("O", scope))
    assert any(isinstance(node, If) for node in walk(function))
    (found,) = run_functions([function], [{"A": divisors, "B": values}], cc=compiler())
    with np.errstate(all="ignore"):
        expected = values / np.array(sums, kind)[:, None]
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(kind).eps)


@pytest.mark.parametrize(
    "text",
    [
        "O[i,j] = A[i,j]/Max[r](A[i,r])",  # which is an element, so that quotients may be exact
        "O[i,j] = A[i,j]/A[i,0]",
        "O[i,j] = Sum[r](A[i,r])/A[i,j]",
        "O[i,j] = floor(A[i,j]/Sum[r](A[i,r]))",  # which is 1 where a row has one number
    ],
)
def test_other_quotients_stay(text: str) -> None:
    function = lower("O", ea.parse(text, A=(8, 128)))
    assert with_sum_reciprocals(function) == function
