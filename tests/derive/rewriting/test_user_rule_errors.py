"""What goes wrong with rules of a user's own is told with their names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import einalg as ea

PRODUCT = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(3, 4), B=(4, 5))


def own(function: Any) -> Any:
    return ea.rule(function.__name__, before="L[x] f", after="L[x] g")(function)


@own
def mirrored(scope: Any) -> Any:
    yield ea.Scope(scope.iterators, scope.where, -scope.body)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda scope: scope, "gives a Scope\n  a rule is a generator"),
        (lambda scope: None, "gives nothing"),
        (lambda scope: [42], "yields 42, which is no scope"),
        (lambda scope: [None], "yields nothing\n  yield scopes"),
    ],
)
def test_a_rule_that_gives_no_scopes(given: Any, message: str) -> None:
    rule = ea.rule("odd", before="L[x] f", after="L[x] g")(given)
    with pytest.raises(ea.RuleError) as caught:
        ea.Session(PRODUCT, rules=[rule]).moves("odd")
    assert str(caught.value).startswith("odd ") and message in str(caught.value)


def test_a_single_rule_and_names_of_rules() -> None:
    assert [
        choice.move.rule for choice in ea.Session(PRODUCT, rules=mirrored).moves("mirrored")
    ] == ["mirrored"]
    assert [
        choice.move.rule
        for choice in ea.Session(PRODUCT, rules=["distribution", mirrored]).moves("mirrored")
    ] == ["mirrored"]
    with pytest.raises(ea.RuleError, match="'fusions' is no rule"):
        ea.Session(PRODUCT, rules="fusions")
    assert ea.derive(PRODUCT, ops="matmul", measure=False, states=1).best.kernels[0].op == "matmul"


def test_a_wrong_rule_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "einalg"):
        d = ea.derive(PRODUCT, rules=[*ea.rules.values(), mirrored], states=6, measure=False)
    assert "that the rule 'mirrored' helped to make: not equal" in caplog.text and all(
        c.verdict == "proved" for c in d.candidates
    )


def test_a_record_of_an_own_rule_says_what_to_give(tmp_path: Path) -> None:
    session = ea.Session(PRODUCT, rules=[mirrored])
    with pytest.raises(ea.RuleError):
        session.apply(session.moves("mirrored")[0])
    text = ea.Move("mirrored", ("O",), {"choice": 0})
    with pytest.raises(
        ea.RuleError, match=r"for a rule of your own give it too: rules=\[mirrored\]"
    ):
        ea.Session(PRODUCT).apply(text)


def test_arrays_without_names() -> None:
    expression = ea.parse("O[i] = A[i] + B[i]", A=(2,), B=(2,))
    for call in (
        lambda: ea.evaluate(expression, [1, 2], [3, 4]),
        lambda: ea.Session(expression).compile()([1, 2], [3, 4]),
    ):
        with pytest.raises(ea.UseError, match=r"arrays are given by name\n  write A=…, B=…"):
            call()
