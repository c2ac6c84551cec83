"""Boosted trees of LightGBM, which the extra `tune` installs, for hundreds of samples.

Some learn the residuals, others in which order the samples of a unit are: these make of two points
of one unit the faster one cheaper, whatever the times are. Both together rank better than either.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from typing import Any

import numpy as np

from codegen.tuning.cost_model.training import Rows, TrainingSet
from einalg.runtime.clock import check_time

LOG = logging.getLogger("einalg")
MIN_SAMPLES = 100  # below which trees say little
REGRESSION_ROUNDS, RANKING_ROUNDS = 120, 100
GRADES = 30  # of the points of a unit, from the slowest to the fastest
SCORE = 4.0  # of a point that takes e times as long as another one, below that one's
PARAMETERS: Mapping[str, Any] = {
    "learning_rate": 0.08,
    "num_leaves": 15,
    "min_data_in_leaf": 10,
    "lambda_l2": 1.0,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.7,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 0,
    "verbose": -1,
}
REGRESSION = {**PARAMETERS, "objective": "huber", "alpha": 0.2}
RANKING = {
    **PARAMETERS,
    "objective": "lambdarank",
    "label_gain": list(range(GRADES)),
    "lambdarank_truncation_level": 400,  # pairs of all points, not of the fastest alone
}


@cache
def is_installed() -> bool:
    """Tell whether LightGBM is there, with the libraries of the system that it needs."""
    if find_spec("lightgbm") is None:
        return False
    try:
        import_module("lightgbm")
    except (ImportError, OSError) as error:
        LOG.warning("einalg: LightGBM cannot be loaded, and trees are not learned: %s", error)
        return False
    return True


@dataclass(frozen=True)
class BoostedTrees:
    """Trees that say the same of points with the same features, whatever their unit is."""

    regression: Any
    ranking: Any

    @classmethod
    def fit(cls, known: TrainingSet) -> BoostedTrees:
        check_time()
        regression = regression_trees(known)
        check_time()
        return cls(regression, ranking_trees(known))

    def refit(self, known: TrainingSet) -> BoostedTrees:
        return self.fit(known)

    def predict(self, rows: Rows, unit: str) -> Any:
        """Return the residuals that are expected at points of a unit."""
        scores = self.ranking.predict(rows, raw_score=True)
        return (self.regression.predict(rows) - scores / SCORE) / 2


def regression_trees(known: TrainingSet) -> Any:
    """Return trees whose values are residuals."""
    import lightgbm

    data = lightgbm.Dataset(known.rows, label=known.residuals, params={"verbose": -1})
    return lightgbm.train(REGRESSION, data, num_boost_round=REGRESSION_ROUNDS)


def ranking_trees(known: TrainingSet) -> Any:
    """Return trees whose values are to be subtracted from the scores of the analytic model.

    A score is the higher, the faster a point is.
    """
    import lightgbm

    ordered = known.part(sorted(range(len(known.units)), key=lambda number: known.units[number]))
    counts = [len(list(group)) for _, group in groupby(ordered.units)]
    data = lightgbm.Dataset(
        ordered.rows,
        label=grades(ordered.cycles + ordered.residuals, counts),
        group=counts,
        init_score=-SCORE * ordered.cycles,
        params={"verbose": -1},
    )
    return lightgbm.train(RANKING, data, num_boost_round=RANKING_ROUNDS)


def grades(times: Any, counts: list[int]) -> Any:
    """Return the grades of samples, so many of each unit: the fastest of a unit have the highest.

    >>> grades(np.array([3.0, 1.0, 2.0, 7.0]), [3, 1]).tolist()
    [0, 29, 14, 0]
    """
    parts: list[Any] = []
    for own in np.split(times, np.cumsum(counts)[:-1]):
        places = np.argsort(np.argsort(-own))
        parts.append(places * (GRADES - 1) // max(1, len(own) - 1))
    return np.concatenate(parts)
