"""What does each part of the search for schedules contribute?

python -m bench.ablation [UNIT…] [--log LOG] [--units N] [--seeds N] [--trials N] [--json PATH]

Compares the full search with searches that lack a part, with what the models alone think best, and
with chance. Each unit is searched with each strategy and seed, from nothing, and after some numbers
of trials a search has a regret: its best so far, divided by the best that any of them finds. With
a LOG, as of `bench.tune`, nothing is measured: a search finds what was recorded of a kernel, and
learns from what was recorded of all others. That takes one or two minutes; without a LOG, small
numbers of units, seeds and trials keep to a budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import inf
from pathlib import Path
from random import Random
from statistics import geometric_mean
from typing import Any, cast

import bench
from bench.ranking import log_of
from bench.recorded_space import RecordedSpace
from bench.tune import named, regret_after, searched
from codegen.tuning.cost_model.checked import CheckedShared, shared_models
from codegen.tuning.cost_model.knowledge import UnitKnowledge
from codegen.tuning.cost_model.samples import Sample, recorded_samples
from codegen.tuning.measuring.task import Outcome
from codegen.tuning.records.log import TuningRecord
from codegen.tuning.search.history import ScheduleTrial, SearchHistory
from codegen.tuning.search.strategies import ABLATIONS
from codegen.tuning.search.tuner import BATCH, Curve
from codegen.tuning.spaces.space import CodeCandidate, ScheduleSpace, SearchSpace

BUDGETS = (4, 8, 16, 32, 64)
MIN_POINTS = 24  # of a kernel in a log, that is worth searching


@dataclass(frozen=True)
class Searched:
    """The curve of a search of a unit; `fastest` are the least seconds that a log has of it."""

    unit: str
    strategy: str
    curve: Curve
    fastest: float = inf


@dataclass(frozen=True)
class KnownKernels:
    """What was measured of other kernels, and learned of that: once for all searches of one."""

    samples: Sequence[Sample] = ()
    spaces: Sequence[str] = ()

    @cached_property
    def shared(self) -> Mapping[str, CheckedShared]:
        return shared_models(self.samples, "", self.spaces)

    def knowledge(self) -> UnitKnowledge:
        """Return what a new search knows, whose own samples are added."""
        counted = sum(one.description.space in self.spaces for one in self.samples)
        return UnitKnowledge(
            samples=list(self.samples), shared=self.shared, learned_from=(0, counted)
        )


NOTHING_KNOWN = KnownKernels()


def recorded_spaces(records: Sequence[TuningRecord]) -> list[RecordedSpace]:
    """Return the spaces of the records of one kernel, the one that costs least first."""
    names = dict.fromkeys(record.space for record in records)
    spaces = [RecordedSpace.of(name, [r for r in records if r.space == name]) for name in names]
    right = [space for space in spaces if space.points]
    return sorted(right, key=lambda space: space.cycles(space.start()))


def simulated(
    spaces: Sequence[RecordedSpace],
    strategy: str,
    seed: int,
    trials: int,
    others: KnownKernels = NOTHING_KNOWN,
) -> Curve:
    """Return the curve of a search that finds what was recorded, and knows other kernels."""
    recorded = {space.name: space for space in spaces}
    starts = [_start(space) for space in spaces]
    history = SearchHistory(starts, Random(seed), knowledge=others.knowledge())
    chosen, curve = ABLATIONS[strategy](), list[tuple[int, float, float]]()
    candidates = starts[:1]
    while candidates and len(curve) < trials:
        for candidate in candidates[: trials - len(curve)]:
            seconds = recorded[candidate.space.name].seconds(candidate.point)
            number = len(history.trials) + 1
            history.see(candidate)
            history.knowledge.add(history.knowledge.described(candidate), seconds)
            outcome = Outcome(seconds)
            history.trials.append(ScheduleTrial(candidate, outcome, number, 0.0, seconds))
            best = min([seconds, *(one for *_, one in curve[-1:])])
            curve.append((number, 0.0, best))
        candidates = chosen.propose(history, BATCH)
    return curve


def _start(space: SearchSpace) -> CodeCandidate:
    """Return the start of a space as a candidate, of which a strategy asks no code."""
    return CodeCandidate(cast(ScheduleSpace, space), space.start())


def simulated_searches(
    records: Iterable[TuningRecord], words: Sequence[str], count: int, seeds: int, trials: int
) -> Iterator[Searched]:
    """Yield each search of what a log has."""
    kernels: dict[str, list[TuningRecord]] = {}
    for record in records:
        kernels.setdefault(record.unit, []).append(record)
    samples = recorded_samples(record for own in kernels.values() for record in own)
    chosen: list[tuple[str, list[RecordedSpace]]] = []
    for unit, own in kernels.items():
        spaces = recorded_spaces(own)
        is_named = not words or any(word in own[0].statement for word in words)
        if is_named and sum(len(space.points) for space in spaces) >= MIN_POINTS:
            chosen.append((unit, spaces))
    for unit, spaces in islice(chosen, count):
        own = [space.name for space in spaces]
        others = KnownKernels([one for one in samples if one.unit != unit], own)
        fastest = min(space.seconds(point) for space in spaces for point in space.points)
        for strategy in ABLATIONS:
            for seed in range(seeds):
                curve = simulated(spaces, strategy, seed, trials, others)
                yield Searched(unit, strategy, curve, fastest)


def measured_searches(
    words: Sequence[str], count: int, seeds: int, trials: int
) -> Iterator[Searched]:
    """Yield each search, which measures here."""
    for name, expression in islice(named(words).items(), count):
        for seed in range(seeds):
            for strategy in ABLATIONS:
                curve = searched(expression, strategy, seed, trials).curve
                yield Searched(name, strategy, curve)


def ablation(searches: Iterable[Searched], trials: int) -> list[bench.Row]:
    """Return a row for each strategy: its regrets, the geometric means over units and seeds.

    >>> full, part = [(1, 0.0, 4.0), (4, 0.0, 2.0)], [(1, 0.0, 4.0)]
    >>> ablation([Searched("unit", "full", full), Searched("unit", "part", part)], 4)
    [{'strategy': 'full', 'searches': 1, 'after 4': 1.0},
     {'strategy': 'part', 'searches': 1, 'after 4': 2.0}]
    """
    strategies: dict[str, list[Searched]] = {}
    best: dict[str, float] = {}
    for one in searches:
        strategies.setdefault(one.strategy, []).append(one)
        best[one.unit] = min(best.get(one.unit, inf), one.fastest, one.curve[-1][2])
    rows: list[bench.Row] = []
    for strategy, own in strategies.items():
        row: dict[str, Any] = {"strategy": strategy, "searches": len(own)}
        for budget in BUDGETS:
            if budget <= trials:
                regrets = [regret_after(one.curve, budget, best[one.unit]) for one in own]
                row[f"after {budget}"] = geometric_mean(regrets)
        rows.append(row)
    return rows


def main() -> None:
    parser = bench.options("What does each part of the search for schedules contribute?")
    parser.add_argument("words", nargs="*", metavar="UNIT", help="words in units or statements")
    parser.add_argument("--log", type=Path, metavar="LOG", help="simulate with a log")
    parser.add_argument("--units", type=int, default=10, help="at most (default: 10)")
    parser.add_argument("--seeds", type=int, default=5, help="searches of each (default: 5)")
    parser.add_argument("--trials", type=int, default=64, help="of each search (default: 64)")
    options = parser.parse_args()
    numbers = options.words, options.units, options.seeds, options.trials
    if options.log is None:
        searches = measured_searches(*numbers)
    else:
        searches = simulated_searches(log_of(options.log).records(), *numbers)
    bench.report({"regret": ablation(searches, options.trials)}, options.json)


if __name__ == "__main__":
    main()
