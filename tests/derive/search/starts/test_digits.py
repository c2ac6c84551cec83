"""Long products that read indices by digits: Kronecker products are contracted digit by digit."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.cost.model import operations
from derive.proof import prove
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.search.best_first import Budget, search
from derive.search.starts.digits import digits_apart
from einalg.language.ir.program import Program, as_program

Sizes = list[tuple[int, int]]


def kronecker(sizes: Sizes) -> Program:
    """Return the product of a Kronecker product of matrices and a vector."""
    rows, columns = prod(size[0] for size in sizes), prod(size[1] for size in sizes)
    inner_rows, inner_columns = rows, columns
    factors = []
    for position, (height, width) in enumerate(sizes):
        inner_rows, inner_columns = inner_rows // height, inner_columns // width
        row, column = f"p//{inner_rows}%{height}", f"q//{inner_columns}%{width}"
        factors.append(f"M{position}[{row},{column}]")
    shapes = {f"M{position}": size for position, size in enumerate(sizes)}
    text = f"O[p:{rows}] = Sum[q:{columns}]({'*'.join(factors)}*x[q])"
    return as_program(ea.parse(text, x=columns, **shapes))


def work(program: Program) -> int:
    return sum(operations(scope) for _, scope in program.statements)


@pytest.mark.parametrize(("sizes", "saving"), [([(32, 32)] * 2, 15), ([(8, 8)] * 3, 20)])
def test_a_kronecker_product_is_contracted_digit_by_digit(sizes: Sizes, saving: float) -> None:
    program = kronecker(sizes)
    candidates, _, _ = search(program, Budget(states=2))
    best = min(candidates, key=lambda candidate: work(candidate.program))
    assert work(program) / work(best.program) >= saving
    assert prove(program, best.program).verdict == "proved"


matrix_sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(st.lists(matrix_sizes, min_size=2, max_size=3), st.data())
@settings(max_examples=10, deadline=None)
def test_every_candidate_equals_the_reference(sizes: Sizes, data: st.DataObject) -> None:
    program = kronecker(sizes)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    arrays = {n: rng.integers(-3, 4, t.shape).astype(np.float64) for n, t in program.inputs.items()}
    expected = arrays["M0"]
    for position in range(1, len(sizes)):
        expected = np.kron(expected, arrays[f"M{position}"])
    expected = expected @ arrays["x"]
    candidates, _, _ = search(program, Budget(states=2))
    for candidate in candidates:
        np.testing.assert_allclose(ea.evaluate(candidate.program, **arrays), expected, atol=1e-9)


def test_the_moves_can_be_replayed() -> None:
    program = kronecker([(2, 3), (4, 2)])
    apart, moves = digits_apart(program, ALL)
    assert moves
    for move in moves:
        program = apply(program, move, ALL)
    assert program == apart


def test_products_without_digits_stay() -> None:
    chain = as_program(ea.parse("O[i] += A[i,j]*B[j,k]*v[k]", A=(4, 4), B=(4, 4), v=4))
    assert digits_apart(chain, ALL) == (chain, [])
