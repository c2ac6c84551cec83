"""Operands other than plain tensors: inner scopes, padded views, axes that do not begin at 0, cut
domains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.language import ops
from einalg.language.ir.program import inlined
from einalg.language.ir.tensor import padded_box
from einalg.language.ir.traversal import accesses, reductions
from tests.helpers.operators.harness import CASES, load_cases, parameter_sets

rng = np.random.default_rng(7)
i, j, k, m = ea.indices("i j k m")


def numbers(*shape: int) -> Any:
    return rng.integers(-9, 10, shape)


def test_operators_nest() -> None:
    a, b, c = numbers(3, 5), numbers(5, 2), numbers(2, 7)
    A, B, C = ea.tensor("A", a.shape), ea.tensor("B", b.shape), ea.tensor("C", c.shape)
    assert np.array_equal(ea.evaluate(ops.matmul(ops.matmul(A, B), C), A=a, B=b, C=c), a @ b @ c)


def test_padding_of_an_operand_is_part_of_it() -> None:
    a, kernel = numbers(1, 2, 5, 3), numbers(4, 2, 3, 3)
    A, K = ea.tensor("A", a.shape), ea.tensor("K", kernel.shape)
    outside = ops.conv2d(A.pad(0, 0, (1, 2), 1), K)
    inside = ops.conv2d(A, K, padding=((1, 2), 1))
    assert outside.shape == inside.shape == (1, 4, 6, 3)
    assert np.array_equal(ea.evaluate(outside, A=a, K=kernel), ea.evaluate(inside, A=a, K=kernel))


def test_padding_of_an_operand_keeps_its_fill() -> None:
    a = -1 - abs(numbers(1, 1, 4))
    view = ea.tensor("A", a.shape).pad(0, 0, 1)
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1)))
    expected = np.maximum(np.maximum(padded[..., :-2], padded[..., 1:-1]), padded[..., 2:])
    assert np.array_equal(ea.evaluate(ops.max_pool1d(view, 3, 1), A=a), expected)
    wider = np.pad(padded, ((0, 0), (0, 0), (1, 1)), constant_values=-99)
    expected = np.maximum(np.maximum(wider[..., :-2], wider[..., 1:-1]), wider[..., 2:])
    assert np.array_equal(ea.evaluate(ops.max_pool1d(view, 3, 1, 1), A=a), expected)


@pytest.mark.parametrize("low", [-3, 2])
def test_axes_count_from_their_first_element(low: int) -> None:
    a, kernel = numbers(2, 3, 6, 5), numbers(3, 2, 3, 2)
    moved = ea.tensor("A", [(low, low + size) for size in a.shape])
    plain = ea.tensor("A", a.shape)
    K = ea.tensor("K", kernel.shape)
    for name in ("conv2d", "conv_transpose2d"):
        weight = K if name == "conv_transpose2d" else ea.L[i:2, j:3, k:3, m:2](K[j, i, k, m])
        both = [
            ops.OPERATORS[name](A, weight, stride=2, padding=((0, 1), 1)) for A in (plain, moved)
        ]
        assert both[0].box == both[1].box
        assert np.array_equal(*(ea.evaluate(expression, A=a, K=kernel) for expression in both))
    both = [ops.attention(A, A, A) for A in (plain, moved)]
    assert np.allclose(*(ea.evaluate(expression, A=a) for expression in both))


def test_outside_a_cut_domain_an_operand_is_zero() -> None:
    a = numbers(4, 4)
    lower = ea.L[i:4, j:4](ea.tensor("A", a.shape)[i, j], where=j <= i)
    assert np.array_equal(
        ea.evaluate(ops.matmul(lower, ea.tensor("A", a.shape)), A=a), np.tril(a) @ a
    )


def test_a_cell_reads_the_state_of_another() -> None:
    x, h, c = (rng.normal(size=shape) for shape in ((2, 3), (2, 4), (2, 4)))
    weights = {"W": rng.normal(size=(16, 3)), "U": rng.normal(size=(16, 4))}
    X, H, C, W, U = (
        ea.tensor(name, array.shape) for name, array in {"x": x, "h": h, "c": c, **weights}.items()
    )
    first = ops.lstm_cell(X, H, C, W, U)
    assert first.outputs == ("h_", "c_")
    state, memory = (inlined(first, name) for name in first.outputs)
    twice = ops.lstm_cell(X, state, memory, W, U)
    middle = ea.evaluate(first, x=x, h=h, c=c, **weights)
    expected = ea.evaluate(first, x=x, h=middle["h_"], c=middle["c_"], **weights)
    found = ea.evaluate(twice, x=x, h=h, c=c, **weights)
    for name in twice.outputs:
        assert np.allclose(found[name], expected[name])


def test_statements_of_a_cell_are_read_by_name() -> None:
    cell = ops.gru_cell(
        *(
            ea.tensor(name, shape)
            for name, shape in {"x": (3,), "s": (4,), "W": (12, 3), "U": (12, 4)}.items()
        )
    )
    assert cell.names == ("x_gates", "h_gates", "h")
    assert cell.result.shape == (4,)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_transposed_convolution_pads_no_more_than_it_reads(rank: int) -> None:
    load_cases()
    name = f"conv_transpose{rank}d"
    for label, (expression, _, _) in parameter_sets(name, CASES[name][name], 20):
        (reduction,) = reductions(expression.body)
        ranges = {
            it.index: (it.low, it.high) for it in (*expression.iterators, *reduction.iterators)
        }
        for access in accesses(reduction.body):
            for form, (low, high), (first, last) in zip(
                access.subscripts, access.base.box, padded_box(access.base)
            ):
                least, most = form.interval(ranges)
                assert (first, last) == (min(low, least), max(high, most + 1)), label
