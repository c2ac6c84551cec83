"""Kernel ridge regression, for few samples: what is near in all features has about one target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Rows = Any  # an array with a row of features for each sample
LENGTHS = (0.5, 1.0, 2.0)  # over which targets change, in spreads of a feature
NOISES = (0.03, 0.1, 0.4)  # of targets, in their own variance


@dataclass(frozen=True)
class KernelRidge:
    """Targets as a function of features: one that all units share, and one of each unit.

    A point near those of its own unit follows these, and one of a unit that was never seen those of
    the others. Far from all samples the mean is expected.
    """

    center: Any
    spread: Any
    rows: Rows
    units: Any
    weights: Any
    length: float
    mean: float

    @classmethod
    def fit(cls, rows: Rows, targets: Any, units: Sequence[str]) -> KernelRidge:
        """Return what is learned from samples of some units.

        The length and the noise are those with the least error at samples that are left out, one
        at a time.
        """
        rows, targets, names = np.asarray(rows, float), np.asarray(targets, float), np.array(units)
        center, spread = rows.mean(axis=0), rows.std(axis=0)
        spread[spread == 0] = np.inf  # says nothing
        scaled = (rows - center) / spread
        mean, scale = float(targets.mean()), float(targets.std()) or 1.0
        wanted = (targets - mean) / scale
        squares, same = _squares(scaled, scaled), names[:, None] == names[None, :]
        best: tuple[float, float, Any] | None = None
        for length in LENGTHS:
            kernel = _kernel(squares, same, length)
            for noise in NOISES:
                inverse = np.linalg.inv(kernel + noise * np.eye(len(kernel)))
                weights = inverse @ wanted
                error = float(((weights / np.diag(inverse)) ** 2).mean())
                if best is None or error < best[0]:
                    best = error, length, weights
        assert best is not None
        return cls(center, spread, scaled, names, best[2] * scale, best[1], mean)

    def predict(self, rows: Rows, unit: str) -> Any:
        """Return the targets that are expected at points of a unit."""
        scaled = (np.asarray(rows, float) - self.center) / self.spread
        same = np.broadcast_to(self.units == unit, (len(scaled), len(self.units)))
        kernel = _kernel(_squares(scaled, self.rows), same, self.length)
        return self.mean + kernel @ self.weights


def _squares(one: Rows, other: Rows) -> Any:
    """Return the squared distances of rows, the mean of those of all features."""
    products = one @ other.T
    sums = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :]
    return np.maximum(sums - 2 * products, 0.0) / max(1, one.shape[1])


def _kernel(squares: Any, same: Any, length: float) -> Any:
    near = 1.0 + np.exp(-squares / (2 * length**2))
    return near + same * near
