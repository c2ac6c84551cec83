"""A search on executors: the same programs, moves, order and statistics as in one process, also
when workers die.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

import pytest

import einalg as ea
from bench.cases import CASES
from derive.results.pipeline import find_derivation
from derive.rewriting.moves import Rule
from derive.rules import ALL
from derive.search.best_first import Budget, search, templates_by_name
from derive.search.expansion import StateExpander
from tests.helpers.dask_cluster import dask_client

BUDGET = Budget(states=12, seconds=600)
CONV = CASES["Conv3x3 dilation 2"].small
UPSCALED = CASES["ConvTranspose 1d stride 3"].small


@ea.rule("swapped", before="L[x] f*g", after="L[x] g*f")
def swapped(scope):
    """Proposes nothing: a rule that a module holds."""
    return iter(())


@ea.rule("refusing", before="L[x] f", after="L[x] f")
def refusing(scope):
    """A rule with a mistake in it."""
    raise LookupError("a mistake in a rule")


def told(result):
    """All that a search found, in order, without what the clock says."""
    found, stats, explored = result
    candidates = [
        (str(f.program), f.moves, f.estimate, f.states, [str(k) for k in f.kernels]) for f in found
    ]
    numbers = (
        stats.states,
        stats.generated,
        stats.candidates,
        stats.duplicates,
        stats.rejected,
        stats.stopped,
    )
    return candidates, numbers, [row.as_record() for row in explored]


@cache
def here(case):
    """What the search finds in this process."""
    return told(search(case().expression, BUDGET))


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "einalg"]


@contextmanager
def processes(workers=2):
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@contextmanager
def threads():
    with ThreadPoolExecutor(3) as pool:
        yield pool


@contextmanager
def dask():
    with dask_client(threads=2) as client:
        yield client.get_executor()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", [processes, threads, dask])
def test_a_search_elsewhere_is_the_search_here(made, caplog):
    with made() as executor, caplog.at_level(logging.WARNING, "einalg"):
        for case in (CONV, UPSCALED):
            assert told(search(case().expression, BUDGET, executor=executor)) == here(case)
            assert here(case)[0] and here(case)[1][0] > 5
    assert not warnings_of(caplog)


def test_candidates_are_proven_elsewhere_too():
    given = dict(rules=None, backend=None, measure=False)
    alone = find_derivation(CONV().expression, BUDGET, **given)
    with threads() as executor:
        there = find_derivation(CONV().expression, BUDGET, executor=executor, **given)
    assert [(str(c.program), c.moves, c.verdict) for c in there.candidates] == [
        (str(c.program), c.moves, c.verdict) for c in alone.candidates
    ]


def test_a_killed_process_loses_nothing(caplog):
    """Every worker is killed while states are under way."""
    expected = here(CONV)
    with processes() as pool, caplog.at_level(logging.WARNING, "einalg"):

        def kill(stats):
            if stats.states == 4:
                for process in list(pool._processes.values()):
                    os.kill(process.pid, signal.SIGKILL)

        assert told(search(CONV().expression, BUDGET, executor=pool, progress=kill)) == expected
    assert "BrokenProcessPool" in caplog.text or "takes no more work" in caplog.text


@pytest.mark.filterwarnings("ignore")
def test_a_killed_dask_worker_loses_nothing():
    """Whatever it had under way is done by the other one, or here."""
    expected, killed = here(CONV), []
    with dask_client(workers=2, processes=True) as client:

        def kill(stats):
            if stats.states == 4:
                killed.append(min(client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        assert (
            told(search(CONV().expression, BUDGET, executor=client.get_executor(), progress=kill))
            == expected
        )
    assert killed


class Scripted:
    """An executor that does its work at once, and loses every so-manieth piece of it."""

    def __init__(self, every):
        self.every, self.calls = every, 0

    def submit(self, function, item):
        self.calls += 1
        future = Future()
        if self.calls % self.every == 0:
            future.set_exception(ConnectionResetError("gone"))
        else:
            future.set_result(
                pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(function))(item)))
            )
        return future


def test_losses_now_and_then(caplog):
    expected = here(CONV)
    executor = Scripted(3)
    with caplog.at_level(logging.WARNING, "einalg"):
        assert told(search(CONV().expression, BUDGET, executor=executor)) == expected
    assert executor.calls > 6 and len(warnings_of(caplog)) == 1 and "gone" in caplog.text


def test_an_executor_that_loses_everything_is_given_up(caplog):
    executor = Scripted(1)
    with caplog.at_level(logging.WARNING, "einalg"):
        result = told(search(CONV().expression, BUDGET, executor=executor))
    assert result == here(CONV)
    assert len(warnings_of(caplog)) == 2 and "alone" in caplog.text
    assert executor.calls < result[1][0] + 16


def test_an_executor_that_is_closed(caplog):
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with caplog.at_level(logging.WARNING, "einalg"):
        assert told(search(CONV().expression, BUDGET, executor=pool)) == here(CONV)
    assert len(warnings_of(caplog)) == 1 and "takes no more work" in caplog.text


def test_a_mistake_in_a_rule_is_raised(caplog):
    with (
        threads() as executor,
        caplog.at_level(logging.WARNING, "einalg"),
        pytest.raises(LookupError, match="a mistake in a rule"),
    ):
        search(CONV().expression, BUDGET, rules=[*ALL.values(), refusing], executor=executor)
    with (
        caplog.at_level(logging.WARNING, "einalg"),
        pytest.raises(LookupError, match="a mistake in a rule"),
    ):
        search(CONV().expression, BUDGET, rules=[*ALL.values(), refusing], executor=Scripted(1000))
    assert not warnings_of(caplog)


def test_a_rule_of_a_module_travels():
    again = pickle.loads(pickle.dumps(swapped))
    assert isinstance(again, Rule) and again == swapped


def test_a_rule_that_does_not_travel(caplog):
    @ea.rule("local", before="L[x] f", after="L[x] f")
    def local(scope):
        return iter(())

    rules = [*ALL.values(), local]
    expected = told(search(CONV().expression, BUDGET, rules=rules))
    with caplog.at_level(logging.WARNING, "einalg"):
        with threads() as executor:
            assert (
                told(search(CONV().expression, BUDGET, rules=rules, executor=executor)) == expected
            )
        assert not warnings_of(caplog)
        with processes(1) as executor:
            assert (
                told(search(CONV().expression, BUDGET, rules=rules, executor=executor)) == expected
            )
    assert (
        "the rule 'local' cannot be sent" in caplog.text and "top level of a module" in caplog.text
    )


def test_what_travels_is_small():
    """Rules and operators go by name, and a state is a few kilobytes."""
    expansion = StateExpander(dict(ALL), templates_by_name(None))
    again = pickle.loads(pickle.dumps(expansion))
    assert list(again.rules.items()) == list(expansion.rules.items())
    assert all(
        one is other for one, other in zip(again.templates, expansion.templates, strict=True)
    )
    assert len(pickle.dumps(expansion)) < 2_000
    program = CASES["Conv3x3 NCHW"].real().program
    assert len(pickle.dumps(program)) < 2_000 and len(pickle.dumps(expansion(program))) < 20_000


def test_only_some_operators_travel_by_number():
    expansion = StateExpander({}, templates_by_name(["matmul", "conv2d"]))
    assert [t.name for t in pickle.loads(pickle.dumps(expansion)).templates] == [
        t.name for t in expansion.templates
    ]
