"""A search in the background of a session: its progress, what it found, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from time import perf_counter
from typing import Any

from einalg.display.results.search_tree import search_tree_html
from einalg.errors import EinalgError, UseError
from einalg.options import FLAG, checked, real
from einalg.text.wording import counted

EVERY = 0.2  # seconds between two reports
SHOWN = 8  # candidates


class Searching:
    """At most one search at a time; `publish(search=…)` is told how far it is."""

    def __init__(self, session: Any, publish: Callable[..., None]):
        self.session, self.publish = session, publish
        self._thread: Thread | None = None
        self._stop = Event()
        self._told: dict[str, Any] = {}
        self._found: Any = None
        self._began = 0  # the state that it searches from

    def section(self) -> dict[str, Any]:
        """How far the search is, and what it found, as JSON values."""
        return {"running": self.running, **self._told}

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @checked(seconds=real("10", above=0, most=3600), measure=FLAG)
    def start(self, seconds: float = 10.0, measure: bool = False) -> None:
        """Search from the program as it is now, for so many seconds."""
        if self.running:
            raise UseError("a search is running\n  stop it first")
        self._stop.clear()
        self._found, self._began = None, self.session.branches.current
        self._tell(
            running=True,
            seconds=seconds,
            spent=0.0,
            states=0,
            candidates=[],
            tree="",
            summary="",
            error="",
        )
        self._thread = Thread(
            target=self._run,
            args=(float(seconds), bool(measure)),
            name="einalg search",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End the search; what it found until then stays."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def moves_of(self, candidate: int) -> tuple[Any, int]:
        """The moves of a candidate, and the number of the state that they begin from."""
        if self._found is None or not 0 <= candidate < len(self._found.candidates):
            raise UseError(f"there is no candidate number {candidate}\n  search first")
        return self._found.candidates[candidate].moves, self._began

    def _run(self, seconds: float, measure: bool) -> None:
        began = last = perf_counter()

        def progress(stats: Any) -> None:
            nonlocal last
            if self._stop.is_set():
                raise StopIteration
            now = perf_counter()
            if now - last >= EVERY:
                last = now
                self._tell(spent=now - began, states=stats.states, found=stats.candidates)

        try:
            derivation = self.session.search(seconds=seconds, measure=measure, progress=progress)
        except EinalgError as error:
            self._tell(running=False, error=error.message)
        except BaseException as error:
            self._tell(running=False, error=f"{type(error).__name__}: {error}")
            raise
        else:
            self._found = derivation
            shown = [
                _candidate(number, candidate)
                for number, candidate in enumerate(derivation.candidates[:SHOWN])
            ]
            self._tell(
                running=False,
                spent=perf_counter() - began,
                states=derivation.stats.states,
                found=derivation.stats.candidates,
                candidates=shown,
                tree=search_tree_html(derivation.plot()),
                summary=_summary(derivation),
            )

    def _tell(self, **told: Any) -> None:
        self._told.update(told)
        self.publish(search=dict(self._told))


def _summary(derivation: Any) -> str:
    """Return, say, "12 states, 3 candidates; stopped: everything was tried"."""
    states = counted(derivation.stats.states, "state")
    candidates = counted(len(derivation.candidates), "candidate")
    return f"{states}, {candidates}; stopped: {derivation.stats.ending}"


def _candidate(number: int, candidate: Any) -> dict[str, Any]:
    return {
        "number": number,
        "milliseconds": candidate.cost * 1e3,
        "measured": candidate.measured,
        "verdict": candidate.verdict,
        "moves": len(candidate.moves),
        "kernels": [str(kernel) for kernel in candidate.kernels],
    }
