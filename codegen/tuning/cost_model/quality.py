"""How well estimated costs rank what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Costs = Sequence[float]


@dataclass(frozen=True)
class ModelQuality:
    """How well a model ranks samples that it did not learn from, and how well the analytic one.

    Both are the share of the pairs of one unit whose order is right. `learner` is how the model
    learned, from so many `samples` of so many `units`, and `is_used` says that it ranks better.
    """

    learner: str
    samples: int
    units: int
    pairs: int
    learned: float
    analytic: float

    @property
    def is_used(self) -> bool:
        return self.learned > self.analytic

    def __str__(self) -> str:
        use = "used" if self.is_used else "not used"
        return (
            f"{self.learner} from {self.samples} measurements of {self.units} kernels, {use}: "
            f"{self.learned:.0%} of {self.pairs} pairs that it did not learn from in their order, "
            f"{self.analytic:.0%} by the cost model alone"
        )


def right_pairs(estimated: Costs, measured: Costs) -> tuple[float, int]:
    """Return how many pairs with different times are in their order, and how many there are.

    Equal estimates are right by half.

    >>> right_pairs([1.0, 3.0, 2.0], [1.0, 2.0, 3.0])
    (2.0, 3)
    """
    rows, columns = np.triu_indices(len(measured), 1)
    guess, truth = np.asarray(estimated, float), np.asarray(measured, float)
    signs = np.sign(truth[rows] - truth[columns])
    right = (np.sign(guess[rows] - guess[columns]) * signs + 1) / 2
    return float(right[signs != 0].sum()), int(np.count_nonzero(signs))


def pairwise_accuracy(estimated: Costs, measured: Costs) -> float:
    """Return the share of pairs in their order; 1 without pairs.

    >>> pairwise_accuracy([1, 2, 3], [5, 6, 9]), pairwise_accuracy([1, 1], [5, 6])
    (1.0, 0.5)
    """
    right, pairs = right_pairs(estimated, measured)
    return right / pairs if pairs else 1.0


def rank_correlation(estimated: Costs, measured: Costs) -> float:
    """Return Spearman's correlation: that of the ranks; 0 where one does not vary.

    >>> rank_correlation([1, 2, 3], [10, 20, 90]), rank_correlation([3, 2, 1], [10, 20, 90])
    (1.0, -1.0)
    """
    ranks = np.array([_ranks(estimated), _ranks(measured)])
    deviations = ranks - ranks.mean(axis=1, keepdims=True)
    norms = np.sqrt((deviations**2).sum(axis=1))
    if not norms.all():
        return 0.0
    return round(float(deviations[0] @ deviations[1] / norms.prod()), 12)


def _ranks(values: Costs) -> Any:
    """Return the rank of each value; equal ones have the mean of theirs."""
    _, group, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[group]


def recall_of_top(estimated: Costs, measured: Costs, count: int) -> float:
    """Return how much of the `count` fastest is among so many of the lowest estimates.

    >>> recall_of_top([1, 2, 9, 8], [1, 2, 3, 4], 2), recall_of_top([9, 8, 1, 2], [1, 2, 3, 4], 2)
    (1.0, 0.0)
    """
    count = min(count, len(measured))
    if not count:
        return 1.0
    guess = np.argsort(np.asarray(estimated, float), kind="stable")[:count]
    truth = np.argsort(np.asarray(measured, float), kind="stable")[:count]
    return len(set(guess.tolist()) & set(truth.tolist())) / count
