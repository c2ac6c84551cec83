"""States that are expanded ahead of time, elsewhere, so that the search finds them done when it comes to them (design §8)."""

from __future__ import annotations

import heapq
import logging
import pickle
from typing import Any, Protocol

from derive.search.executor import GuardedTask, TaskFailure, submit_task, task_result
from derive.search.expansion import StateExpander, Successor
from einalg.language.ir.program import Program

log = logging.getLogger("einalg")

WIDTH = 16  # states at the head of the queue that are under way at most: enough for some workers, and few to have done for nothing
PATIENCE = 4  # expansions in a row that an executor may lose before it is given up


class State(Protocol):
    """A program with its place in the order in which the search comes to it."""

    order: int
    program: Program


class SpeculativeExpander:
    """Successors of states; with an executor those of the states that come next are computed before they are asked for.

    An expansion is pure: what the executor loses is computed here, and what it computes in vain is thrown away, so that the
    search goes the same way as without it. An exception of the expansion itself is raised where its state is asked for.
    """

    def __init__(self, executor: Any, expand: StateExpander):
        self.executor, self.expand, self.attempt = executor, expand, GuardedTask(expand)
        self.running: dict[int, Any] = {}
        self.lost, self.in_a_row = 0, 0

    def __enter__(self) -> SpeculativeExpander:
        return self

    def __exit__(self, *_: Any) -> None:
        for future in self.running.values():
            future.cancel()
        if self.lost > 1:
            log.info("einalg: %d expansions were lost by the executor and computed here", self.lost)

    def look(self, queue: list[Any]) -> None:
        """Begin the expansion of the states at the head of the queue."""
        if self.executor is None:
            return
        for state in heapq.nsmallest(WIDTH, queue):
            if state.order not in self.running:
                try:
                    self.running[state.order] = submit_task(
                        self.executor, self.attempt, state.program
                    )
                except TaskFailure as loss:
                    self._alone(f"the executor takes no more work ({loss})")
                    return

    def successors(self, state: State) -> list[Successor]:
        """What `expand` gives for the state, wherever it was computed."""
        future = self.running.pop(state.order, None)
        if future is not None:
            try:
                done = task_result(future)
            except TaskFailure as loss:
                self._again(loss)
            else:
                self.in_a_row = 0
                return done.get()
        return self.expand(state.program)

    def _again(self, loss: TaskFailure) -> None:
        """Tell the first loss; after some in a row nothing more is given to the executor."""
        self.lost += 1
        self.in_a_row += 1
        if self.lost == 1:
            log.warning(
                "einalg: the executor lost the expansion of a state (%s); it is computed here%s",
                loss,
                self._remedy(),
            )
        if self.in_a_row == PATIENCE and self.executor is not None:
            self._alone(f"the executor lost {PATIENCE} expansions in a row")

    def _alone(self, reason: str) -> None:
        log.warning("einalg: %s; the search goes on in this process alone", reason)
        self.executor = None

    def _remedy(self) -> str:
        stuck = [name for name, rule in self.expand.rules.items() if not _travels(rule)]
        if not stuck:
            return ""
        return f"\n  the rule {stuck[0]!r} cannot be sent to another process: define it at the top level of a module, or use threads"


def _travels(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # whatever an object of a user's own raises
        return False
    return True
