"""Maxima, minima and products of several reductions, by the elements that all of them meet."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.language.interpreters.reference import evaluate

N, M = ea.size("N"), ea.size("M")
HALVES = "O[n] = Max(Max[i:N](A[n,i], where=2*i<N), Max[i:N](A[n,i], where=2*i>=N))"
EQUAL: list[tuple[str, str, dict[str, Any]]] = [
    ("O[n] = Max[i](A[n,i])", "O[n] = Max(Max[i:40](A[n,i]), Max[i:40:90](A[n,i]))", {"A": (7, 90)}),
    ("O[n] = Max[i](A[n,i])", "O[n] = Max(Max[i:N](A[n,2*i]), Max[i:N](A[n,2*i+1]))", {"A": (3, 2 * N)}),
    ("O[n] = Min[i](A[n,i])", "O[n] = Min(A[n,0], Min[i:1:N](A[n,i]))", {"A": ("B", N)}),
    ("O[n] = Max[i](A[n,i])", HALVES, {"A": ("B", N)}),
    ("O[n] = Max(Max[i](A[n,i]), 0)", "O[n] = Max[i](Max(A[n,i], 0))", {"A": ("B", N)}),
    ("O[n] = Prod[i](A[n,i])", "O[n] = Prod[i:N](A[n,2*i])*Prod[i:N](A[n,2*i+1])", {"A": (3, 2 * N)}),
    ("O[n] = Prod[i](A[n,i])**2", "O[n] = Prod[i:N](A[n,N-1-i])*Prod[i:N](A[n,i])", {"A": (3, N)}),
]  # fmt: skip


@pytest.mark.parametrize("one, two, shapes", EQUAL)
def test_reductions_of_parts_are_one(one: str, two: str, shapes: dict[str, Any]) -> None:
    proof = ea.prove(one, two, **shapes)
    assert proof.verdict == "proved"
    assert proof.method.startswith("access relations")


@pytest.mark.parametrize("op", ["Max", "Min", "Prod"])
def test_a_part_that_is_left_out_counts(op: str) -> None:
    join = "{} * {}" if op == "Prod" else op + "({}, {})"
    parts = join.format(f"{op}[i:N](A[i])", f"{op}[i:N+1:N+M](A[i])")
    proof = ea.prove(f"O[()] = {op}[i:N+M](A[i])", f"O[()] = {parts}", A=(N + M,))
    assert proof.verdict == "different"


@pytest.mark.parametrize(
    ("one", "two", "dtype"),
    [
        ("Max[k:6](Piecewise((A.pad((0,1))[k], k<5), (255, True)))", "Max(A[0], 255)", "u8"),
        ("Max[k:6](Piecewise((A.pad((0,1))[k], k<5), (oo, True)))", "Max(A[0], oo)", "f32"),
        ("Prod[k:6](Piecewise((A.pad((0,1))[k], k<5), (0, True)))", "Prod[k:2](A[k]*k)", "f32"),
    ],
)
def test_what_a_constant_hides_is_no_difference(one: str, two: str, dtype: str) -> None:
    A = ea.tensor("A", (5,), dtype)
    assert ea.prove(f"O[n:2] = {one}", f"O[n:2] = {two}", A=A).verdict != "different"


@pytest.mark.parametrize(
    "one, two",
    [
        ("Max(Max[k:3](A[k]), A[0]+1)", "Max(Max[k:1:3](A[k]), A[0]+1)"),
        ("Max(Max[k:3](A[k]), exp(A[0]))", "Max(Max[k:1:3](A[k]), exp(A[0]))"),
        ("Min(Min[k:3](A[k]), 2*A[0], -A[0])", "Min(Min[k:1:3](A[k]), 2*A[0], -A[0])"),
    ],
)
def test_what_a_function_of_it_hides_is_no_difference(one: str, two: str) -> None:
    assert ea.prove(f"O[n:2] = {one}", f"O[n:2] = {two}", A=(5,)).verdict != "different"


@given(st.data())
def test_verdicts_on_truth_values_are_those_of_all_inputs(data: st.DataObject) -> None:
    B = ea.tensor("B", (3,), "bool")
    op = data.draw(st.sampled_from(["Max", "Min", "Prod"]))

    def side() -> str:
        parts = []
        for _ in range(data.draw(st.integers(1, 2))):
            low = data.draw(st.integers(0, 2))
            high = data.draw(st.integers(low + 1, 4))
            last = data.draw(st.sampled_from([0, 1, "B[0]"]))
            parts.append(f"{op}[k:{low}:{high}](Piecewise((B.pad((0,1))[k], k<3), ({last}, True)))")
        if op == "Prod" or len(parts) == 1:
            return " * ".join(parts)
        return f"{op}({', '.join(parts)})"

    one, two = (ea.parse(f"O[n:1] = {side()}", B=B) for _ in range(2))
    inputs = [np.array(values, bool) for values in product([0, 1], repeat=3)]
    equal = all(evaluate(one, B=b) == evaluate(two, B=b) for b in inputs)
    assert ea.prove(one, two).verdict in (("proved", "tested") if equal else ("different",))
