"""An ordered map over executors: the same results everywhere, also when workers die."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import pytest

import einalg as ea
from derive.rewriting.moves import moves
from derive.rules import ALL
from derive.search.executor import ordered_map
from einalg.language.analysis.canonical import key
from tests.helpers.dask_cluster import dask_client


def square(number):
    return number * number


def slow_first(number):
    time.sleep(0.05 if number == 0 else 0.0)
    return number


def refuse(number):
    if number == 3:
        raise KeyError("three")
    return number


def die_once(marker, number):
    """Kills its own process the first time that it meets 2."""
    if number == 2 and not os.path.exists(marker):
        with open(marker, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_elsewhere(home, number):
    """Kills every process but the one at home."""
    if os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def pool(method, workers=2):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(method))


def test_results_keep_the_order_of_the_items():
    with ThreadPoolExecutor(4) as threads:
        assert (
            ordered_map(threads, slow_first, range(8))
            == list(range(8))
            == ordered_map(None, slow_first, range(8))
        )
        assert ordered_map(threads, square, iter([])) == [] == ordered_map(None, square, [])


def test_processes_that_are_spawned():
    with pool("spawn", 1) as processes:
        assert ordered_map(processes, square, range(5)) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("executor", [None, "threads", "spawn"])
def test_an_exception_of_the_function_is_raised_as_it_is(executor, caplog):
    made = (
        None
        if executor is None
        else ThreadPoolExecutor(2)
        if executor == "threads"
        else pool("spawn", 1)
    )
    with pytest.raises(KeyError, match="three"), caplog.at_level(logging.WARNING, "einalg"):
        ordered_map(made, refuse, range(5))
    assert not caplog.records
    if made is not None:
        made.shutdown()


def test_a_worker_that_is_killed_loses_nothing(tmp_path, caplog):
    with pool("spawn") as processes, caplog.at_level(logging.WARNING, "einalg"):
        assert ordered_map(processes, partial(die_once, str(tmp_path / "died")), range(6)) == [
            n * n for n in range(6)
        ]
    assert (tmp_path / "died").exists()
    assert (
        len(caplog.records) == 1
        and "BrokenProcessPool" in caplog.text
        and "computed again" in caplog.text
    )


def test_where_every_worker_dies_the_work_is_done_here():
    with pool("spawn", 1) as processes:
        assert ordered_map(processes, partial(die_elsewhere, os.getpid()), range(3)) == [0, 1, 4]


def test_an_executor_that_is_closed():
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    assert ordered_map(threads, square, range(3)) == [0, 1, 4]


class Lossy:
    """An executor that loses its first results: cancelled, or by an error of its transport."""

    def __init__(self, error):
        self.error, self.calls = error, 0

    def submit(self, function, item):
        self.calls += 1
        future = Future()
        if self.calls > 2:
            future.set_result(function(item))
        elif self.error is None:
            future.cancel()
        else:
            future.set_exception(self.error)
        return future


@pytest.mark.parametrize("error", [None, ConnectionResetError("gone"), EOFError()])
def test_lost_results_are_computed_again_on_the_executor(error):
    executor = Lossy(error)
    assert ordered_map(executor, square, range(4)) == [0, 1, 4, 9]
    assert executor.calls == 4 + 2


@pytest.mark.filterwarnings("ignore")
def test_dask():
    with dask_client(threads=2) as client:
        executor = client.get_executor()
        assert ordered_map(executor, square, range(5)) == [0, 1, 4, 9, 16]
        with pytest.raises(KeyError, match="three"):
            ordered_map(executor, refuse, range(5))


def test_programs_and_moves_travel():
    conv = ea.parse(
        "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]",
        A=(1, 16, 7, 7),
        K=(32, 16, 3, 3),
    )
    program = ea.Program([("O", conv)], ["O"])
    for value in (conv, program):
        again = pickle.loads(pickle.dumps(value))
        assert key(again) == key(value) and str(again) == str(value)
    steps = list(moves(program, ALL.values()))
    assert [str(m) for m in pickle.loads(pickle.dumps(steps))] == [str(m) for m in steps]


def test_travelling_is_quick():
    conv = ea.parse(
        "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]",
        A=(1, 16, 7, 7),
        K=(32, 16, 3, 3),
    )
    program = ea.Program([("O", conv)], ["O"])
    packed = pickle.dumps(program)
    spent = []
    for _ in range(20):
        began = time.process_time()
        pickle.loads(pickle.dumps(program))
        spent.append(time.process_time() - began)
    assert min(spent) < 5e-3 and len(packed) < 20_000
