"""Whether what was learned is used: as it ranks samples that it did not learn from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.tuning.cost_model.learned import ANALYTIC, CandidateCosts, LearnedModel
from codegen.tuning.cost_model.quality import ModelQuality, right_pairs
from codegen.tuning.cost_model.samples import Sample, chosen_samples
from codegen.tuning.cost_model.shared import SharedModel, usable_learners

MIN_OWN = 8  # samples of a unit, from which on these say how well a model ranks
FOLDS = 4  # of samples that a model does not learn from, one after the other
MIN_PAIRS = 20  # below which a quality says nothing


@dataclass(frozen=True)
class CheckedModel:
    """The model that ranks best what it did not learn from, with its quality.

    That is the analytic one where nothing shows that the learned one is better; it has no quality
    where there was too little to learn from.
    """

    model: CandidateCosts = ANALYTIC
    quality: ModelQuality | None = None


UNCHECKED = CheckedModel()


@dataclass(frozen=True)
class CheckedShared:
    """What samples of other units say, and how well that ranks units that are left out of them.

    Without a quality, there are too few of them to tell.
    """

    model: SharedModel
    quality: ModelQuality | None


def shared_models(
    samples: Sequence[Sample], unit: str, spaces: Collection[str]
) -> Mapping[str, CheckedShared]:
    """Return what each usable learner says of a unit from samples of others, by its name."""
    chosen = [one for one in chosen_samples(samples, unit, spaces) if one.unit != unit]
    models: dict[str, CheckedShared] = {}
    for learner in usable_learners(len(chosen)):
        model = SharedModel.fit(chosen, learner)
        models[learner] = CheckedShared(model, _quality_of_shared(chosen, model, learner))
    return models


def checked_model(
    samples: Sequence[Sample],
    unit: str,
    spaces: Collection[str],
    shared: Mapping[str, CheckedShared] | None = None,
) -> CheckedModel:
    """Return the model for a unit with some spaces that samples, also of other units, speak for.

    `shared` is what was learned from those of other units, where that is known.
    """
    if shared is None:
        shared = shared_models(samples, unit, spaces)
    chosen = chosen_samples(samples, unit, spaces)
    own = [one for one in chosen if one.unit == unit]
    units = len({one.unit for one in chosen})
    best = UNCHECKED
    for learner, others in shared.items():
        model = LearnedModel(unit, others.model).corrected(own)
        quality = others.quality
        if len(own) >= MIN_OWN:
            quality = _quality_of_corrected(own, model, learner)
        if quality is None:
            continue
        quality = replace(quality, samples=len(chosen), units=units)
        if best.quality is None or quality.learned > best.quality.learned:
            best = CheckedModel(model if quality.is_used else ANALYTIC, quality)
    return best


def _quality_of_shared(
    samples: Sequence[Sample], model: SharedModel, learner: str
) -> ModelQuality | None:
    """Return how well a model ranks units that it does not learn from.

    Its few numbers, such as the noise of samples, are those that were chosen for all of them. None
    where there are too few.
    """
    units = list(dict.fromkeys(one.unit for one in samples))
    if len(units) <= 1:
        return None
    estimates: dict[int, float] = {}
    for first in range(min(FOLDS, len(units))):
        held_out = set(units[first::FOLDS])
        fitted = model.refit([one for one in samples if one.unit not in held_out])
        for unit in held_out:
            numbers = [number for number, one in enumerate(samples) if one.unit == unit]
            own = [samples[number].description for number in numbers]
            estimates.update(zip(numbers, LearnedModel(unit, fitted).costs(own)))
    return _quality(samples, estimates, learner)


def _quality_of_corrected(
    own: Sequence[Sample], model: LearnedModel, learner: str
) -> ModelQuality | None:
    """Return how well a model ranks samples of its unit that do not correct it."""
    estimates: dict[int, float] = {}
    for first in range(FOLDS):
        numbers = range(first, len(own), FOLDS)
        fitted = model.corrected([one for n, one in enumerate(own) if n not in numbers])
        estimates.update(zip(numbers, fitted.costs([own[n].description for n in numbers])))
    return _quality(own, estimates, learner)


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
