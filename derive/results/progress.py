"""How far a search or an optimization is, shown while it runs (design §12, §20).

A `Ticker` draws the words of a `Course` a few times a second, whatever the work does meanwhile: on
a line of the terminal, in the output of a notebook's cell, or as log lines.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any, Protocol, TextIO

from derive.search.candidates import Stats
from einalg.runtime.clock import Clock, Course
from einalg.text.terminal import width
from einalg.text.wording import counted

log = logging.getLogger("einalg")

TICK = 0.2  # seconds between two drawings
LOG_TICK = 2.0  # seconds between two log lines
CLEAR_LINE = "\r\x1b[2K"  # for a terminal: back to its first column, and nothing on it
MIN_COLUMNS = 20
Progress = Callable[..., None] | bool | None


class Display(Protocol):
    """The place where progress is shown."""

    interval: float  # seconds between two drawings

    def draw(self, status: str) -> None:
        """Show what is being done, in the place of what was shown before."""
        ...

    def keep(self, line: str) -> None:
        """Show a line that stays."""
        ...

    def end(self) -> None:
        """Leave only the lines that stay."""
        ...


class TerminalLine:
    """A line of a terminal, which is drawn anew, below the lines that stay."""

    interval = TICK

    def __init__(self, stream: TextIO):
        self._stream = stream

    def draw(self, status: str) -> None:
        columns = max(MIN_COLUMNS, width() - 1)
        self._write(CLEAR_LINE + status[:columns])

    def keep(self, line: str) -> None:
        columns = max(MIN_COLUMNS, width() - 1)
        self._write(f"{CLEAR_LINE}{line[:columns]}\n")

    def end(self) -> None:
        self._write(CLEAR_LINE)

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "ascii"
        with suppress(OSError, ValueError):  # of a terminal that is gone
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()


class NotebookOutput:
    """A text in the output of the cell that runs."""

    interval = TICK

    def __init__(self) -> None:
        from IPython.display import display

        self._lines: list[str] = []
        self._handle: Any = display(_plain(""), raw=True, display_id=True)

    def draw(self, status: str) -> None:
        self._handle.update(_plain("\n".join([*self._lines, status])), raw=True)

    def keep(self, line: str) -> None:
        self._lines.append(line)

    def end(self) -> None:
        self._handle.update(_plain("\n".join(self._lines)), raw=True)


def _plain(text: str) -> dict[str, str]:
    return {"text/plain": text}


class LogLines:
    """Lines of the level INFO, where there is no terminal."""

    interval = LOG_TICK

    def draw(self, status: str) -> None:
        log.info("einalg: %s", status)

    def keep(self, line: str) -> None:
        log.info("einalg: %s", line)

    def end(self) -> None:
        """Leave everything as it is."""


class Ticker:
    """A thread that draws how far a course is, from time to time until it is stopped."""

    def __init__(self, title: str, clock: Clock, display: Display):
        self._title, self._clock, self._display = title, clock, display
        self._kept = 0  # lines that are shown already
        self._ended = Event()
        self._thread = Thread(target=self._run, name="einalg-progress", daemon=True)

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()
        self._keep_lines()
        self._display.end()

    def _run(self) -> None:
        while not self._ended.wait(self._display.interval):
            self.tick()

    def tick(self) -> None:
        """Draw once."""
        self._keep_lines()
        status = status_line(self._clock.course)
        self._display.draw(f"{self._title} {self._clock.spent:.1f} s  {status}")

    def _keep_lines(self) -> None:
        results = self._clock.course.results
        while self._kept < len(results):
            self._display.keep(results[self._kept])
            self._kept += 1


def status_line(course: Course) -> str:
    """Return what is being done, and the best so far.

    >>> status_line(Course(phase="compiling", detail="3 of 12", best="1.240 ms, 2.3x (proved)"))
    'compiling 3 of 12 | best 1.240 ms, 2.3x (proved)'
    """
    parts = [f"{course.phase} {course.detail}".strip()]
    if course.best:
        parts.append(f"best {course.best}")
    return " | ".join(parts)


def display_for(progress: bool | None) -> Display | None:
    """Return where progress is shown; None where it is not.

    By default it is shown in notebooks and terminals; where it is asked for elsewhere, it is
    logged.
    """
    if progress is False:
        return None
    if _is_in_notebook():
        return NotebookOutput()
    terminal = _terminal()
    if terminal is not None:
        return TerminalLine(terminal)
    return LogLines() if progress else None


def _terminal() -> TextIO | None:
    """Return the stream of errors where that is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        return sys.stderr
    return None


def _is_in_notebook() -> bool:
    """Tell whether a kernel of Jupyter runs this."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return hasattr(shell, "kernel")


@contextmanager
def shown_progress(
    progress: Progress, clock: Clock, title: str
) -> Iterator[Callable[..., None] | None]:
    """Show how far the work of a clock is, while a block runs.

    Gives the function that is to be called about it where `progress` is one; then nothing is shown.
    """
    if callable(progress):
        yield progress
        return
    display = display_for(progress)
    if display is None:
        yield None
        return
    with Ticker(title, clock, display):
        yield None


def format_stats(stats: Stats) -> str:
    """Return the statistics in a few words.

    >>> format_stats(Stats(states=3, candidates=1, duplicates=2))
    '3 states, 1 candidate'
    """
    return f"{counted(stats.states, 'state')}, {counted(stats.candidates, 'candidate')}"
