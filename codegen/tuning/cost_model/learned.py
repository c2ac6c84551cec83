"""The cost of candidates: by the analytic model, and as measurements correct it.

Residuals are learned twice: from all other units, whose samples are many and seldom change, and
from the few of the unit, which say what these leave. Without any sample they are nothing, and the
analytic model is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from codegen.tuning.cost_model.description import Description
from codegen.tuning.cost_model.kernel_ridge import KernelRidge
from codegen.tuning.cost_model.samples import Sample
from codegen.tuning.cost_model.shared import (
    ResidualModel,
    SharedModel,
    residual_targets,
    residuals_of_spaces,
)
from codegen.tuning.spaces.space import NEVER

MIN_CORRECTING = 3  # samples of a unit in a space, that correct what others say
MAX_RESIDUAL = 5.0  # of an estimate: no more than a hundred times what the analytic model says


class CandidateCosts(Protocol):
    """Says what candidates cost, on one scale for all spaces of a unit."""

    def costs(self, descriptions: Sequence[Description]) -> list[float]:
        """Return the cycles that runs are expected to take."""
        ...


@dataclass(frozen=True)
class AnalyticModel:
    """The cycles of the loop nests, as the spaces know them."""

    def costs(self, descriptions: Sequence[Description]) -> list[float]:
        return [one.cycles for one in descriptions]


ANALYTIC = AnalyticModel()


@dataclass(frozen=True)
class LearnedModel:
    """The analytic cycles of candidates of a unit, each times what residuals say.

    `corrections` are what the samples of the unit say of what is shared by all units, one a space.
    Cycles of a space without samples stay.
    """

    unit: str
    shared: SharedModel
    corrections: Mapping[str, ResidualModel] = field(default_factory=dict)

    @classmethod
    def fit(cls, samples: Sequence[Sample], unit: str, learner: str) -> LearnedModel:
        """Return what is learned for a unit from samples."""
        shared = SharedModel.fit([one for one in samples if one.unit != unit], learner)
        return cls(unit, shared).corrected([one for one in samples if one.unit == unit])

    def corrected(self, samples: Sequence[Sample]) -> LearnedModel:
        """Return the model as other samples of the unit correct it."""
        corrections: dict[str, ResidualModel] = {}
        for name, (group, targets) in residual_targets(samples).items():
            if len(group) < MIN_CORRECTING:
                continue
            own = [one.description for one in group]
            left = targets - self.shared.residuals(own, self.unit)
            if name in self.corrections:
                corrections[name] = self.corrections[name].refit(group, left)
            else:
                corrections[name] = ResidualModel.fit(group, left, KernelRidge.fit)
        return replace(self, corrections=corrections)

    def costs(self, descriptions: Sequence[Description]) -> list[float]:
        costs = np.array([one.cycles for one in descriptions], float)
        residuals = self.shared.residuals(descriptions, self.unit)
        residuals += residuals_of_spaces(self.corrections, descriptions, self.unit)
        factors = np.exp(np.clip(residuals, -MAX_RESIDUAL, MAX_RESIDUAL))
        return (costs * np.minimum(factors, NEVER / np.maximum(costs, 1.0))).tolist()
