"""Commands that run beside this process: none of them outlives the work that it was started for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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

    A thread of `Background` runs it: an interrupt, which comes in the main thread alone, never
    comes between the start of a command and the code that ends it.
    """
    group = _group.get()
    if group is None:
        with Background(1) as background:
            return background.submit(lambda one: run_command(one, timeout), command).result()
    limit = min(timeout, time_left())
    if limit <= 0:
        raise OutOfTime
    with group.started(command) as process:
        try:
            said = process.communicate(timeout=limit)[1]
        except subprocess.TimeoutExpired:
            if limit < timeout:
                raise OutOfTime from None
            raise
        return process.returncode, said


class Background:
    """A few threads that run functions which start commands, while the caller goes on.

    As a context manager it waits for them at its end; at an exception it stops them.

    >>> with Background(1) as background:
    ...     status = background.submit(lambda text: run_command(["test", text], 10.0)[0], "a")
    >>> status.result()
    0
    """

    def __init__(self, threads: int):
        self._pool, self._group = ThreadPoolExecutor(threads), CommandGroup()

    def submit(self, function: Callable[[Item], Result], item: Item) -> Future[Result]:
        """Begin a function of an item as soon as a thread is free, with the limits of now."""
        context = copy_context()
        context.run(_group.set, self._group)
        return self._pool.submit(context.run, function, item)

    def stop(self) -> None:
        """Kill the commands that run, begin nothing that waits, and return when all is over."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._group.kill()
        self._pool.shutdown()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.stop()
        self._pool.shutdown()


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the results of a function that runs commands, for all items at once, in their order.

    Where one raises, or an interrupt comes, the commands of all are killed.

    >>> in_parallel(lambda text: run_command(["test", text], 10.0)[0], ["a", ""])
    [0, 1]
    """
    work = list(items)
    if len(work) < 2:
        return [function(item) for item in work]
    with Background(len(work)) as background:
        futures = [background.submit(function, item) for item in work]
        return [future.result() for future in futures]


def _kill(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
