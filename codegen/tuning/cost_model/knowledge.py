"""What a search knows of a unit, and of others that were measured here: samples and a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from codegen.tuning.cost_model.checked import (
    UNCHECKED,
    CheckedModel,
    CheckedShared,
    checked_model,
    shared_models,
)
from codegen.tuning.cost_model.description import Description, described
from codegen.tuning.cost_model.learned import CandidateCosts
from codegen.tuning.cost_model.samples import Sample, sample
from codegen.tuning.spaces.points import Features
from codegen.tuning.spaces.space import CodeCandidate

GROWTH = 1.1  # of samples, above which a model is learned anew


@dataclass
class UnitKnowledge:
    """What is known of a unit, whose digest is `unit`.

    `samples` grow as candidates are measured; the units of a program share them. `checked` is the
    model that was learned last.
    """

    unit: str = ""
    features: Features = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    checked: CheckedModel = UNCHECKED
    learned_from: tuple[int, int] = (0, 0)  # samples of the unit, and of all others
    shared: Mapping[str, CheckedShared] | None = None  # by the name of a learner

    def described(self, candidate: CodeCandidate) -> Description:
        return described(candidate, self.features)

    def add(self, description: Description, seconds: float | None) -> None:
        """Add what was measured of a candidate, None where it was refused."""
        one = sample(self.unit, description, seconds)
        if one is not None:
            self.samples.append(one)

    def model(self, spaces: Collection[str]) -> CandidateCosts:
        """Return the model of what was measured so far, or the analytic one where that is better.

        It is learned anew once the samples of these spaces have grown by a part, those of the unit
        or those of all units.
        """
        counts = self._counts(spaces)
        has_grown = [now > GROWTH * then for now, then in zip(counts, self.learned_from)]
        if has_grown[1] or self.shared is None:
            self.shared = shared_models(self.samples, self.unit, spaces)
        if any(has_grown):
            self.checked = checked_model(self.samples, self.unit, spaces, self.shared)
            self.learned_from = counts
        return self.checked.model

    def _counts(self, spaces: Collection[str]) -> tuple[int, int]:
        """Return how many samples of some spaces there are: of the unit, and of all others."""
        units = [one.unit for one in self.samples if one.description.space in spaces]
        own = units.count(self.unit)
        return own, len(units) - own
