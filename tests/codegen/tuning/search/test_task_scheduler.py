"""Which unit of a program is searched next: the gradient spends trials where a run saves most."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest

from codegen.tuning.search.task_scheduler import (
    FIRST_ROUNDS,
    Scheduler,
    TuningTask,
    by_gradient,
    in_turns,
    promised_seconds,
    run_seconds,
)

ROUNDS = 12  # of each task on average
# How often a run computes a unit, its seconds at first, those that no schedule takes less than, and
# the part of the rest that a round leaves: as of convolutions, of which some come often, and of
# loops that are bound by memory.
NETWORK = [
    (16, 2e-3, 0.8e-3, 0.8),
    (1, 1e-3, 0.6e-3, 0.7),
    (4, 3e-3, 2e-3, 0.75),
    (1, 0.2e-3, 0.2e-3, 0.5),
    (8, 0.1e-3, 0.09e-3, 0.6),
    (1, 4e-3, 3.8e-3, 0.9),
    (2, 0.5e-3, 0.2e-3, 0.85),
    (1, 0.3e-3, 0.1e-3, 0.8),
]
Measured = tuple[int, float, float, float]


def tasks_of(network: Sequence[Measured]) -> list[TuningTask]:
    return [TuningTask(count, 1e6 * 7**n, "conv2d") for n, (count, *_) in enumerate(network)]


def measure(task: TuningTask, measured: Measured) -> None:
    _, first, least, left = measured
    task.best.append(least + (first - least) * left**task.rounds)


def curve(network: Sequence[Measured], scheduler: Scheduler, rounds: int) -> list[float]:
    """Return the seconds of a run after each round; infinite until each task has its first."""
    tasks, seconds = tasks_of(network), list[float]()
    for _ in range(rounds):
        number = scheduler(tasks)
        assert number is not None
        measure(tasks[number], network[number])
        seconds.append(run_seconds(tasks))
    return seconds


def test_the_gradient_reaches_the_end_of_turns_in_fewer_rounds() -> None:
    rounds = ROUNDS * len(NETWORK)
    turns, gradient = curve(NETWORK, in_turns, rounds), curve(NETWORK, by_gradient, rounds)
    reached = next(number for number, seconds in enumerate(gradient, 1) if seconds <= turns[-1])
    assert reached <= 0.6 * rounds and gradient[-1] < turns[-1] < turns[len(NETWORK)]


def test_equal_tasks_have_equal_shares() -> None:
    network = [(2, 1e-3, 0.5e-3, 0.8)] * 4
    tasks = tasks_of(network)
    for _ in range(40):
        number = by_gradient(tasks)
        assert number is not None
        measure(tasks[number], network[number])
    assert {task.rounds for task in tasks} == {10}


def test_each_task_has_its_first_rounds_in_turns() -> None:
    tasks, order = tasks_of(NETWORK[:3]), list[int]()
    for _ in range(FIRST_ROUNDS * 3):
        number = by_gradient(tasks)
        assert number is not None
        measure(tasks[number], NETWORK[number])
        order.append(number)
    assert order == [0, 1, 2] * FIRST_ROUNDS


def test_what_is_done_has_no_other_round() -> None:
    tasks = tasks_of(NETWORK[:2])
    tasks[0].is_done = True
    assert by_gradient(tasks) == 1 and promised_seconds(tasks[0], tasks) == 0.0
    tasks[1].is_done = True
    assert by_gradient(tasks) is None


def test_what_was_never_measured_comes_last_but_comes() -> None:
    """Each candidate of it was refused so far."""
    tasks = tasks_of(NETWORK[:2])
    tasks[0].best = [inf] * FIRST_ROUNDS
    tasks[1].best = [1e-3] * FIRST_ROUNDS
    assert by_gradient(tasks) == 1 and run_seconds(tasks) == inf
    tasks[1].is_done = True
    assert by_gradient(tasks) == 0


@pytest.mark.parametrize("work, promised", [(1e6, 0.8 * 6e-3), (9e6, 0.8 * 8e-3 / 3)])
def test_a_task_is_hoped_to_have_half_the_rate_of_a_similar_one(
    work: float, promised: float
) -> None:
    """Of about the same work; of others nothing follows."""
    slow = TuningTask(1, 1e6, "conv2d", [9e-3, 9e-3, 8e-3])
    fast = TuningTask(1, work, "conv2d", [1e-9 * work] * 3)
    assert promised_seconds(slow, [slow, fast]) == pytest.approx(promised)


def test_kernels_that_compute_nothing_promise_no_more_than_they_take() -> None:
    empty = TuningTask(1, 0.0, "sum", [1e-6])
    assert 0 < promised_seconds(empty, [empty]) <= 1e-6


def test_that_hope_sinks_with_rounds_that_gain_nothing() -> None:
    slow = TuningTask(1, 1e6, "conv2d", [9e-3, 9e-3, 8e-3, *[8e-3] * 60])
    fast = TuningTask(1, 1e6, "conv2d", [1e-3] * 3)
    assert promised_seconds(slow, [slow, fast]) < 0.8 * 8e-3 / 50


def test_the_last_gains_count() -> None:
    steady = TuningTask(1, 1e6, "conv2d", [9e-3, 8e-3, 7e-3, 6e-3, 5e-3])
    flat = TuningTask(1, 1e6, "matmul", [5e-3] * 5)
    tasks = [flat, steady]
    assert promised_seconds(steady, tasks) - promised_seconds(flat, tasks) == pytest.approx(0.2e-3)
