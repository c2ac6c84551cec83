"""Work that leaves this process, by anything with `concurrent.futures.Executor.submit`.

Items are pure, picklable and restartable. What a worker loses is computed again, so that a result
never depends on where it was made (design §8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

from einalg.errors import first_line

log = logging.getLogger("einalg")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class TaskResult:
    """The value of a function for one item, or the exception that it raised."""

    value: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True)
class GuardedTask:
    """A function whose own exceptions are returned: those that are raised are the executor's."""

    function: Callable[[Any], Any]

    def __call__(self, item: Any) -> TaskResult:
        try:
            return TaskResult(self.function(item))
        except Exception as error:
            return TaskResult(error=error)


class TaskFailure(Exception):
    """An executor failed to do some work, for a reason of its own: it is to be done again."""


def ordered_map(
    executor: Any, function: Callable[[Item], Result], items: Iterable[Item]
) -> list[Result]:
    """Return the function's results in the order of the items; without an executor, computed here.

    Processes, threads, loky, Dask (`Client.get_executor()`) and MPI all are executors. Where one
    loses work, as a killed worker does, the missing results are computed once more by it if it
    still takes work, else here. An exception of the function is raised as it is.

    >>> ordered_map(None, abs, [-2, 1])
    [2, 1]
    """
    work = list(items)
    if executor is None:
        return [function(item) for item in work]
    task = GuardedTask(function)
    results, reason = _submitted(executor, task, dict(enumerate(work)))
    missing = {position: item for position, item in enumerate(work) if position not in results}
    if missing:
        log.warning(
            "einalg: %d of %d results were lost by the executor (%s); they are computed again",
            len(missing),
            len(work),
            reason,
        )
        results |= _submitted(executor, task, missing)[0]
    values = []
    for position, item in enumerate(work):
        if position in results:
            values.append(results[position].get())
        else:
            values.append(function(item))
    return values


def _submitted(
    executor: Any, task: GuardedTask, items: dict[int, Any]
) -> tuple[dict[int, TaskResult], str]:
    """Return the results that come back, by position, and why the first other one did not."""
    futures, results = {}, {}
    reasons: list[str] = []
    try:
        for position, item in items.items():
            futures[position] = submit_task(executor, task, item)
    except TaskFailure as loss:
        reasons.append(str(loss))
    for position, future in futures.items():
        try:
            results[position] = task_result(future)
        except TaskFailure as loss:
            reasons.append(str(loss))
    return results, reasons[0] if reasons else ""


def submit_task(executor: Any, task: GuardedTask, item: Any) -> Any:
    """Return a future of a task.

    Raises `TaskFailure` where the executor is broken, closed or out of reach.
    """
    try:
        return executor.submit(task, item)
    except Exception as error:
        raise TaskFailure(_first_line(error)) from error


def task_result(future: Any) -> TaskResult:
    """Return the result of a future.

    Raises `TaskFailure` where it did not come back, as from a worker that was killed, or where its
    value does not travel.
    """
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        raise TaskFailure(_first_line(error)) from error


def _first_line(error: BaseException) -> str:
    line = first_line(error)
    if line == type(error).__name__:
        return line
    return f"{type(error).__name__}: {line}"
