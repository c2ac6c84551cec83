"""Commands that run beside this process end with the work that they are for."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from einalg.runtime.clock import Clock, OutOfTime
from einalg.runtime.processes import Background, in_parallel, run_command


def children() -> set[str]:
    """Return the processes that this one has started, such as the server that others fork from."""
    started: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        started.update(path.read_text().split())
    return started


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    """No thread and no child is left.

    An interrupt that comes while a thread is started has no thread to wait for: it ends at once.
    """
    threads, before = set(threading.enumerate()), children()
    yield
    wait_until(lambda: set(threading.enumerate()) <= threads)
    assert children() <= before


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Interrupts are heard, also by a process that was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def shell(text: str) -> int:
    return run_command(["sh", "-c", text], 20.0)[0]


def wait_until(condition: Callable[[], bool]) -> None:
    end = monotonic() + 20.0
    while not condition():
        assert monotonic() < end
        sleep(0.01)


def test_work_goes_on_in_the_background(tmp_path: Path) -> None:
    """The caller may wait for a result later; what waits for a thread begins in order."""
    with Background(1) as background:
        first = background.submit(shell, f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 3")
        second = background.submit(shell, f"exit $([ -e {tmp_path}/go ]; echo $?)")
        assert not first.done()
        (tmp_path / "go").touch()
        assert (first.result(), second.result()) == (3, 0)


def test_a_stop_kills_what_runs_and_begins_nothing(tmp_path: Path) -> None:
    background = Background(1)
    running = background.submit(shell, f"touch {tmp_path}/runs; sleep 600")
    waiting = background.submit(shell, f"touch {tmp_path}/waited")
    wait_until((tmp_path / "runs").exists)
    background.stop()
    assert running.done() and waiting.cancelled() and not (tmp_path / "waited").exists()
    background.stop()  # another time changes nothing


def test_an_exception_stops_the_background(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Background(2) as background:
        background.submit(shell, f"touch {tmp_path}/runs; sleep 600")
        wait_until((tmp_path / "runs").exists)
        raise ZeroDivisionError


def test_the_limits_of_the_one_who_submits_hold() -> None:
    with Background(1) as background:
        with Clock.of(0.05).limiting():
            future = background.submit(shell, "sleep 600")
        with pytest.raises(OutOfTime):
            future.result()


def test_where_one_raises_all_end() -> None:
    def run(text: str) -> int:
        if text == "raise":
            raise ZeroDivisionError
        return shell(text)

    with pytest.raises(ZeroDivisionError):
        in_parallel(run, ["raise", "sleep 600"])


@pytest.mark.usefixtures("heard_interrupts")
def test_an_interrupt_ends_a_command_that_has_just_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """However early it comes: before the one who started the command knows of it."""
    start = subprocess.Popen[str]

    def started(*arguments: Any, **options: Any) -> Any:
        process = start(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(KeyboardInterrupt):
        shell("sleep 600")
