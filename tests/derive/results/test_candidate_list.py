"""The list of candidates as a person reads it."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import einalg as ea
from derive.results.candidates import HEADS, MOST_ROWS, Candidates, summarize_operators
from einalg.errors import MatchError


def found() -> ea.Derivation:
    return ea.derive(
        ea.parse("O[f,h] += A.pad(0,1)[c,h+r-1]*K[f,c,r]", A=(8, 16), K=(4, 8, 3)), measure=False
    )


def test_a_line_each() -> None:
    candidates = found().candidates
    lines = str(candidates).splitlines()
    assert len(candidates) > 2 and len(lines) == 1 + min(len(candidates), MOST_ROWS) + (
        len(candidates) > MOST_ROWS
    )
    assert lines[0].split() == [head for head in HEADS if head]
    for number, (line, candidate) in enumerate(zip(lines[1:], candidates)):
        assert line.split()[0] == str(number) and line.endswith(
            "  " + summarize_operators(candidate.operators)
        )
    assert repr(candidates) == str(candidates) and str(Candidates()) == "no candidate"


def test_a_candidate_by_its_number() -> None:
    d = found()
    assert d.explain(1) == d.explain(d.candidates[1]) != d.explain(0)
    assert d.explain(0) == d.explain() and d.replay(1) == d.replay(d.candidates[1])
    assert d.steps(1).moves == d.candidates[1].moves
    for wrong in (len(d.candidates), -1):
        with pytest.raises(ea.RuleError, match=r"there is no candidate .*\n  see d.candidates"):
            d.explain(wrong)
    for wrong in (True, "1"):
        with pytest.raises(ea.RuleError, match=r"must be a candidate or .*\n  see d.candidates"):
            d.explain(wrong)  # type: ignore[arg-type]


def test_what_was_measured_is_told_from_estimates() -> None:
    candidates = found().candidates
    assert "measured come first" not in str(candidates)
    mixed = Candidates([replace(candidates[0], measured=True), *candidates[1:3]])
    assert (
        str(mixed).splitlines()[-1].startswith("those that were measured come first")
        and "measured come first" in mixed._repr_html_()
    )
    assert mixed.remarks(1) == ["and 2 more"] and len(mixed.remarks(2)) == 2


def test_a_table_in_jupyter() -> None:
    candidates = found().candidates
    heads = 1 + (len(candidates) > MOST_ROWS)
    assert candidates._repr_html_().count("<tr>") == heads + len(candidates)
    many = Candidates([candidates[0]] * (MOST_ROWS + 3))._repr_html_()
    assert "<summary>3 more</summary>" in many and many.count("<tr>") == 2 + MOST_ROWS + 3


def test_parts_of_it_are_lists_of_the_same_kind() -> None:
    candidates = found().candidates
    first = candidates[:2]
    assert isinstance(first, Candidates) and list(first) == [candidates[0], candidates[1]]
    assert isinstance(pickle.loads(pickle.dumps(first)), Candidates)


def test_those_that_use_an_operator() -> None:
    candidates = found().candidates
    both = candidates.using("matmul", "eop")
    assert both and all({"matmul", "eop"} <= set(c.operators) for c in both)
    assert set(map(id, candidates.using("matmul"))) == {
        id(c) for c in candidates if "matmul" in c.operators
    }
    assert not candidates.using("conv3d")
    with pytest.raises(MatchError, match="there is no operator 'matmull'\n  name one of: matmul"):
        candidates.using("matmull")
    with pytest.raises(MatchError, match="name one of: conv1d, eop, matmul"):
        candidates.using("nonsense")
