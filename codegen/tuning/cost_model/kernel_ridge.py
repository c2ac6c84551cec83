"""Kernel ridge regression, for few samples: what is near in all features has about one target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from codegen.tuning.cost_model.training import Rows, TrainingSet
from einalg.runtime.clock import check_time

LENGTHS = (0.5, 1.0, 2.0)  # over which targets change, in spreads of a feature
MAX_SAMPLES = 400  # that a decomposition takes a moment for
NOISES = (0.03, 0.1, 0.4)  # of targets, in their own variance


@dataclass(frozen=True)
class ScaledSamples:
    """Rows and targets of samples (`wanted`), each around 0 with a spread of 1."""

    center: Any
    spread: Any
    rows: Rows
    units: Any
    mean: float
    scale: float
    wanted: Any

    @classmethod
    def of(cls, known: TrainingSet) -> ScaledSamples:
        """Return samples of a training set, of all units alike where they are too many."""
        known = known.part(range(0, len(known.units), -(-len(known.units) // MAX_SAMPLES)))
        rows, targets = np.asarray(known.rows, float), np.asarray(known.residuals, float)
        center, spread = rows.mean(axis=0), rows.std(axis=0)
        spread[spread == 0] = np.inf  # says nothing
        mean, scale = float(targets.mean()), float(targets.std()) or 1.0
        wanted = (targets - mean) / scale
        units = np.array(known.units)
        return cls(center, spread, (rows - center) / spread, units, mean, scale, wanted)

    @cached_property
    def _squares(self) -> Any:
        return _squares(self.rows, self.rows)

    def kernel(self, length: float) -> Any:
        """Return how near each two samples are."""
        return _kernel(self._squares, self.units[:, None] == self.units[None, :], length)


@dataclass(frozen=True)
class KernelRidge:
    """Targets as a function of features: one that all units share, and one of each unit.

    A point near those of its own unit follows these, and one of a unit that was never seen those of
    the others. Far from all samples the mean is expected.
    """

    samples: ScaledSamples
    weights: Any
    length: float
    noise: float

    @classmethod
    def fit(cls, known: TrainingSet) -> KernelRidge:
        """Return what is learned from samples of some units.

        The length and the noise are those with the least error at samples that are left out, one
        at a time: a decomposition of the kernel of a length has these errors for all noises.
        """
        samples = ScaledSamples.of(known)
        best: tuple[float, float, float, Any] | None = None
        for length in LENGTHS:
            check_time()
            values, vectors = np.linalg.eigh(samples.kernel(length))
            turned, squares = samples.wanted @ vectors, vectors**2
            for noise in NOISES:
                inverse = 1.0 / (np.maximum(values, 0.0) + noise)
                weights = vectors @ (inverse * turned)
                error = float(((weights / (squares @ inverse)) ** 2).mean())
                if best is None or error < best[0]:
                    best = error, length, noise, weights
        assert best is not None
        _, length, noise, weights = best
        return cls(samples, weights, length, noise)

    def refit(self, known: TrainingSet) -> KernelRidge:
        """Return what is learned from other samples with the same length and noise."""
        samples = ScaledSamples.of(known)
        kernel = samples.kernel(self.length) + self.noise * np.eye(len(samples.wanted))
        return replace(self, samples=samples, weights=np.linalg.solve(kernel, samples.wanted))

    def predict(self, rows: Rows, unit: str) -> Any:
        """Return the targets that are expected at points of a unit."""
        known = self.samples
        scaled = (np.asarray(rows, float) - known.center) / known.spread
        same = np.broadcast_to(known.units == unit, (len(scaled), len(known.units)))
        kernel = _kernel(_squares(scaled, known.rows), same, self.length)
        return known.mean + known.scale * (kernel @ self.weights)


def _squares(one: Rows, other: Rows) -> Any:
    """Return the squared distances of rows, the mean of those of all features."""
    products = one @ other.T
    sums = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :]
    return np.maximum(sums - 2 * products, 0.0) / max(1, one.shape[1])


def _kernel(squares: Any, same: Any, length: float) -> Any:
    near = 1.0 + np.exp(-squares / (2 * length**2))
    return near + same * near
