"""Types' ranges as facts of a proof, and what the random inputs of a test may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.proof import DIFFERENT, PROVED, prove
from derive.proof.exact.inlining import Inliner
from derive.proof.exact.polynomial import OutsideFragment
from derive.proof.exact.ranges import interval, is_whole
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.dtypes import bounds, is_float
from einalg.language.ir.program import as_program, inlined
from einalg.testing import strategies

TENSORS = {
    "B": ea.tensor("B", (5,), "bool"),
    "C": ea.tensor("C", (5,), "bool"),
    "u": ea.tensor("u", (5,), "u8"),
    "s": ea.tensor("s", (5,), "i8"),
    "n": ea.tensor("n", (5,), "i32"),
    "x": ea.tensor("x", (5,), "f32"),
}


def parsed(text: str) -> Any:
    return ea.parse(text, **{name: t for name, t in TENSORS.items() if f"{name}[" in text})


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("O[i] = B[i]*B[i]", "O[i] = B[i]"),
        ("O[i] = B[i]**3*x[i]", "O[i] = B[i]*x[i]"),
        (
            "O[()] = Sum[i:5,j:5](B[i]*B[j]*x[0])",
            "O[()] = 2*Sum[i:5,j:5](B[i]*B[j]*x[0], where=i<j) + Sum[i:5](B[i]*x[0])",
        ),
        ("T[i] = x[i] > 0\nO[i] = T[i]*T[i]*x[i]", "T[i] = x[i] > 0\nO[i] = T[i]*x[i]"),
        ("O[i] = Min(u[i], 255)", "O[i] = u[i]"),
        ("O[i] = Max(u[i], 0, -3)", "O[i] = u[i]"),
        ("O[i] = Abs(u[i] - 256)", "O[i] = 256 - u[i]"),
        ("O[i] = u[i] < 300", "O[i] = u[i] >= 0"),
        ("O[i] = Eq(s[i], 128)", "O[i] = u[i] < 0"),
        ("O[i] = Piecewise((1, u[i] >= 256), (x[i], u[i] < 300), (2, True))", "O[i] = x[i]"),
        ("O[i] = Max(s[i], -128)", "O[i] = s[i]"),
        ("O[i] = Min(u[i]*u[i] + 1, 65026)", "O[i] = u[i]*u[i] + 1"),
        ("O[i] = Max(Sum[j:4](u[i]*B[j]), 0)", "O[i] = Sum[j:4](u[i]*B[j])"),
        ("O[i] = floor(2*n[i]) + ceiling(B[i])", "O[i] = 2*n[i] + B[i]"),
        ("O[i] = n[i] < 5", "O[i] = n[i] <= 4"),
        ("O[i] = Ne(B[i], 0)", "O[i] = B[i]"),
        ("O[i] = Eq(B[i], 0)", "O[i] = 1 - B[i]"),
        ("O[i] = Max(exp(x[i]), 0)", "O[i] = exp(x[i])"),
        ("O[()] = Max[j:5](Max(u[j], 0))", "O[()] = Max[j:5](u[j])"),
    ],
)
def test_facts_of_types_are_proved(one: str, two: str) -> None:
    proof = prove(parsed(one), parsed(two))
    assert proof.verdict == PROVED, proof


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("O[i] = B[i]*C[i]", "O[i] = B[i]"),
        ("O[i] = B[i]*B[i-i//4]", "O[i] = B[i]"),
        ("O[i] = n[i]*n[i]", "O[i] = n[i]"),
        ("O[i] = Min(u[i], 254)", "O[i] = u[i]"),
        ("O[i] = Min(s[i], 126)", "O[i] = s[i]"),
        ("O[i] = Max(n[i], 0)", "O[i] = n[i]"),
        ("O[i] = Abs(s[i])", "O[i] = s[i]"),
        ("O[i] = u[i] < 255", "O[i] = u[i] >= 0"),
        ("O[i] = x[i] < 5", "O[i] = x[i] <= 4"),
        ("O[i] = Min(u[i]*u[i] + 1, 65025)", "O[i] = u[i]*u[i] + 1"),
    ],
)
def test_what_types_allow_is_found_different(one: str, two: str) -> None:
    proof = prove(parsed(one), parsed(two), rounds=8)
    assert proof.verdict == DIFFERENT, proof


def typed_array(tensor: Any, rng: np.random.Generator) -> Any:
    if is_float(tensor.dtype):
        return rng.integers(-9, 10, tensor.shape)
    low, high = bounds(tensor.dtype)
    drawn = rng.choice([low, high, 0, 1, int(rng.integers(low, high + 1))], tensor.shape)
    return drawn.astype(bool) if tensor.dtype == "bool" else drawn


@given(st.data())
def test_values_lie_in_the_interval_of_their_types(data: Any) -> None:
    scope = data.draw(
        strategies.scopes(functions=True, truths=True, dtypes=("bool", "u8", "i8", "f32"))
    )
    scope = inlined(as_program(scope))
    inliner = Inliner()
    try:
        polynomial = inliner.output(scope)
    except OutsideFragment:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    # Wide integers: here as in a proof, nothing overflows.
    arrays = {}
    for name, tensor in scope.tensors.items():
        drawn = typed_array(tensor, rng)
        arrays[name] = drawn if tensor.dtype == "bool" else drawn.astype(object)
    values = np.asarray(evaluate(scope, **arrays))
    low, high = interval(polynomial, inliner.ranges)
    assert all(low <= value <= high for value in values.flat)
    assert not is_whole(polynomial) or all(value == int(value) for value in values.flat)


@given(st.data())
def test_types_are_no_ground_for_a_wrong_proof(data: Any) -> None:
    """Clipped at any number, an element is proved the same only where no value of its type is
    beyond.
    """
    dtype = data.draw(st.sampled_from(["bool", "u8", "i8", "u16"]))
    low, high = bounds(dtype)
    limit = data.draw(st.integers(low - 2, high + 2))
    tensor = ea.tensor("A", (3,), dtype)
    one = ea.parse("O[i] = A[i]", A=tensor)
    proof = prove(one, ea.parse(f"O[i] = Min(A[i], {limit})", A=tensor))
    assert (proof.verdict == PROVED) == (limit >= high), proof


@pytest.mark.parametrize("extreme, bound", [("Max", 0), ("Min", 255)])
def test_an_extreme_of_no_values_is_infinite(extreme: str, bound: int) -> None:
    inner = f"{extreme}[k:5](u[k], where=k<i)"
    one, two = parsed(f"O[i:3] = {extreme}({inner}, {bound})"), parsed(f"O[i:3] = {inner}")
    proof = prove(one, two)
    assert proof.verdict == DIFFERENT
    assert str(proof.region) == "{ [i = 0] }"
    later = [ea.L[i:1:3](scope.body) for scope in (one, two) for i in scope.indices]
    assert prove(*later).holds
