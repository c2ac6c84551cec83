"""Work that leaves this process: an ordered map over anything with `concurrent.futures.Executor.submit` (design §8).

Items are pure, picklable and restartable. What a worker loses is computed again, so that a result never depends on where it was made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

log = logging.getLogger("einalg")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class TaskResult:
    """What the function did with one item: its value, or the exception that it raised."""

    value: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True)
class GuardedTask:
    """The function, called so that an exception of its own is told from one of the executor: this one is returned, that one raised."""

    function: Callable[[Any], Any]

    def __call__(self, item: Any) -> TaskResult:
        try:
            return TaskResult(self.function(item))
        except Exception as error:
            return TaskResult(error=error)


class TaskFailure(Exception):
    """An executor did not do some work, for a reason of its own: the work is to be done again."""


def ordered_map(
    executor: Any, function: Callable[[Item], Result], items: Iterable[Item]
) -> list[Result]:
    """The function's results in the order of the items, computed by an executor, or here where it is None.

    Processes, threads, loky, Dask (`Client.get_executor()`) and MPI all are executors. Where one loses work, as a killed worker does,
    the missing results are computed once more by it if it still takes work, else here. An exception of the function is raised as it is.

    >>> ordered_map(None, abs, [-2, 1])
    [2, 1]
    """
    work = list(items)
    if executor is None:
        return [function(item) for item in work]
    attempt = GuardedTask(function)
    done, reason = _submitted(executor, attempt, dict(enumerate(work)))
    missing = {position: item for position, item in enumerate(work) if position not in done}
    if missing:
        log.warning(
            "einalg: %d of %d results were lost by the executor (%s); they are computed again",
            len(missing),
            len(work),
            reason,
        )
        done |= _submitted(executor, attempt, missing)[0]
    return [
        done[position].get() if position in done else function(item)
        for position, item in enumerate(work)
    ]


def _submitted(
    executor: Any, attempt: GuardedTask, items: dict[int, Any]
) -> tuple[dict[int, TaskResult], str]:
    """The outcomes that come back, by position, and what became of the first other one."""
    futures, done, reasons = {}, {}, []
    try:
        for position, item in items.items():
            futures[position] = submit_task(executor, attempt, item)
    except TaskFailure as loss:
        reasons.append(str(loss))
    for position, future in futures.items():
        try:
            done[position] = task_result(future)
        except TaskFailure as loss:
            reasons.append(str(loss))
    return done, reasons[0] if reasons else ""


def submit_task(executor: Any, attempt: GuardedTask, item: Any) -> Any:
    """A future of the attempt; `TaskFailure` where the executor is broken, closed or out of reach."""
    try:
        return executor.submit(attempt, item)
    except Exception as error:
        raise TaskFailure(_told(error)) from error


def task_result(future: Any) -> TaskResult:
    """What the attempt of a future came to; `TaskFailure` where it did not come back: a worker that was killed, a value that does not travel."""
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        raise TaskFailure(_told(error)) from error


def _told(error: BaseException) -> str:
    return (
        f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if str(error)
        else type(error).__name__
    )
