"""The networks that contractions are measured on are those that opt_einsum is given."""

from __future__ import annotations

import numpy as np
import opt_einsum
import pytest

import einalg as ea
from bench.contraction_cases import chain, grid, ladder, regular, ring, tree, vector_chain
from bench.contractions import best_path

SMALL = [
    chain(4, 2),
    vector_chain(4, 2),
    ring(4, 2),
    ladder(2, 2),
    tree(5, 2),
    grid(2, 2),
    regular(6, 3, [1, 2], 0),
]


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_the_expression_is_the_equation(case):
    arrays = case.arrays()
    path, cost = best_path(case)
    expected = opt_einsum.contract(case.equation, *arrays, optimize=path)
    named = {f"T{position}": array for position, array in enumerate(arrays)}
    np.testing.assert_allclose(ea.evaluate(case.expression, **named), expected, rtol=1e-4)
    assert cost > 0
