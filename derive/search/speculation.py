"""Speculative expansion: an executor expands states before the search comes to them (design §8)."""

from __future__ import annotations

import heapq
import logging
import pickle
from typing import Any, Protocol

from derive.search.executor import GuardedTask, TaskFailure, submit_task, task_result
from derive.search.expansion import StateExpander, Successor
from einalg.language.ir.program import Program

log = logging.getLogger("einalg")

MAX_PENDING = 16  # states under way: enough for some workers, and few to have done for nothing
MAX_LOSSES_IN_A_ROW = 4  # expansions that an executor may lose before it is given up


class State(Protocol):
    """A program with its number in the search."""

    order: int
    program: Program


class SpeculativeExpander:
    """The successors of states; with an executor, those of the next states are computed early.

    An expansion is pure: what the executor loses is computed here, and what it computes in vain is
    thrown away, so that the search goes the same way as without it. An exception of the expansion
    itself is raised where the successors of its state are asked for.
    """

    def __init__(self, executor: Any, expand: StateExpander):
        self.executor, self.expand, self.task = executor, expand, GuardedTask(expand)
        self.futures: dict[int, Any] = {}
        self.losses, self.losses_in_a_row = 0, 0

    def __enter__(self) -> SpeculativeExpander:
        return self

    def __exit__(self, *_: Any) -> None:
        for future in self.futures.values():
            future.cancel()
        if self.losses > 1:
            log.info(
                "einalg: %d expansions were lost by the executor and computed here", self.losses
            )

    def look(self, queue: list[Any]) -> None:
        """Begin the expansion of the states at the head of the queue."""
        if self.executor is None:
            return
        for state in heapq.nsmallest(MAX_PENDING, queue):
            if state.order in self.futures:
                continue
            try:
                self.futures[state.order] = submit_task(self.executor, self.task, state.program)
            except TaskFailure as loss:
                self._give_up(f"the executor takes no more work ({loss})")
                return

    def successors(self, state: State) -> list[Successor]:
        """Return what `expand` gives for the state, wherever it was computed."""
        future = self.futures.pop(state.order, None)
        if future is not None:
            try:
                result = task_result(future)
            except TaskFailure as loss:
                self._count_loss(loss)
            else:
                self.losses_in_a_row = 0
                return result.get()
        return self.expand(state.program)

    def _count_loss(self, loss: TaskFailure) -> None:
        """Report the first loss; after some in a row, give the executor up."""
        self.losses += 1
        self.losses_in_a_row += 1
        if self.losses == 1:
            log.warning(
                "einalg: the executor lost the expansion of a state (%s); it is computed here%s",
                loss,
                self._remedy(),
            )
        if self.losses_in_a_row == MAX_LOSSES_IN_A_ROW and self.executor is not None:
            self._give_up(f"the executor lost {MAX_LOSSES_IN_A_ROW} expansions in a row")

    def _give_up(self, reason: str) -> None:
        log.warning("einalg: %s; the search goes on in this process alone", reason)
        self.executor = None

    def _remedy(self) -> str:
        for name, rule in self.expand.rules.items():
            if not _travels(rule):
                return (
                    f"\n  the rule {name!r} cannot be sent to another process: "
                    "define it at the top level of a module, or use threads"
                )
        return ""


def _travels(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # whatever an object of a user's own raises
        return False
    return True
