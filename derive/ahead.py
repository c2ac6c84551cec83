"""States that are expanded ahead of time, elsewhere, so that the search finds them done when it comes to them (design §8)."""

from __future__ import annotations

import heapq
import logging
from typing import Any, Protocol

from derive.expansion import Expansion, Successor
from einalg.program import Program

log = logging.getLogger("einalg")


class State(Protocol):
    """A program with its place in the order in which the search comes to it."""

    order: int
    program: Program


class Ahead:
    """Successors of states; with an executor those of the states that come next are computed before they are asked for."""

    def __init__(self, executor: Any, expand: Expansion, width: int = 8):
        self.executor, self.expand, self.width = executor, expand, width
        self.running: dict[int, Any] = {}

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: Any) -> None:
        for future in self.running.values():
            future.cancel()

    def look(self, queue: list[Any]) -> None:
        """Begin the expansion of the states at the head of the queue."""
        if self.executor is None:
            return
        for state in heapq.nsmallest(self.width, queue):
            if state.order not in self.running:
                try:
                    self.running[state.order] = self.executor.submit(self.expand, state.program)
                except Exception as error:  # a broken pool: this process goes on by itself
                    log.warning("the executor takes no more work (%s); the search goes on here", error)
                    self.executor = None
                    return

    def successors(self, state: State) -> list[Successor]:
        future = self.running.pop(state.order, None)
        if future is not None:
            try:
                return future.result()
            except Exception as error:  # a worker was lost: its work is done again
                log.warning("a worker was lost (%s); its work is done here", error)
        return self.expand(state.program)
