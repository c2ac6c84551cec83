"""Products of one tensor that are added: one product with the sum of their weights, or as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.programs.passes.weights.addition import with_added_weights, with_folded_weights
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program
from tests.helpers.networks import assert_nearly_same_values, sample, weight

ADDED = "R[n,f,h,w] = Max(0, P[n,f,h,w] + Q[n,f,h,w] + b[f])"


def convolution(name: str, weights: str, window: int, stride: int, step: int, before: int) -> str:
    """Return a convolution of A with a square window, dilated by `step`, of 8 by 8 results."""
    at = [f"{stride}*{out} + {step}*{tap} - {before}" for out, tap in (("h", "r"), ("w", "s"))]
    amounts = f"({max(before, 0)}, {max(step * window - before, 0)})"
    pad = f"A.pad(0, 0, {amounts}, {amounts})"
    subscripts = ", ".join(at)
    taps = f"c, r:{window}, s:{window}"
    product = f"{pad}[n, c, {subscripts}]*{weights}[f, c, r, s]"
    return f"{name}[n, f, h:8, w:8] = Sum[{taps}]({product})"


def two_windows(
    one: tuple[int, int, int], other: tuple[int, int, int], stride: int = 1, reader: str = ADDED
) -> Program:
    """Return the sum of two convolutions; each has a window, a dilation and a padding."""
    texts = []
    tensors = {"A": (2, 3, 8 * stride, 8 * stride), "b": (4,)}
    for name, weights, (window, step, before) in (("P", "V", one), ("Q", "W", other)):
        texts.append(convolution(name, weights, window, stride, step, before))
        tensors[weights] = weight(weights, 4, 3, window, window)
    return ea.parse("\n".join([*texts, reader]), **tensors)


@pytest.mark.parametrize(
    ("data", "weights"),
    [("f32", "i8"), ("i32", "u8"), ("f32", "f16"), ("i32", "bool"), ("bool", "bool")],
)
def test_weights_of_a_shorter_type_than_their_product_are_not_added(
    data: str, weights: str
) -> None:
    """Their sums may not fit into it."""
    A = ea.tensor("A", (8,), data)
    V, W = (ea.tensor(name, (3, n), weights, role="weight") for name, n in (("V", 3), ("W", 1)))
    products = "P[f,h:8] += A.pad(1)[h+r-1]*V[f,r]\nQ[f,h:8] += A[h+r]*W[f,r]"
    program = ea.parse(f"{products}\nO[f,h] = P[f,h] + Q[f,h]", A=A, V=V, W=W)
    assert with_added_weights(program) is program


@pytest.mark.parametrize(
    ("weights", "is_folded"), [("i8", False), ("f16", False), ("f32", True), ("f64", True)]
)
def test_factors_are_folded_into_weights_of_a_type_that_holds_them(
    weights: str, is_folded: bool
) -> None:
    """That of the product at least: two numbers of one byte are none of that when multiplied."""
    W, F = ea.tensor("W", (4, 8), weights, "weight"), ea.tensor("F", (4,), weights, "weight")
    text = "P[n,f] += A[n,c]*W[f,c]\nO[n,f] = P[n,f]*F[f] + 1"
    program = ea.parse(text, A=(2, 8), W=W, F=F)
    changed = with_folded_weights(program)
    assert ("F" not in changed["O"].tensors) is is_folded
    assert_nearly_same_values(program, changed)


@settings(max_examples=20)
@given(st.data())
def test_a_smaller_window_is_a_part_of_a_larger_one(data: st.DataObject) -> None:
    window, step = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    small, shift = data.draw(st.integers(1, window)), 0
    if small < window:
        shift = data.draw(st.integers(0, window - small))
    before = data.draw(st.integers(0, 3)) + step * shift
    windows = [(window, step, before), (small, step, before - step * shift)]
    one, other = data.draw(st.permutations(windows))
    program = two_windows(one, other, data.draw(st.integers(1, 2)))
    changed = with_added_weights(program)
    sums = [name for name, scope in changed.statements if "Sum" in str(scope)]
    assert len(sums) == 1
    assert_nearly_same_values(program, changed)


@pytest.mark.parametrize(
    ("one", "other", "reader"),
    [
        ((3, 1, 0), (1, 1, 1), ADDED),  # before the larger window
        ((3, 1, 1), (2, 2, 0), ADDED),  # with other steps
        ((2, 2, 0), (1, 1, -1), ADDED),  # between two points of the larger one
        ((3, 1, 1), (1, 1, 0), ADDED.replace("+ Q", "- Q")),
        ((3, 1, 1), (1, 1, 0), ADDED.replace("Q[n,f,h,w]", "Q[n,f,w,h]")),
        ((3, 1, 1), (1, 1, 0), f"{ADDED}\nS[n,f] = Q[n,f,0,0]"),
        ((3, 1, 1), (1, 1, 0), ADDED.replace("+ Q", "*Q")),
        ((3, 1, 1), (1, 1, 0), ADDED.replace("+ b[f]", "+ P[n,f,h,w]*Q[n,f,h,w]")),
    ],
)
def test_others_stay_as_they_were(
    one: tuple[int, int, int], other: tuple[int, int, int], reader: str
) -> None:
    program = two_windows(one, other, reader=reader)
    assert with_added_weights(program) is program


def test_depthwise_products_are_added_too() -> None:
    """As any number of them."""
    texts, tensors = [], {"A": (1, 5, 6, 6)}
    for name, window in (("P", 3), ("Q", 1), ("R", 3)):
        taps = f"A.pad(0, 0, {window // 2}, {window // 2})[n, c, h + r - {window // 2}, w + s - "
        texts.append(
            f"{name}[n, c, h:6, w:6] = Sum[r:{window}, s:{window}]"
            f"({taps}{window // 2}]*{name}W[c, r, s])"
        )
        tensors[f"{name}W"] = weight(f"{name}W", 5, window, window)
    reader = "O[n,c,h,w] = P[n,c,h,w] + Q[n,c,h,w] + R[n,c,h,w]"
    program = ea.parse("\n".join([*texts, reader]), **tensors)
    changed = with_added_weights(program)
    assert len([name for name, scope in changed.statements if "Sum" in str(scope)]) == 1
    assert_nearly_same_values(program, changed)


def test_branches_that_are_normalised_become_one() -> None:
    """Their factors are in the weights before these are added."""
    norm = "{0}[n,f,h,w]*g{0}[f]/sqrt(v{0}[f] + 1) + d{0}[f]"
    reader = f"R[n,f,h,w] = Max(0, {norm.format('P')} + {norm.format('Q')})"
    texts = [convolution("P", "V", 3, 1, 1, 1), convolution("Q", "W", 1, 1, 1, 0), reader]
    tensors = {"A": (2, 3, 8, 8), "V": weight("V", 4, 3, 3, 3), "W": weight("W", 4, 3, 1, 1)}
    for name in ("gP", "vP", "dP", "gQ", "vQ", "dQ"):
        tensors[name] = weight(name, 4)
    program = ea.parse("\n".join(texts), **tensors)
    changed = with_folded_weights(program)
    assert len([name for name, scope in changed.statements if "Sum" in str(scope)]) == 1
    arrays = {name: np.abs(array) for name, array in sample(program).items()}
    expected, values = execute(program, arrays)["R"], execute(changed, arrays)["R"]
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)


def test_weights_are_added_though_it_is_late() -> None:
    program = two_windows((3, 1, 1), (1, 1, 0))
    assert "Q" not in with_folded_weights(program, lambda: True).names


@pytest.mark.parametrize("read", ["A[(h+r)//2]", "A[h//2 + r//2]", "A[(h+r)//2 + r]"])
@pytest.mark.parametrize("taps", [1, 3])
def test_data_that_is_read_at_quotients(read: str, taps: int) -> None:
    text = f"P[f,h:8] += {read}*V[f,r]\nQ[f,h:8] += {read}*W[f,r]\nO[f,h] = P[f,h] + Q[f,h]"
    tensors = {"V": weight("V", 3, 3), "W": weight("W", 3, taps)}
    program = ea.parse(text, A=(12,), **tensors)
    assert_nearly_same_values(program, with_added_weights(program))


def test_no_statements_become_one_where_it_is_late() -> None:
    program = ea.parse("T[i] = A[i] + 1\nO[i] = Max(T[i], 0)", A=(5,))
    assert with_folded_weights(program).names == ("O",)
    assert with_folded_weights(program, lambda: True).names == ("T", "O")
