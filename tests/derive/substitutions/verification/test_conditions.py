"""A condition that is dropped or loosened is caught, with a counterexample that it allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.substitutions import Rule, verify
from derive.substitutions.verification.comparing import differs_at
from tests.helpers.batches import examples

# Two values at `i` of `0..N`, equal where the size K is at most LIMIT; A has a row for each i.
PAIRS = [
    ("Sum[k:K](A[i,k])", "Sum[k:K](A[i,k], where=k < LIMIT)"),
    ("Sum[k:K](A[i,k]) - Sum[k:K](A[i,k], where=k >= LIMIT)", "Sum[k:K](A[i,K-1-k])"),
    ("Sum[k:K](A[i,k]*B[i])", "B[i]*Sum[k:K](Piecewise((A[i,k], k <= LIMIT - 1), (0, True)))"),
    ("Max[k:K](A[i,k])", "Max[k:K](A[i,k], where=k < LIMIT)"),
    ("Sum[k:K,m:K](A[i,k]*A[i,m])", "Sum[k:K,m:K](A[i,k]*A[i,m], where=m < LIMIT)"),
    ("Sum[k:K](A[i,k]) + K", "Sum[k:K](A[i,k]) + Sum[k:K](1, where=k < LIMIT)"),
]
AROUND = ["%s", "B[i]*(%s)", "(%s) - 3*B[i]", "A[i,0]*(%s) + B[i]"]
FUNCTIONS = ["exp(%s)", "Max(%s, B[i])", "tanh(%s)*B[i]"]
RULES = st.tuples(
    st.sampled_from(PAIRS),
    st.sampled_from(AROUND),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
)


def rule_at(pair: tuple[str, str], around: str, most: int, size: Any) -> Rule:
    """Return a rule whose sides are equal where a size is at most a number."""
    texts = [around.replace("%s", side.replace("LIMIT", str(most))) for side in pair]
    shapes: dict[str, Any] = {"A": ("N", size)}
    if any("B[" in text for text in texts):
        shapes["B"] = ("N",)
    return Rule("rule", *[f"O[i] = {text}" for text in texts], **shapes)


def check_wrong_conditions(
    pair: tuple[str, str], around: str, most: int, more: int, swapped: bool
) -> None:
    if swapped:
        pair = pair[1], pair[0]
    dropped = rule_at(pair, around, most, "K")
    result = verify(dropped)
    assert result.counterexample is not None and result.counterexample["K"] > most, result
    assert differs_at(dropped.sides, result.counterexample)
    if result.condition is not None:
        values = [size for size in range(1, most + 4) if _holds(result.condition, size)]
        assert values == list(range(1, most + 1)), result
    right = verify(rule_at(pair, around, most, ea.size("K", at_most=most)))
    assert right.verdict != "different" and right.condition is None, right
    loosened = verify(rule_at(pair, around, most, ea.size("K", at_most=most + more)))
    assert loosened.counterexample is not None, loosened
    assert most < loosened.counterexample["K"] <= most + more


def _holds(condition: Any, size: int) -> bool:
    """Return whether a condition allows a size for some others."""
    return not condition.intersect(
        type(condition)(f"[K] -> {{ : K = {size} }}").params()
    ).is_empty()


@settings(max_examples=examples(6, at_night=60))
@given(RULES)
def test_a_wrong_condition_is_caught(rule: Any) -> None:
    check_wrong_conditions(*rule)


@settings(max_examples=examples(2, at_night=20))
@given(RULES, st.sampled_from(FUNCTIONS))
def test_a_wrong_condition_is_caught_under_functions(rule: Any, around: str) -> None:
    pair, _, *rest = rule
    check_wrong_conditions(pair, around, *rest)


@pytest.mark.nightly
@settings(max_examples=300)
@given(RULES, st.sampled_from([*AROUND, *FUNCTIONS]))
def test_many_wrong_conditions_are_caught(rule: Any, around: str) -> None:
    pair, _, *rest = rule
    check_wrong_conditions(pair, around, *rest)
