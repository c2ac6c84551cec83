"""The ablation of the search, and the ranking of models, on records that are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import einalg as ea
from bench import ranking
from bench.ablation import (
    BUDGETS,
    KnownKernels,
    ablation,
    recorded_spaces,
    simulated,
    simulated_searches,
)
from bench.ranking import ANALYTIC_NAME, estimating_times, log_of, rankings, summary
from bench.recorded_space import RecordedPoint
from codegen.tuning.cost_model import boosted_trees
from codegen.tuning.cost_model.samples import recorded_samples
from codegen.tuning.cost_model.shared import KERNEL_RIDGE
from codegen.tuning.measuring.task import Outcome
from codegen.tuning.records.log import TuningLog, TuningRecord
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.search import strategies
from codegen.tuning.search.strategies import ABLATIONS
from einalg.errors import RecordError
from einalg.language import ops
from tests.helpers.kernels import quick_compiler


def records(unit: str, size: int) -> list[TuningRecord]:
    """Return records of a kernel; the model knows nothing of blocks, and few rows are slow."""
    rng, made = Random(size), list[TuningRecord]()
    provenance = Provenance.here(quick_compiler())
    for rows in range(1, 9):
        for block in (1, 2, 4, 8, 16):
            cycles = 1e6 * (1 + 1 / rows)
            features = {"rows": float(rows), "block": float(block), "size": float(size)}
            seconds = cycles / 3e9 * (1 + abs(block - size) / 8) * rng.uniform(0.99, 1.01)
            point = {"parts": [{"rows": rows, "block": block}]}
            outcome = Outcome(seconds)
            record = TuningRecord(
                provenance, unit, f"O = {unit}", "contraction", point, cycles, features, outcome
            )
            made.append(record)
    refused = replace(made[0], outcome=Outcome(reason="time-out"))
    return [*made, refused, replace(made[3], space="loops", cycles=9e6)]


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> list[TuningRecord]:
    monkeypatch.setattr(strategies, "POPULATION", 8)
    monkeypatch.setattr(boosted_trees, "is_installed", lambda: False)
    return [one for n, size in enumerate((2, 4, 8)) for one in records(f"unit {n}", size)]


def test_a_recorded_space_has_what_was_measured() -> None:
    (space, loops) = recorded_spaces(records("unit", 4))
    assert (space.name, len(space.points), loops.name, len(loops.points)) == (
        "contraction",
        40,
        "loops",
        1,
    )
    start, rng = space.start(), Random(1)
    near = list(space.neighbours(start))
    assert near and start not in near and set(near) <= set(space.points)
    assert len({sum(a != b for a, b in zip(start.values, p.values)) for p in near}) == 1
    child = space.cross(near[0], near[-1], rng)
    assert all(
        value in (a, b) for value, a, b in zip(child.values, near[0].values, near[-1].values)
    )
    assert RecordedPoint((8, 4)) in space.points
    assert list(loops.neighbours(loops.start())) == []


def test_each_strategy_is_simulated_and_the_same_for_a_seed(everything: list[TuningRecord]) -> None:
    spaces = recorded_spaces(records("unit 1", 4))
    samples = recorded_samples(one for one in everything if one.unit != "unit 1")
    others = KnownKernels(samples, [space.name for space in spaces])
    for strategy in ABLATIONS:
        curve = simulated(spaces, strategy, 1, 12, others)
        assert [number for number, *_ in curve] == list(range(1, 13))
        best = [seconds for *_, seconds in curve]
        assert best == sorted(best, reverse=True)
        assert curve == simulated(spaces, strategy, 1, 12, others)


def test_each_strategy_has_its_regret(everything: list[TuningRecord]) -> None:
    searches = simulated_searches(everything, [], count=3, seeds=2, trials=16)
    rows = {row["strategy"]: row for row in ablation(searches, 16)}
    assert set(rows) == set(ABLATIONS) and rows["evolution"]["searches"] == 6
    assert [name for name in rows["model"] if name.startswith("after")] == [
        f"after {budget}" for budget in BUDGETS if budget <= 16
    ]
    for row in rows.values():
        assert row["after 4"] >= row["after 8"] >= row["after 16"] >= 1.0
    assert rows["evolution"]["after 16"] < 1.1


def test_models_are_ranked_on_kernels_that_they_did_not_learn_from(
    everything: list[TuningRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    product = {"product": ops.matmul(ea.tensor("A", (8, 32)), ea.tensor("B", (32, 32)))}
    monkeypatch.setattr(ranking, "timed_units", lambda: product)
    samples = recorded_samples(everything)
    statements = {one.unit: one.statement for one in everything}
    rows = list(rankings(samples, statements))
    models = {row["model"]: row for row in summary(rows)}
    assert models[KERNEL_RIDGE]["kernels"] == 3
    assert models[KERNEL_RIDGE]["pairs"] > models[ANALYTIC_NAME]["pairs"]
    (row, *_) = estimating_times(samples)
    assert row["space"] == "contraction" and row["describing µs"] > 0


def test_a_log_of_another_compiler_is_refused(tmp_path: Path) -> None:
    (record, *_) = records("unit", 4)
    log = TuningLog(tmp_path / "log.jsonl", record.provenance)
    log.append(replace(record, provenance=replace(record.provenance, compiler="another")))
    with pytest.raises(RecordError, match="of another compiler"):
        list(log_of(log.path).records())
