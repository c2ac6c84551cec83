"""The learned cost model: it finds a residual that is known, and is used only where it is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, log2
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.tuning.cost_model import boosted_trees
from codegen.tuning.cost_model import knowledge as knowledge_module
from codegen.tuning.cost_model.checked import CheckedModel, checked_model
from codegen.tuning.cost_model.description import Description
from codegen.tuning.cost_model.kernel_ridge import LENGTHS, NOISES, KernelRidge, ScaledSamples
from codegen.tuning.cost_model.knowledge import UnitKnowledge
from codegen.tuning.cost_model.learned import ANALYTIC, LearnedModel
from codegen.tuning.cost_model.quality import (
    ModelQuality,
    pairwise_accuracy,
    rank_correlation,
    recall_of_top,
    right_pairs,
)
from codegen.tuning.cost_model.samples import MAX_SAMPLES, Sample, chosen_samples, sample
from codegen.tuning.cost_model.shared import (
    BOOSTED_TREES,
    KERNEL_RIDGE,
    residual_targets,
    usable_learners,
)
from codegen.tuning.cost_model.training import TrainingSet
from codegen.tuning.spaces.space import NEVER
from einalg.runtime.clock import Clock, OutOfTime

CYCLE = 1 / 3e9  # seconds
Residual = Callable[[float, float, float], float]


@pytest.fixture(autouse=True)
def without_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the same models wherever the tests run."""
    monkeypatch.setattr(boosted_trees, "is_installed", lambda: False)


def slow_blocks(rows: float, block: float, size: float) -> float:
    """Return a residual that the analytic model does not know: few rows, and blocks of one size."""
    return 0.4 * abs(rows - 2) + 0.3 * abs(block - size / 2)


def samples(
    unit: str, count: int, size: float, residual: Residual, space: str = "tiles", seed: int = 0
) -> list[Sample]:
    """Return samples of a unit, of points by chance, with a little noise."""
    rng = Random(f"{unit} {seed}")
    made: list[Sample] = []
    for _ in range(count):
        rows, block, cycles = rng.choice((1, 2, 4, 8)), rng.randint(1, 32), rng.uniform(1e6, 2e6)
        features = {"rows": log2(rows), "block": log2(block), "unit size": size, "flag": 0.0}
        factor = exp(residual(log2(rows), log2(block), size) + rng.gauss(0, 0.02))
        made.append(Sample(unit, Description(space, cycles, features), cycles * CYCLE * factor))
    return made


def ranked(model: Any, own: list[Sample]) -> float:
    return pairwise_accuracy(
        model.costs([one.description for one in own]), [s.seconds for s in own]
    )


def test_a_residual_is_learned_and_transfers_to_a_shape_that_was_never_seen() -> None:
    known = [one for size in (4, 6, 8) for one in samples(f"unit {size}", 40, size, slow_blocks)]
    unseen = samples("unit 7", 60, 7, slow_blocks)
    checked = checked_model(known, "unit 7", ["tiles"])
    quality = checked.quality
    assert quality is not None and quality.is_used and quality.learner == KERNEL_RIDGE
    assert (quality.samples, quality.units, quality.pairs) == (120, 3, 3 * 40 * 39 // 2)
    assert ranked(ANALYTIC, unseen) < 0.75 and ranked(checked.model, unseen) > 0.88
    assert quality.learned > 0.75 > quality.analytic


def test_a_handful_of_a_unit_corrects_what_others_say() -> None:
    """The residual of this one is the opposite of what was measured of all others."""

    def opposite(rows: float, block: float, size: float) -> float:
        return -slow_blocks(rows, block, size)

    known = [one for size in (4, 6, 8) for one in samples(f"unit {size}", 30, size, slow_blocks)]
    own, later = samples("own", 24, 6, opposite), samples("own", 40, 6, opposite, seed=1)
    misled = checked_model(known, "own", ["tiles"])
    assert ranked(misled.model, later) < ranked(ANALYTIC, later)
    corrected = checked_model([*known, *own], "own", ["tiles"])
    assert ranked(corrected.model, later) >= ranked(ANALYTIC, later)


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_what_is_noise_is_not_used(count: int) -> None:
    """Of one unit: its times have nothing to do with its points but by the analytic model."""
    own = samples("own", count, 4, lambda *_: 0.0)
    checked = checked_model(own, "own", ["tiles"])
    fresh = samples("own", 40, 4, lambda *_: 0.0, seed=1)
    assert ranked(checked.model, fresh) > 0.9
    assert (checked.quality is None) == (count < 8)


def test_times_by_chance_leave_the_analytic_model() -> None:
    rng = Random(1)
    own = samples("own", 40, 4, lambda *_: rng.gauss(0, 1))
    quality = checked_model(own, "own", ["tiles"]).quality
    assert quality is not None and quality.learned < 0.7


def test_costs_of_spaces_without_samples_stay_on_the_scale() -> None:
    """What all samples have in common, as the cycles of a second, is no correction."""
    known = samples("unit", 30, 4, lambda *_: 0.5)
    model = LearnedModel.fit(known, "unit", KERNEL_RIDGE)
    (other,) = model.costs([Description("others", 1000.0, {})])
    (own,) = model.costs([Description("tiles", 1000.0, known[0].description.features)])
    assert other == 1000.0 and own == pytest.approx(1000.0, rel=0.1)


def test_one_other_unit_says_nothing_of_a_space() -> None:
    """Its residuals may be those of its shape alone."""
    one, other = (samples(f"unit {size}", 30, size, slow_blocks) for size in (4, 6))
    descriptions = [one.description for one in samples("unit 7", 20, 7, slow_blocks)]
    cycles = [one.cycles for one in descriptions]
    assert LearnedModel.fit(one, "unit 7", KERNEL_RIDGE).costs(descriptions) == cycles
    assert LearnedModel.fit([*one, *other], "unit 7", KERNEL_RIDGE).costs(descriptions) != cycles


def test_what_all_points_of_a_unit_have_in_common_is_no_target() -> None:
    """A kernel that is slow as a whole ranks as others do."""
    fast = samples("fast", 30, 4, slow_blocks)
    slow = [replace(one, unit="slow", seconds=3 * one.seconds) for one in fast]
    ((group, targets),) = residual_targets([*fast, *slow]).values()
    assert len(group) == 60
    np.testing.assert_allclose(targets[:30], targets[30:])


@pytest.mark.parametrize("cycles", [0.0, 1.0, NEVER])
def test_any_cycles_have_a_finite_cost(cycles: float) -> None:
    model = LearnedModel.fit(samples("unit", 9, 4, slow_blocks), "unit", KERNEL_RIDGE)
    costs = model.costs([Description("tiles", cycles, {"rows": 1.0, "new": 3.0})])
    assert np.isfinite(costs).all() and model.costs([]) == []
    assert sample("unit", Description("tiles", NEVER, {}), 1.0) is None
    assert sample("unit", Description("tiles", 1.0, {}), None) is None


def test_a_model_is_the_same_for_the_same_samples() -> None:
    known = samples("one", 30, 4, slow_blocks) + samples("other", 30, 6, slow_blocks)
    first, second = (checked_model(known, "one", ["tiles"]) for _ in range(2))
    descriptions = [one.description for one in known]
    assert first.quality == second.quality
    assert first.model.costs(descriptions) == second.model.costs(descriptions)


def test_samples_of_all_units_and_the_newest_of_each_are_chosen() -> None:
    many = samples("many", 3 * MAX_SAMPLES, 4, slow_blocks)
    few, own = samples("few", 20, 5, slow_blocks), samples("own", 10, 6, slow_blocks)
    loops = samples("few", 5, 5, slow_blocks, space="loops")
    chosen = chosen_samples([*few, *own, *loops, *many], "own", ["tiles"])
    newest = many[::-1][: (MAX_SAMPLES - len(own)) // 2]
    assert chosen == [*own[::-1], *newest, *few[::-1]] and len(chosen) <= MAX_SAMPLES


def test_knowledge_learns_anew_from_what_is_added() -> None:
    knowledge = UnitKnowledge("unit")
    assert knowledge.model(["tiles"]) is ANALYTIC and knowledge.checked.quality is None
    for one in samples("unit", 40, 4, slow_blocks):
        knowledge.add(one.description, one.seconds)
    knowledge.add(Description("tiles", 1.0, {}), None)
    model = knowledge.model(["tiles"])
    assert model is not ANALYTIC and knowledge.model(["tiles"]) is model
    assert knowledge.checked.quality is not None and len(knowledge.samples) == 40


def test_knowledge_learns_anew_once_samples_have_grown_by_a_tenth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of the unit by a tenth, or those of all; of its own spaces."""
    learned: list[int] = []

    def counted(known: list[Sample], *_: Any) -> CheckedModel:
        learned.append(len(known))
        return CheckedModel()

    monkeypatch.setattr(knowledge_module, "checked_model", counted)
    others = samples("other", 200, 4, slow_blocks)
    knowledge = UnitKnowledge("own", samples=others)
    for unit, count, space in (
        ("own", 0, "tiles"),
        ("other", 19, "tiles"),
        ("other", 200, "loops"),
        ("own", 1, "tiles"),
        ("own", 1, "tiles"),
        ("other", 40, "tiles"),
    ):
        knowledge.samples += samples(unit, count, 4, slow_blocks, space)
        knowledge.model(["tiles"])
    assert learned == [200, 420, 421, 461]


def test_learning_ends_with_the_time() -> None:
    known = samples("one", 30, 4, slow_blocks) + samples("other", 30, 6, slow_blocks)
    knowledge = UnitKnowledge("one", samples=known)
    with Clock.of(0.0).limiting(), pytest.raises(OutOfTime):
        knowledge.model(["tiles"])
    assert knowledge.model(["tiles"]) is not ANALYTIC, "it is learned later"


def test_the_numbers_of_kernel_ridge_have_the_least_error_at_samples_left_out() -> None:
    rng = np.random.default_rng(0)
    rows, units = rng.normal(size=(14, 3)), ["one"] * 9 + ["other"] * 5
    targets = rows[:, 0] + 0.3 * rng.normal(size=14)
    everything = TrainingSet(rows, targets, np.zeros(14), units)
    known = ScaledSamples.of(everything)
    errors: dict[tuple[float, float], float] = {}
    for length in LENGTHS:
        kernel = known.kernel(length)
        for noise in NOISES:
            squares: list[float] = []
            for one in range(14):
                rest = np.delete(np.arange(14), one)
                noisy = kernel[np.ix_(rest, rest)] + noise * np.eye(13)
                expected = kernel[one, rest] @ np.linalg.solve(noisy, known.wanted[rest])
                squares.append((expected - known.wanted[one]) ** 2)
            errors[length, noise] = float(np.mean(squares))
    model = KernelRidge.fit(everything)
    assert (model.length, model.noise) == min(errors, key=lambda numbers: errors[numbers])
    again = model.refit(everything)
    np.testing.assert_allclose(again.predict(rows, "one"), model.predict(rows, "one"), rtol=1e-6)


def test_trees_learn_where_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(boosted_trees, "is_installed", lambda: True)
    known = [one for size in (4, 6, 8) for one in samples(f"unit {size}", 60, size, slow_blocks)]
    unseen = samples("unit 7", 60, 7, slow_blocks)
    model = LearnedModel.fit(known, "unit 7", BOOSTED_TREES)
    assert list(usable_learners(180)) == [KERNEL_RIDGE, BOOSTED_TREES]
    assert ranked(model, unseen) > 0.85


def test_folds_are_learned_with_trees_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are planes here, wherever LightGBM is not installed."""

    class Plane:
        def __init__(self, known: TrainingSet) -> None:
            counts.append(len(known.units))
            self.slopes = np.linalg.lstsq(known.rows, known.residuals, rcond=None)[0]

        def predict(self, rows: Any) -> Any:
            return rows @ self.slopes

    class Scores(Plane):
        def predict(self, rows: Any, raw_score: bool = False) -> Any:
            return -boosted_trees.SCORE * super().predict(rows)

    counts: list[int] = []
    monkeypatch.setattr(boosted_trees, "is_installed", lambda: True)
    monkeypatch.setattr(boosted_trees, "regression_trees", Plane)
    monkeypatch.setattr(boosted_trees, "ranking_trees", Scores)
    known = [one for size in (4, 6, 8) for one in samples(f"unit {size}", 40, size, slow_blocks)]
    quality = checked_model(known, "unit 7", ["tiles"]).quality
    assert counts == [120, 120, 80, 80, 80, 80, 80, 80]
    assert quality is not None and quality.learned > quality.analytic


def test_trees_need_a_hundred_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_trees, "is_installed", lambda: True)
    assert list(usable_learners(99)) == [KERNEL_RIDGE]
    assert list(usable_learners(100)) == [KERNEL_RIDGE, BOOSTED_TREES]
    monkeypatch.setattr(boosted_trees, "is_installed", lambda: False)
    assert list(usable_learners(1000)) == [KERNEL_RIDGE]


def test_a_quality_in_words() -> None:
    quality = ModelQuality(KERNEL_RIDGE, 34, 2, 36, 0.75, 0.5)
    assert str(quality) == (
        "kernel ridge from 34 measurements of 2 kernels, used: 75% of 36 pairs that it did not "
        "learn from in their order, 50% by the cost model alone"
    )
    assert "not used" in str(ModelQuality(KERNEL_RIDGE, 34, 2, 36, 0.5, 0.5))


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=12))
def test_qualities_are_those_of_their_definitions(pairs: list[tuple[int, int]]) -> None:
    estimated, measured = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    right, count = 0.0, 0
    for first in range(len(pairs)):
        for second in range(first):
            one, other = pairs[first], pairs[second]
            if one[1] != other[1]:
                count += 1
                product = (one[0] - other[0]) * (one[1] - other[1])
                right += 1.0 if product > 0 else 0.5 if product == 0 else 0.0
    assert right_pairs(estimated, measured) == (right, count)
    correlation = rank_correlation(estimated, measured)
    assert -1 <= correlation <= 1
    assert rank_correlation([-value for value in estimated], measured) == pytest.approx(
        -correlation
    )
    assert recall_of_top(measured, measured, 5) == 1.0
