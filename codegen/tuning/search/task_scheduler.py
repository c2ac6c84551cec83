"""Which unit of a program is searched next: in turns at first, then that with the largest gradient.

After Ansor (OSDI'20, §6): another round of a unit is expected to save what its last ones saved, and
what optimism says, which sinks with each round. A unit counts as often as a run computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import floor, inf, log, sqrt

WINDOW = 3  # rounds, over which past gains are averaged
PAST_WEIGHT = 0.2  # of past gains in the gradient, beside what is hoped for
SIMILAR_RATIO = 2.0  # to the best rate of similar units, that a unit is expected to reach
WORK_RATIO = (1 + sqrt(5)) / 2  # of the work of units that are similar
FIRST_ROUNDS = 2  # that each unit has in any case: its start, and a batch


@dataclass
class TuningTask:
    """A unit that is searched.

    A run computes it `count` times. It has so much `work`, in computations of its body, of a `kind`
    such as `("conv2d", "f32")`. `best` has the seconds of the best after each round, infinite
    before the first measurement. It `is_done` where nothing new is left to measure.
    """

    count: int
    work: float
    kind: Hashable
    best: list[float] = field(default_factory=list)
    is_done: bool = False

    @property
    def rounds(self) -> int:
        return len(self.best)

    @property
    def seconds(self) -> float:
        """Return the seconds of the best so far; infinity before the first measurement."""
        if not self.best:
            return inf
        return self.best[-1]

    @property
    def group(self) -> Hashable:
        """Return what similar units share: the kind, and about the work."""
        return self.kind, floor(log(max(1.0, self.work), WORK_RATIO))

    @property
    def past_gain(self) -> float:
        """Return the seconds that each of the last rounds has saved; 0 where these are too few."""
        if self.rounds <= WINDOW or self.best[-1 - WINDOW] == inf:
            return 0.0
        return (self.best[-1 - WINDOW] - self.best[-1]) / WINDOW

    @property
    def stale_rounds(self) -> int:
        """Return how many rounds ago the best was measured."""
        return self.rounds - 1 - self.best.index(self.best[-1])


Scheduler = Callable[[Sequence[TuningTask]], int | None]


def promised_seconds(task: TuningTask, tasks: Sequence[TuningTask]) -> float:
    """Return the seconds of a run that another round of a task is expected to save.

    >>> task = TuningTask(2, 1e6, "conv2d", [8e-3, 4e-3])
    >>> promised_seconds(task, [task])  # 2 * 0.8 * 4 ms / 2
    0.0032
    """
    if task.is_done or task.seconds == inf:
        return 0.0
    hope = max(task.seconds / task.rounds, _gain_of_similar(task, tasks))
    return task.count * (PAST_WEIGHT * task.past_gain + (1 - PAST_WEIGHT) * hope)


def _gain_of_similar(task: TuningTask, tasks: Sequence[TuningTask]) -> float:
    """Return the seconds that a task saves once it has half the rate of the best similar one.

    Less with each round that gained nothing: the task may be slower for a reason.
    """
    group = [other for other in tasks if other.group == task.group and other.seconds < inf]
    rate = max(other.work / other.seconds for other in group)
    if not rate:
        return 0.0  # of kernels that compute nothing
    gain = task.seconds - SIMILAR_RATIO * task.work / rate
    return max(0.0, gain) / (1 + task.stale_rounds)


def by_gradient(tasks: Sequence[TuningTask]) -> int | None:
    """Return the number of the task that has the next round; None where all are done.

    Each has its first rounds in turns, then the one that promises most is next.
    """
    number = in_turns(tasks)
    if number is None or tasks[number].rounds < FIRST_ROUNDS:
        return number
    waiting = [number for number, task in enumerate(tasks) if not task.is_done]
    return max(waiting, key=lambda number: promised_seconds(tasks[number], tasks))


def in_turns(tasks: Sequence[TuningTask]) -> int | None:
    """Return the number of a task with the fewest rounds; None where all are done.

    >>> in_turns([TuningTask(1, 8.0, "sum", [1e-3]), TuningTask(1, 8.0, "sum")])
    1
    """
    waiting = [number for number, task in enumerate(tasks) if not task.is_done]
    return min(waiting, key=lambda number: tasks[number].rounds, default=None)


def run_seconds(tasks: Sequence[TuningTask]) -> float:
    """Return the seconds of a run of all tasks with their best; infinity where one has none."""
    return sum(task.count * task.seconds for task in tasks)
