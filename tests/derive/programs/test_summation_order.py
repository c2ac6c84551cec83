"""Poolings and products come in the order that costs least, and the values stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.cost.model import Roofline
from derive.matching import kernels_of
from derive.programs.passes.summation_order import in_best_order

RATES = Roofline(call=0.0)  # of a machine where small sizes say it all
TRANSITION = """
C[n,f,h,w] = Sum[c,r:1,s:1](A[n,c,h+r,w+s]*K[f,c,r,s])
O[n,f,h:7,w:5] = Sum[r:2,s:2](C[n,f,2*h+r,2*w+s])
"""
MEAN = "C[b,t,f] += A[b,t,c]*K[f,c]\nO[b,f] = Sum[t](C[b,t,f])"


@pytest.mark.parametrize(
    ("text", "shapes", "first"),
    [
        (TRANSITION, {"A": (1, 12, 14, 10), "K": (9, 12, 1, 1)}, (1, 12, 7, 5)),
        (TRANSITION, {"A": (3, 12, 15, 11), "K": (9, 12, 1, 1)}, (3, 12, 7, 5)),
        (MEAN, {"A": (4, 9, 16), "K": (12, 16)}, (4, 16)),
        (MEAN, {"A": (4, 9, 40), "K": (2, 40)}, (4, 9, 2)),  # adding up 40 costs more
        (
            "C[t,f] = Sum[h](A[t,f,h])\nO[t] = Sum[f](C[t,f]*K[f])",
            {"A": (9, 8, 7), "K": (8,)},
            (9, 8),
        ),
    ],
)
def test_orders(text: str, shapes: dict[str, tuple[int, ...]], first: tuple[int, ...]) -> None:
    program = ea.parse(text, **shapes)
    best = in_best_order(program, RATES)
    assert best["C"].shape == first and best.names == program.names
    _assert_same_values(program, best)


@pytest.mark.parametrize("text", [f"{MEAN}\nP[b,f] = C[b,1,f]", MEAN.replace("Sum[t](", "Max[t](")])
def test_what_others_read_and_what_is_no_sum_stays(text: str) -> None:
    program = ea.parse(text, A=(4, 9, 16), K=(12, 16))
    assert in_best_order(program, RATES) is program


def test_what_weights_give_alone_stays() -> None:
    K = ea.tensor("K", (12, 16), role="weight")
    A = ea.tensor("A", (4, 9, 16), role="weight")
    program = ea.parse(MEAN, A=A, K=K)
    assert in_best_order(program, RATES) is program


@pytest.mark.parametrize("size", [1, 64])
def test_a_sum_stands_behind_what_it_reads_now(size: int) -> None:
    """The weights of the product are computed behind the pooling."""
    text = "C[c,h:25] = Sum[r:4](A[c,4*h+r])\nW[f,c] = Max(K[f,c], B[f,c])\nO[f,h] += W[f,c]*C[c,h]"
    shapes = {"A": (64, 100), "K": (size, 64), "B": (size, 64)}
    program = ea.parse(text, **shapes)
    best = in_best_order(program, RATES)
    assert best.names == {1: ("W", "C", "O"), 64: program.names}[size]
    _assert_same_values(program, best)


def test_operators_stay_operators() -> None:
    best = in_best_order(ea.parse(TRANSITION, A=(1, 12, 14, 10), K=(9, 12, 1, 1)), RATES)
    assert [kernel.op for kernel in kernels_of(best)] == ["reduce", "matmul"]


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["A[n,c,{0}]", "A.pad(0,0,1)[n,c,{0}-1]"]),
)
def test_values(sizes: tuple[int, int, int], window: tuple[int, int, int], read: str) -> None:
    batch, channels, filters = sizes
    taps, stride, dilation = window
    length = stride * 3 + dilation * (taps - 1) + 1
    place = f"{stride}*h + {dilation}*r"
    text = (
        f"C[n,f,h:{length}] = Sum[c]({read.format('h')}*K[f,c])\n"
        f"O[n,f,h:4] = Sum[r:{taps}](C[n,f,{place}])"
    )
    program = ea.parse(text, A=(batch, channels, length), K=(filters, channels))
    _assert_same_values(program, in_best_order(program, RATES))


def _assert_same_values(program: ea.Program, best: ea.Program) -> None:
    random = np.random.default_rng(0)
    arrays = {}
    for name, tensor in program.inputs.items():
        arrays[name] = random.integers(-3, 3, tensor.shape).astype("f4")
    np.testing.assert_array_equal(ea.evaluate(best, **arrays), ea.evaluate(program, **arrays))
