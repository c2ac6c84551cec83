"""A user's rule in a search: found beside ours, explained, saved and replayed like them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import einalg as ea


@ea.rule(
    "reversing a sum",
    before="L[x] Σ[s] f(s)",
    after="L[x] Σ[s] f(S - 1 - s)",
    requires="a sum over one index",
)
def reversing(scope: ea.Scope) -> Iterator[ea.Scope]:
    total = scope.body
    if (
        isinstance(total, ea.Reduce)
        and total.op == "Sum"
        and not total.where
        and len(total.iterators) == 1
    ):
        ((index, low, high),) = total.iterators
        yield ea.Scope(
            scope.iterators,
            scope.where,
            ea.Sum[index:low:high](total.body.subs(index, low + high - 1 - index)),
        )


PRODUCT = ea.parse("O[i] += A[i,k]*x[k]", A=(4, 5), x=(5,))


def searched(**options: Any) -> ea.Derivation:
    return ea.derive(PRODUCT, measure=False, **options)


def using(d: ea.Derivation) -> Any:
    return next(c for c in d.candidates if any(m.rule == reversing.name for m in c.moves))


def test_it_is_right() -> None:
    report = ea.check_rule(
        reversing, examples=60, strategy=ea.testing.strategies.scopes(reductions=("Sum",))
    )
    assert (
        isinstance(report, ea.RuleReport)
        and report.moves > 5
        and str(report).startswith("reversing a sum: ")
    )


@pytest.mark.parametrize(
    "rules", [[reversing], [*ea.rules, reversing]], ids=["alone", "beside all others"]
)
def test_it_is_searched_explained_and_replayed(rules: Any) -> None:
    d = searched(rules=rules)
    chosen = using(d)
    assert chosen.verdict == "proved" and str(d.replay(chosen)) == str(chosen.program)
    assert f"{reversing.before} ⇒ {reversing.after}" in d.explain(chosen)


def test_it_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    searched(rules=[reversing]).save(path)
    again = ea.Derivation.load(path, rules=[reversing])
    assert "reversing a sum at O" in again.explain(using(again))
    with pytest.raises(ea.RecordError, match="no rule 'reversing a sum'"):
        ea.Derivation.load(path)


def test_rules_by_name() -> None:
    assert {
        m.rule for c in searched(rules=["summation splitting"]).candidates for m in c.moves
    } <= {"summation splitting"}
    assert ea.rules["staging"].name == "staging" and all(
        name == rule.name for name, rule in ea.rules.items()
    )


@pytest.mark.parametrize("wrong", ["summation spliting", 3])
def test_what_is_no_rule(wrong: Any) -> None:
    with pytest.raises(ea.RuleError, match="is no rule"):
        searched(rules=[wrong])
