"""The cost of candidates: by the analytic model, and as measurements correct it.

What is learned is the residual: the logarithm of measured seconds by expected cycles. Without any
sample it is nothing, and the analytic model is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Protocol

import numpy as np

from codegen.tuning.cost_model import boosted_trees
from codegen.tuning.cost_model.boosted_trees import BoostedTrees
from codegen.tuning.cost_model.description import Description
from codegen.tuning.cost_model.kernel_ridge import KernelRidge
from codegen.tuning.cost_model.quality import ModelQuality, right_pairs
from codegen.tuning.cost_model.samples import Sample, chosen_samples
from codegen.tuning.spaces.space import NEVER
from einalg.runtime.clock import check_time

MIN_OWN = 8  # samples of a unit, from which on these say how well a model ranks
FOLDS = 4  # of samples that a model does not learn from, one after the other
MIN_PAIRS = 20  # below which a quality says nothing
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


class Predictor(Protocol):
    """What was learned from rows of features."""

    def predict(self, rows: Any, unit: str) -> Any: ...

    def refit(self, rows: Any, targets: Any, units: Sequence[str]) -> Predictor:
        """Return what is learned from other samples, with what was chosen for these."""
        ...


Learner = Callable[[Any, Any, Sequence[str]], Predictor]
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
    def fit(cls, samples: Sequence[Sample], offset: float, learner: Learner) -> ResidualModel:
        names = sorted({name for one in samples for name in one.description.features})
        return cls(names, learner(*_data(names, samples, offset)))

    def refit(self, samples: Sequence[Sample], offset: float) -> ResidualModel:
        """Return what is learned from other samples of the space."""
        return replace(self, predictor=self.predictor.refit(*_data(self.names, samples, offset)))

    def residuals(self, descriptions: Sequence[Description], unit: str) -> Any:
        return self.predictor.predict(_rows(self.names, descriptions), unit)


def _data(
    names: Sequence[str], samples: Sequence[Sample], offset: float
) -> tuple[Any, Any, list[str]]:
    """Return the features, the residuals and the units of samples."""
    rows = _rows(names, [one.description for one in samples])
    targets = np.array([one.residual - offset for one in samples])
    return rows, targets, [one.unit for one in samples]


def _rows(names: Sequence[str], descriptions: Sequence[Description]) -> Any:
    """Return the features of each description in a row; 0 where it has none of a name."""
    rows = [[one.features.get(name, 0.0) for name in names] for one in descriptions]
    return np.array(rows, float).reshape(len(rows), len(names))


@dataclass(frozen=True)
class LearnedModel:
    """The analytic cycles of candidates of a unit, each times what residuals say.

    Cycles of a space without samples stay: `offset` is the residual that all have in common.
    """

    unit: str
    offset: float
    spaces: Mapping[str, ResidualModel]

    @classmethod
    def fit(cls, samples: Sequence[Sample], unit: str, learner: str) -> LearnedModel:
        """Return what is learned for a unit from samples: one model a space.

        That of a space with few samples is learned as few are.
        """
        offset = _offset(samples)
        spaces: dict[str, ResidualModel] = {}
        for name, group in _by_space(samples).items():
            own = learner if learner in usable_learners(len(group)) else KERNEL_RIDGE
            spaces[name] = ResidualModel.fit(group, offset, LEARNERS[own])
        return cls(unit, offset, spaces)

    def refit(self, samples: Sequence[Sample], unit: str) -> LearnedModel:
        """Return what is learned for a unit from some of the samples."""
        offset = _offset(samples)
        spaces: dict[str, ResidualModel] = {}
        for name, group in _by_space(samples).items():
            check_time()
            spaces[name] = self.spaces[name].refit(group, offset)
        return LearnedModel(unit, offset, spaces)

    def costs(self, descriptions: Sequence[Description]) -> list[float]:
        costs = np.array([one.cycles for one in descriptions], float)
        for name, model in self.spaces.items():
            places = [number for number, one in enumerate(descriptions) if one.space == name]
            if places:
                own = [descriptions[number] for number in places]
                bounded = np.clip(model.residuals(own, self.unit), -MAX_RESIDUAL, MAX_RESIDUAL)
                most = NEVER / np.maximum(costs[places], 1.0)
                costs[places] *= np.minimum(np.exp(bounded), most)
        return costs.tolist()


def _offset(samples: Sequence[Sample]) -> float:
    return median(one.residual for one in samples)


def _by_space(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    groups: dict[str, list[Sample]] = {}
    for one in samples:
        groups.setdefault(one.description.space, []).append(one)
    return groups


@dataclass(frozen=True)
class CheckedModel:
    """The model that ranks best what it did not learn from, with its quality.

    That is the analytic one where nothing shows that the learned one is better; it has no quality
    where there was too little to learn from.
    """

    model: CandidateCosts = ANALYTIC
    quality: ModelQuality | None = None


UNCHECKED = CheckedModel()


def checked_model(samples: Sequence[Sample], unit: str, spaces: Collection[str]) -> CheckedModel:
    """Return the model for a unit with some spaces that samples, also of other units, speak for."""
    chosen = chosen_samples(samples, unit, spaces)
    folds = _folds(chosen, unit)
    best = UNCHECKED
    if not folds:
        return best  # nothing could show that a model is better
    for learner in usable_learners(len(chosen)):
        model = LearnedModel.fit(chosen, unit, learner)
        quality = held_out_quality(chosen, folds, model, learner)
        if quality is None:
            continue
        if best.quality is None or quality.learned > best.quality.learned:
            best = CheckedModel(model if quality.is_used else ANALYTIC, quality)
    return best


def held_out_quality(
    samples: Sequence[Sample], folds: Sequence[Sequence[int]], model: LearnedModel, learner: str
) -> ModelQuality | None:
    """Return how well a model ranks samples that it does not learn from.

    Its few numbers, such as the noise of samples, are those that were chosen for all of them. None
    where there are too few.
    """
    estimates: dict[int, float] = {}
    for fold in folds:
        held_out = set(fold)
        training = [one for number, one in enumerate(samples) if number not in held_out]
        fitted = model.refit(training, model.unit)
        for name in dict.fromkeys(samples[number].unit for number in fold):
            numbers = [number for number in fold if samples[number].unit == name]
            own = [samples[number].description for number in numbers]
            estimates.update(zip(numbers, replace(fitted, unit=name).costs(own)))
    return _quality(samples, estimates, learner)


def _folds(samples: Sequence[Sample], unit: str) -> list[list[int]]:
    """Return the numbers of samples that are left out together.

    They are of the unit, once it has some, else of units that are left out one after the other.
    """
    units: dict[str, list[int]] = {}
    for number, one in enumerate(samples):
        units.setdefault(one.unit, []).append(number)
    own = units.pop(unit, [])
    if len(own) >= MIN_OWN:
        return [own[first::FOLDS] for first in range(FOLDS)]
    if len(units) <= 1:
        return []
    others = list(units.values())
    parts = [others[first::FOLDS] for first in range(min(FOLDS, len(others)))]
    return [[number for numbers in part for number in numbers] for part in parts]


def _quality(
    samples: Sequence[Sample], estimates: Mapping[int, float], learner: str
) -> ModelQuality | None:
    right = analytic = 0.0
    pairs = 0
    for unit in dict.fromkeys(samples[number].unit for number in estimates):
        numbers = [number for number in estimates if samples[number].unit == unit]
        seconds = [samples[number].seconds for number in numbers]
        own_right, own_pairs = right_pairs([estimates[number] for number in numbers], seconds)
        cycles = [samples[number].description.cycles for number in numbers]
        right, pairs = right + own_right, pairs + own_pairs
        analytic += right_pairs(cycles, seconds)[0]
    if pairs < MIN_PAIRS:
        return None
    units = len({one.unit for one in samples})
    return ModelQuality(learner, len(samples), units, pairs, right / pairs, analytic / pairs)
