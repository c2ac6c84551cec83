"""Commands that run beside this process: none of them outlives the work that it was started for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from threading import Lock
from typing import Any, TypeVar

from einalg.runtime.clock import OutOfTime, time_left

Item = TypeVar("Item")
Result = TypeVar("Result")


class CommandGroup:
    """The commands that run now; once it is killed, no other one starts."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock, self._is_killed = Lock(), False

    @contextmanager
    def started(self, command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        """Start a command; at an exception it is killed, with the processes that it started."""
        with self._lock:
            if self._is_killed:
                raise OutOfTime
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        with process:
            try:
                yield process
            except BaseException:
                _kill(process)
                raise
            finally:
                self._running.discard(process)

    def kill(self) -> None:
        """Kill all commands that run, and let none start."""
        with self._lock:
            self._is_killed = True
            for process in list(self._running):
                _kill(process)


_group: ContextVar[CommandGroup | None] = ContextVar("group", default=None)


def run_command(command: Sequence[str], timeout: float) -> tuple[int, str]:
    """Return the exit status and messages of a command.

    At the timeout, in seconds, it is killed, with the processes that it started. Raises
    `OutOfTime` where the work that it is for has no time left before that.
    """
    limit = min(timeout, time_left())
    if limit <= 0:
        raise OutOfTime
    group = _group.get() or CommandGroup()
    with group.started(command) as process:
        try:
            said = process.communicate(timeout=limit)[1]
        except subprocess.TimeoutExpired:
            if limit < timeout:
                raise OutOfTime from None
            raise
        return process.returncode, said


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the results of a function that runs commands, for all items at once, in their order.

    Where one raises, or an interrupt comes, the commands of all are killed.

    >>> in_parallel(lambda text: run_command(["test", text], 10.0)[0], ["a", ""])
    [0, 1]
    """
    work = list(items)
    if len(work) < 2:
        return [function(item) for item in work]
    group = CommandGroup()
    token = _group.set(group)
    try:
        with ThreadPoolExecutor(len(work)) as pool:
            try:
                futures = [pool.submit(_in_context(function), item) for item in work]
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                group.kill()
                raise
    finally:
        _group.reset(token)


def _in_context(function: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """Return the function for another thread, with the limits of this one."""
    context = copy_context()
    return lambda item: context.run(function, item)


def _kill(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
