"""The order of the states of a search, as weights that can be printed, passed in and fitted."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2


@dataclass(frozen=True)
class StateFeatures:
    """The numbers of a state that decide when it is expanded.

    `level` is the number of expansions that lead to it, `shape_classes` that of its kinds of
    scopes (the phases of a sum are of one kind), `relative_work` its ideal seconds in those of
    the expression as it is.
    """

    distance: float
    level: int
    shape_classes: int
    factorisations: int
    relative_work: float


@dataclass(frozen=True)
class SearchWeights:
    """The weights of a state's features, and what makes a state not worth keeping.

    >>> SearchWeights().priority(StateFeatures(2.0, 1, 3, 0, 1.0)) == 0.05 * 2 + 0.5 + 0.2 * 3
    True
    """

    distance: float = 0.05
    level: float = 0.5
    shape_class: float = 0.2
    factorisation: float = 0.7  # which also rounds
    work_doubling: float = 0.5
    max_relative_work: int = 16  # states with more are dropped
    max_relative_operations: int = 2  # that inlining everything may make
    max_candidate_distance: float = 20.0  # from which on a state is no candidate
    bytes_per_state: int = 60_000  # measured on convolutions

    def priority(self, state: StateFeatures) -> float:
        """Return the place of a state in the queue: the least is expanded first."""
        work = max(1 / self.max_relative_work, state.relative_work)
        return (
            self.distance * state.distance
            + self.level * state.level
            + self.shape_class * state.shape_classes
            + self.factorisation * state.factorisations
            + self.work_doubling * log2(work)
        )


DEFAULT_WEIGHTS = SearchWeights()
