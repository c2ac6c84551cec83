"""A difference that is seen at once: of sums and products of positive numbers, no other evaluation
is needed.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import einalg as ea
from derive.proof.random.refutation import is_refuted
from derive.proof.random.rounding import has_no_cancellation, in_double

ELEMENTS = st.sampled_from(["A[i,k]", "B[k]", "0", "2", "1/3", "A[k,i]*B[i]"])


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sums = st.tuples(parts, parts).map(lambda pair: f"({pair[0]} + {pair[1]})")
    products = st.tuples(parts, parts).map(lambda pair: f"({pair[0]})*({pair[1]})")
    maxima = st.tuples(parts, parts).map(lambda pair: f"Max({pair[0]}, {pair[1]})")
    return sums | products | maxima


BODIES = st.recursive(ELEMENTS, joined, max_leaves=3)


def parsed(body: str) -> Any:
    return ea.parse(f"O[i] = Sum[k:3]({body}) + 0*A[i,0]", A=(3, 3), B=(3,))


@settings(max_examples=8)
@given(BODIES, BODIES)
def test_what_is_refuted_differs(one: str, two: str) -> None:
    ours, theirs = parsed(one), parsed(two)
    assert has_no_cancellation(ours) and has_no_cancellation(theirs)
    assert not is_refuted(ours, ours, 0)
    if is_refuted(ours, theirs, 0):
        assert ea.prove(ours, theirs).verdict != "proved"


@pytest.mark.parametrize(
    "body", ["A[i] - A[2 - i]", "A[i]**2 - 1", "A[i]**(-2)", "exp(A[i])", "-A[i]", "1/A[i]"]
)
def test_what_may_cancel(body: str) -> None:
    assert not has_no_cancellation(ea.parse(f"O[i] = {body}", A=(3,)))


def test_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = []

    def counted(*arguments: Any) -> Any:
        evaluated.append(arguments)
        return in_double(*arguments)

    for module in ("refutation", "rounding"):
        monkeypatch.setattr(f"derive.proof.random.{module}.in_double", counted)
    one, two = [ea.parse(f"O[i] += A[i,k]*{x}[k]", A=(3, 4), B=(4,), C=(4,)) for x in "BC"]
    assert is_refuted(one, two, 0) and len(evaluated) == 2


def test_maxima_of_many_numbers_may_be_negative() -> None:
    one = ea.parse("O[i] = Max[k](A[i,k])", A=(3, 40))
    two = ea.parse("O[i] = Max(Max[k](A[i,k]), 0)", A=(3, 40))
    assert is_refuted(one, two, 0) and not is_refuted(one, one, 0)
