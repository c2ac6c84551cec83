"""A search is kept on disk with its proofs: another run finds the same without searching."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import einalg as ea
from derive.results import pipeline, stored_search
from derive.results.derivation import SearchResult
from derive.results.pipeline import find_derivation
from derive.results.stored_search import SEARCHES
from derive.search.best_first import Budget
from einalg.api.backend import LocalBackend
from einalg.errors import RecordError
from einalg.language.ops.templates import EVERY
from einalg.runtime.clock import Clock
from einalg.runtime.measurement import Measurement
from einalg.storage.disk_cache import cache_folder
from tests.helpers.measurements import NoBackground

CONV = ea.parse("O[f,h] += A.pad(0,1)[c,h+r-1]*K[f,c,r]", A=(16, 61), K=(24, 16, 3))
FEW = Budget(states=3, seconds=600)
RATES = {"library": 1e11, "generated": 4e9, "bandwidth": 1e10, "call": 2e-6}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(pipeline, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(LocalBackend, "rates", lambda _: RATES)


ONE = Measurement(1e-3, 1e-3, 1e-3)


class Estimating(LocalBackend):
    """A backend that measures nothing, so that a test is quick."""

    def kernel_timers(self, kernels: Any) -> list[Any]:
        return [lambda: ONE for _ in kernels]

    def background_kernels(self) -> Any:
        return NoBackground()

    def measure(self, runnables: Any, arrays: Any) -> list[Measurement]:
        return [ONE for _ in runnables]


def derived(**options: Any) -> SearchResult:
    return find_derivation(CONV, FEW, options.pop("rules", None), Estimating(), **options)


def rows(result: SearchResult) -> list[tuple[Any, ...]]:
    """Return what a search found, whatever was measured."""
    found = []
    for c in result.candidates:
        found.append((str(c.program), tuple(map(str, c.kernels)), c.moves, c.verdict))
    return sorted(found, key=repr)


def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """No state is expanded from now on, and nothing is proven."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("this is known")

    monkeypatch.setattr("derive.search.expansion.StateExpander.__call__", refuse)
    monkeypatch.setattr("derive.results.verification.verdict_of", refuse)


def test_the_same_is_found_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    first = derived()
    no_work(monkeypatch)
    again = derived()
    assert rows(again) == rows(first)
    assert again.explored == first.explored and again.plot().dot == first.plot().dot
    assert again.stats.is_known and not first.stats.is_known
    assert "(searched before)" in str(again) and again.explain(0)
    for name in ("states", "candidates", "duplicates", "rejected", "stopped", "first_hit"):
        assert getattr(again.stats, name) == getattr(first.stats, name)
    assert [again.replay(number) for number in range(len(again.candidates))]


def test_what_was_not_proven_is_proven_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pipeline._Derivation, "_prove_others", lambda _: None)
        first = derived()
    again = derived()
    assert again.stats.is_known and len(again.candidates) > len(first.candidates)
    assert all(candidate.verdict == "proved" for candidate in again.candidates)
    no_work(monkeypatch)
    assert rows(derived()) == rows(again)


@pytest.mark.parametrize(
    "change",
    [
        {"ops": ["matmul"]},
        {"rules": [rule for name, rule in ea.rules.items() if name != "staging"]},
    ],
    ids=["operators", "rules"],
)
def test_other_searches_are_not_this_one(change: dict[str, Any]) -> None:
    derived()
    assert not derived(**change).stats.is_known


def test_a_rule_of_a_user_is_searched_each_time() -> None:
    @ea.rule("mine", before="L[x] a", after="L[x] a", requires="nothing")
    def mine(scope: Any) -> Any:
        return []

    rules = [*ea.rules.values(), mine]
    derived(rules=rules)
    assert not derived(rules=rules).stats.is_known


def test_a_search_that_time_ended_is_not_kept() -> None:
    assert derived(clock=Clock.of(0.0)).stats.is_cut
    assert not derived().stats.is_known


def test_a_damaged_entry_is_searched_again(caplog: pytest.LogCaptureFixture) -> None:
    first = derived()
    (path,) = _entries()
    key = path.name.partition("-")[0]
    for content in (b"{}", b"[]", b"no JSON", path.read_bytes().replace(b'"rule"', b'"ruler"')):
        SEARCHES.replace(key, content)
        with caplog.at_level(logging.WARNING, "einalg"):
            again = derived()
        assert "damaged" in caplog.text and rows(again) == rows(first)
        assert not again.stats.is_known
        caplog.clear()


def _entries() -> list[Path]:
    return list((cache_folder() / SEARCHES.name).glob(f"*/*{SEARCHES.suffix}"))


def test_only_the_operators_of_known_candidates_are_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = derived()
    matched: set[str] = set()
    for name in ("kernels_of", "with_operator_names"):
        match = getattr(stored_search, name)

        def recording(subject: Any, templates: Any = EVERY, match: Any = match) -> Any:
            matched.update(template.name for template in templates)
            return match(subject, templates)

        monkeypatch.setattr(stored_search, name, recording)
    assert rows(derived()) == rows(first)
    operators = {op for candidate in first.candidates for op in candidate.operators}
    assert "conv1d" in matched and matched <= operators


def test_a_search_whose_moves_do_not_apply_is_done_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = derived()
    _edit_entry(lambda row: row["moves"][0].update(path=["P"]))
    with caplog.at_level(logging.WARNING, "einalg"):
        again = derived()
    assert rows(again) == rows(first) and not again.stats.is_known
    assert "stale" in caplog.text and "it is done again" in caplog.text
    no_work(monkeypatch)
    assert rows(derived()) == rows(first)


def test_no_stored_candidate_becomes_another_program() -> None:
    first = derived()
    _edit_entry(lambda row: row["candidates"][-1].update(moves=row["candidates"][1]["moves"]))
    stale = derived()
    with pytest.raises(RecordError, match="derive it again"):
        rows(stale)
    assert rows(derived()) == rows(first)


def _edit_entry(change: Callable[[Any], Any]) -> None:
    (path,) = _entries()
    row = json.loads(path.read_bytes())
    change(row)
    SEARCHES.replace(path.name.partition("-")[0], json.dumps(row).encode())
