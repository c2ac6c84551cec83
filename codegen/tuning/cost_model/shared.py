"""What is learned from samples of many units: the residuals of points of any unit, by space.

A residual is the logarithm of measured seconds by expected cycles, without what all points of a
unit have in common, which ranks none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Protocol

import numpy as np

from codegen.tuning.cost_model import boosted_trees
from codegen.tuning.cost_model.boosted_trees import BoostedTrees
from codegen.tuning.cost_model.description import Description
from codegen.tuning.cost_model.kernel_ridge import KernelRidge
from codegen.tuning.cost_model.samples import Sample
from codegen.tuning.cost_model.training import TrainingSet
from einalg.runtime.clock import check_time

MIN_UNITS = 2  # with samples in a space, from which on these say something of others


class Predictor(Protocol):
    """What was learned from rows of features."""

    def predict(self, rows: Any, unit: str) -> Any: ...

    def refit(self, known: TrainingSet) -> Predictor:
        """Return what is learned from other samples, with what was chosen for these."""
        ...


Learner = Callable[[TrainingSet], Predictor]
KERNEL_RIDGE, BOOSTED_TREES = "kernel ridge", "boosted trees"
LEARNERS: Mapping[str, Learner] = {
    KERNEL_RIDGE: KernelRidge.fit,
    BOOSTED_TREES: BoostedTrees.fit,
}


def usable_learners(samples: int) -> Iterator[str]:
    """Yield the names of those that so many samples suffice for, and that are installed."""
    yield KERNEL_RIDGE
    if samples >= boosted_trees.MIN_SAMPLES and boosted_trees.is_installed():
        yield BOOSTED_TREES


@dataclass(frozen=True)
class ResidualModel:
    """The residuals of one space, as a function of the features that samples have."""

    names: Sequence[str]
    predictor: Predictor

    @classmethod
    def fit(cls, samples: Sequence[Sample], targets: Any, learner: Learner) -> ResidualModel:
        names = sorted({name for one in samples for name in one.description.features})
        return cls(names, learner(_training_set(names, samples, targets)))

    def refit(self, samples: Sequence[Sample], targets: Any) -> ResidualModel:
        """Return what is learned from other samples of the space."""
        known = _training_set(self.names, samples, targets)
        return replace(self, predictor=self.predictor.refit(known))

    def residuals(self, descriptions: Sequence[Description], unit: str) -> Any:
        return self.predictor.predict(_rows(self.names, descriptions), unit)


def _training_set(names: Sequence[str], samples: Sequence[Sample], targets: Any) -> TrainingSet:
    rows = _rows(names, [one.description for one in samples])
    cycles = np.log([one.description.cycles for one in samples])
    return TrainingSet(rows, targets, cycles, [one.unit for one in samples])


def _rows(names: Sequence[str], descriptions: Sequence[Description]) -> Any:
    """Return the features of each description in a row; 0 where it has none of a name."""
    rows = [[one.features.get(name, 0.0) for name in names] for one in descriptions]
    return np.array(rows, float).reshape(len(rows), len(names))


@dataclass(frozen=True)
class SharedModel:
    """What samples of some units say of those of others: one model a space."""

    spaces: Mapping[str, ResidualModel] = field(default_factory=dict)

    @classmethod
    def fit(cls, samples: Sequence[Sample], learner: str) -> SharedModel:
        """Return what is learned from samples; that of a space with few as few are."""
        spaces: dict[str, ResidualModel] = {}
        for name, (group, targets) in residual_targets(samples).items():
            check_time()
            if len({one.unit for one in group}) < MIN_UNITS:
                continue
            own = learner if learner in usable_learners(len(group)) else KERNEL_RIDGE
            spaces[name] = ResidualModel.fit(group, targets, LEARNERS[own])
        return cls(spaces)

    def refit(self, samples: Sequence[Sample]) -> SharedModel:
        """Return what is learned from some of the samples."""
        spaces: dict[str, ResidualModel] = {}
        for name, (group, targets) in residual_targets(samples).items():
            check_time()
            if name in self.spaces:
                spaces[name] = self.spaces[name].refit(group, targets)
        return SharedModel(spaces)

    def residuals(self, descriptions: Sequence[Description], unit: str) -> Any:
        return residuals_of_spaces(self.spaces, descriptions, unit)


def residuals_of_spaces(
    spaces: Mapping[str, ResidualModel], descriptions: Sequence[Description], unit: str
) -> Any:
    """Return what the models of spaces say of descriptions; 0 of those of other spaces."""
    residuals = np.zeros(len(descriptions))
    for name, model in spaces.items():
        places = [number for number, one in enumerate(descriptions) if one.space == name]
        if places:
            own = [descriptions[number] for number in places]
            residuals[places] = model.residuals(own, unit)
    return residuals


def residual_targets(samples: Sequence[Sample]) -> dict[str, tuple[list[Sample], Any]]:
    """Return the samples of each space, with their residuals beside those of their units."""
    middles = _middles(samples)
    targets: dict[str, tuple[list[Sample], Any]] = {}
    for name, group in _by_space(samples).items():
        residuals = np.array([one.residual - middles[one.unit] for one in group])
        targets[name] = group, residuals
    return targets


def _middles(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the residual that the samples of each unit have in common."""
    units: dict[str, list[float]] = {}
    for one in samples:
        units.setdefault(one.unit, []).append(one.residual)
    return {unit: median(residuals) for unit, residuals in units.items()}


def _by_space(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    groups: dict[str, list[Sample]] = {}
    for one in samples:
        groups.setdefault(one.description.space, []).append(one)
    return groups
