"""Boosted trees of LightGBM, which the extra `tune` installs, for hundreds of samples."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from codegen.tuning.cost_model.kernel_ridge import KernelRidge, Rows
from einalg.runtime.clock import check_time

LOG = logging.getLogger("einalg")
MIN_SAMPLES = 100  # below which trees say little
ROUNDS = 120
PARAMETERS = {
    "objective": "regression",
    "learning_rate": 0.08,
    "num_leaves": 15,
    "min_data_in_leaf": 4,
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
    """Trees of what all units share; what they leave is learned as for few samples."""

    trees: Any
    rest: KernelRidge

    @classmethod
    def fit(cls, rows: Rows, targets: Any, units: Sequence[str]) -> BoostedTrees:
        trees = _trees(rows, targets)
        return cls(trees, KernelRidge.fit(rows, targets - trees.predict(rows), units))

    def refit(self, rows: Rows, targets: Any, units: Sequence[str]) -> BoostedTrees:
        """Return what is learned from other samples, what trees leave with the same numbers."""
        trees = _trees(rows, targets)
        return BoostedTrees(trees, self.rest.refit(rows, targets - trees.predict(rows), units))

    def predict(self, rows: Rows, unit: str) -> Any:
        """Return the targets that are expected at points of a unit."""
        return self.trees.predict(rows) + self.rest.predict(rows, unit)


def _trees(rows: Rows, targets: Any) -> Any:
    import lightgbm

    check_time()
    data = lightgbm.Dataset(rows, label=targets, params={"verbose": -1})
    return lightgbm.train(PARAMETERS, data, num_boost_round=ROUNDS)
