"""The search of a session in the background: progress, what it found, taking it over, stopping it."""

from __future__ import annotations

import threading
from functools import partial

import pytest

import einalg as ea
from derive.search.best_first import Budget, search

CONV = "O[n,f,h] += A.pad(0,0,1)[n,c,h+r-1] * K[f,c,r]"
SHAPES = dict(A=(1, 3, 6), K=(4, 3, 3))
LIMIT = 60  # seconds that a test waits
STATES = 20  # of a search, which ends at the same one at any load


def session(**parts):
    return ea.Session(ea.parse(CONV, **SHAPES), **parts)


@pytest.fixture
def searched():
    panel = session(search=partial(ea.derive, states=STATES)).panel
    panel.session.apply(0)
    told = []
    panel.listeners.append(
        lambda changed: told.append(changed["search"]) if "search" in changed else None
    )
    panel.handle({"do": "search", "seconds": LIMIT, "measure": False})
    panel.wait(LIMIT)
    return panel, told


def test_it_reports_and_shows_what_it_found(searched):
    panel, told = searched
    assert told[0]["running"] and not told[-1]["running"] and panel.sections["search"] == told[-1]
    found = told[-1]["candidates"]
    assert found and [c["number"] for c in found] == list(range(len(found)))
    assert (
        any("conv1d" in kernel for c in found for kernel in c["kernels"])
        and "<svg" in told[-1]["tree"]
    )


def test_a_candidate_is_taken_over_from_where_the_search_began(searched):
    panel, _ = searched
    s = panel.session
    began = len(s.history)
    chosen = next(c for c in panel.sections["search"]["candidates"] if c["moves"])
    s.apply(0)
    panel.handle({"do": "follow", "candidate": chosen["number"]})
    assert panel.sections["message"]["kind"] == "done", panel.sections["message"]
    assert len(s.history) == began + chosen["moves"] and sorted(
        str(k) for k in s.kernels
    ) == sorted(chosen["kernels"])
    assert ea.prove(s.history.start, s.expr).verdict == "proved"


def test_a_candidate_is_taken_over_from_another_branch(searched):
    panel, _ = searched
    s = panel.session
    began, program = s.branches.current, s.expr
    chosen = next(c for c in panel.sections["search"]["candidates"] if c["moves"])
    s.undo()
    s.apply(1)
    panel.handle({"do": "follow", "candidate": chosen["number"]})
    assert panel.sections["message"]["kind"] == "done", panel.sections["message"]
    path = s.branches.path()
    assert s.branches[began] in path and s.branches[began].program is program
    assert sorted(map(str, s.kernels)) == sorted(chosen["kernels"])


def test_a_candidate_that_is_not_there_is_refused(searched):
    panel, _ = searched
    panel.handle({"do": "follow", "candidate": 1000})
    assert "no candidate number 1000" in panel.sections["message"]["text"]


def test_stopping_keeps_what_was_found():
    going = threading.Event()

    def slow(expr, progress, **options):
        def watched(stats):
            going.set()
            stop.wait(LIMIT)
            progress(stats)

        return ea.derive(expr, progress=watched, **options)

    stop = threading.Event()
    panel = session(search=slow).panel
    panel.handle({"do": "search", "seconds": 50})
    assert going.wait(LIMIT) and panel.sections["search"]["running"]
    panel.handle({"do": "search", "seconds": 1})
    assert "is running" in panel.sections["message"]["text"]
    panel.handle({"do": "stop"})
    stop.set()
    panel.wait(LIMIT)
    found = panel.sections["search"]
    assert (
        not found["running"]
        and "by the one who watched" in found["summary"]
        and found["candidates"]
    )


def test_an_error_of_the_search_is_shown():
    def broken(*_, **__):
        raise ea.MatchError("no such operator\n  take another")

    panel = session(search=broken).panel
    panel.handle({"do": "search", "seconds": 1})
    panel.wait(LIMIT)
    assert (
        panel.sections["search"]["error"] == "no such operator\n  take another"
        and not panel.sections["search"]["running"]
    )


@pytest.mark.parametrize("seconds", [0, -1, "soon", None, True, float("nan"), 1e9])
def test_seconds_must_be_seconds(seconds):
    panel = session().panel
    panel.handle({"do": "search", "seconds": seconds})
    assert panel.sections["message"]["kind"] == "error" and not panel.sections["search"]["running"]


def test_a_search_ends_where_its_watcher_says_so():
    def once(stats):
        if stats.states > 2:
            raise StopIteration

    found, stats, _ = search(ea.parse(CONV, **SHAPES), Budget(states=50), progress=once)
    assert found and stats.states == 3 and stats.stopped == "by the one who watched"
