"""How well do cost models rank what was measured, of kernels that they did not learn from?

python -m bench.ranking LOG [--json PATH]

LOG is a file of `einalg tune` or of `bench.tune`, as the results name it. Random points say most
(`bench.tune --strategies random`): those of a search are about equally fast. Each kernel is left
out in turn; a model learns from all others, and ranks those points of it that were measured. The
paper of Ansor reports 0.851 of all pairs, and 0.624 of the thirty fastest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import mean
from time import process_time
from typing import Any

import bench
from codegen.hardware.cpu import machine
from codegen.targets.c.compiler import find_compiler
from codegen.tuning.cost_model.description import described, unit_features
from codegen.tuning.cost_model.learned import ANALYTIC, CandidateCosts, LearnedModel
from codegen.tuning.cost_model.quality import pairwise_accuracy, rank_correlation, recall_of_top
from codegen.tuning.cost_model.samples import Sample, chosen_samples, recorded_samples
from codegen.tuning.cost_model.shared import LEARNERS, usable_learners
from codegen.tuning.records.log import TuningLog
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.search.tuner import BATCH
from codegen.tuning.spaces.loops import WrittenFields
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import unit_spaces
from derive.matching import match
from einalg.errors import CodegenError
from einalg.language import ops
from einalg.language.notation.builders import tensor

TOP = 30  # of the fastest, that are looked for among as many of the cheapest
TOP_NAME = f"top {TOP}"
ANALYTIC_NAME = "analytic"
TIMED_POINTS = 200
MIN_SAMPLES = 4  # of a kernel that is ranked
MAX_STATEMENT = 60  # characters


def log_of(path: Path) -> TuningLog:
    """Return a log in a file; to read records of another machine, compiler or schema is an error.

    Those of other code of einalg are read: they say how models rank, whatever is compiled now.
    """
    compiler = find_compiler()
    if compiler is None:
        raise CodegenError("records belong to a compiler\n  install gcc or clang, or set CC")
    return TuningLog(path, Provenance.here(compiler))


def estimates(samples: Sequence[Sample], unit: str) -> Mapping[str, list[float]]:
    """Return the costs of the samples of a unit by each model that did not learn from them."""
    own = [one.description for one in samples if one.unit == unit]
    others = [one for one in samples if one.unit != unit]
    chosen = chosen_samples(others, unit, {one.space for one in own})
    models: dict[str, CandidateCosts] = {ANALYTIC_NAME: ANALYTIC}
    if chosen:
        for learner in usable_learners(len(chosen)):
            models[learner] = LearnedModel.fit(chosen, unit, learner)
    return {name: model.costs(own) for name, model in models.items()}


def rankings(samples: Sequence[Sample], statements: Mapping[str, str]) -> Iterator[bench.Row]:
    """Yield a row for each kernel and model.

    "loss" is what the best of the eight cheapest points loses to the fastest one.
    """
    for unit in dict.fromkeys(one.unit for one in samples):
        seconds = [one.seconds for one in samples if one.unit == unit]
        if len(seconds) < MIN_SAMPLES:
            continue
        for name, costs in estimates(samples, unit).items():
            yield {
                "kernel": statements[unit][:MAX_STATEMENT],
                "model": name,
                "points": len(seconds),
                "pairs": pairwise_accuracy(costs, seconds),
                TOP_NAME: recall_of_top(costs, seconds, TOP),
                "correlation": rank_correlation(costs, seconds),
                "loss": min(_cheapest(costs, seconds)) / min(seconds),
            }


def _cheapest(costs: Sequence[float], seconds: Sequence[float]) -> list[float]:
    """Return the seconds of the points that cost least: what a first batch would measure."""
    order = sorted(range(len(costs)), key=lambda number: costs[number])
    return [seconds[number] for number in order[:BATCH]]


def summary(rows: Iterable[bench.Row]) -> Iterator[bench.Row]:
    """Yield a row for each model: the means over all kernels.

    The fastest are looked for only in kernels of which twice as many were measured.
    """
    groups: dict[str, list[bench.Row]] = {}
    for row in rows:
        groups.setdefault(row["model"], []).append(row)
    for name, group in groups.items():
        large = [row[TOP_NAME] for row in group if row["points"] >= 2 * TOP]
        yield {
            "model": name,
            "kernels": len(group),
            "points": sum(row["points"] for row in group),
            "pairs": mean(row["pairs"] for row in group),
            TOP_NAME: mean(large) if large else "too few points",
            "correlation": mean(row["correlation"] for row in group),
            "loss": mean(row["loss"] for row in group),
        }


def timed_units() -> Mapping[str, Any]:
    """Return statements, one for each kind of space that prices points without writing code."""
    data, depthwise = tensor("A", (1, 28, 28, 64)), tensor("K", (3, 3, 1, 64), role="weight")
    nhwc: dict[str, Any] = {"layout": "NHWC", "weight_layout": "HWIO", "padding": 1}
    return {
        "product": ops.matmul(tensor("A", (256, 256)), tensor("B", (256, 256))),
        "convolution": ops.conv2d(data, tensor("K", (3, 3, 64, 64), role="weight"), **nhwc),
        "depthwise": ops.conv2d(data, depthwise, groups=64, **nhwc),
    }


def estimating_times(samples: Sequence[Sample]) -> Iterator[bench.Row]:
    """Yield the microseconds of processor time in which a point is estimated, by space."""
    for name, scope in timed_units().items():
        kernel = match(scope, "O")
        assert kernel is not None  # of an operator
        unit = CodeUnit(kernel, scope)
        for space in unit_spaces(unit, machine()):
            chosen = chosen_samples(samples, "", [space.name])
            if not chosen or isinstance(space, WrittenFields):
                continue  # loops are written to be priced
            rng = Random(0)
            candidates = [CodeCandidate(space, space.sample(rng)) for _ in range(TIMED_POINTS)]
            began = process_time()
            of_unit = unit_features(unit, machine().level2)
            descriptions = [described(candidate, of_unit) for candidate in candidates]
            middle = process_time()
            row: dict[str, Any] = {"unit": name, "space": space.name}
            row["describing µs"] = (middle - began) / TIMED_POINTS * 1e6
            usable = list(usable_learners(len(chosen)))
            for learner in LEARNERS:
                row[f"{learner} µs"] = "not used"
                if learner not in usable:
                    continue
                model = LearnedModel.fit(chosen, "", learner)
                began = process_time()
                model.costs(descriptions)
                row[f"{learner} µs"] = (process_time() - began) / TIMED_POINTS * 1e6
            yield row


def main() -> None:
    parser = bench.options("How well do cost models rank what was measured?")
    parser.add_argument("log", type=Path, metavar="LOG", help="a log of measurements")
    options = parser.parse_args()
    records = list(log_of(options.log).records())
    samples = recorded_samples(records)
    statements = {record.unit: record.statement for record in records}
    rows = list(rankings(samples, statements))
    tables = {"ranking": rows, "models": summary(rows), "time": estimating_times(samples)}
    bench.report(tables, options.json)


if __name__ == "__main__":
    main()
