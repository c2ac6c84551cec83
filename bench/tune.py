"""Measure how far a search of schedules is from the best that a long one finds: its regret.

python -m bench.tune [UNIT…] [--trials N] [--seeds N] [--strategies NAME…] [--target cuda]
                    [--log LOG] [--json PATH]

UNIT is a word in the name of a unit. Each is searched with each strategy and seed, from nothing;
the best of all these measurements is what the best after 16 and after 64 is compared with. `einalg
tune` keeps winners for this machine; here none is kept. All measurements are added to a file LOG,
which `bench.ranking` and `bench.ablation` read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from typing import Any

import bench
import einalg as ea
from codegen.program.tune import RepeatedProgram, TuningOptions, tune_programs
from codegen.tuning.search.strategies import ABLATIONS
from codegen.tuning.search.tuner import Curve
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.api.schedules.tuning import Tuning
from einalg.language import ops
from einalg.language.ir.program import as_program
from einalg.runtime.clock import Clock

AFTER = (16, 64)  # measurements, after which the regret is told
CACHE = "EINALG_CACHE"


def units() -> Mapping[str, Any]:
    """Return statements whose code is of several kinds, by name."""
    data, space = ea.tensor("A", (1, 14, 14, 256)), ea.tensor("A", (1, 64, 28, 28))
    wide, banded = ea.tensor("A", (4, 512, 64)), ea.tensor("A", (4, 512, 65))
    nhwc: dict[str, Any] = {"layout": "NHWC", "weight_layout": "HWIO"}
    depthwise = ea.tensor("K", (3, 3, 1, 256), role="weight")
    fused = "T[i,j] += A[i,k]*B[k,j]\nO[i,j] = Max(T[i,j] + b[j], 0)"
    return {
        "product 512": ops.matmul(
            ea.tensor("A", (512, 512)), ea.tensor("B", (512, 512), role="weight")
        ),
        "product 512x32x512": ops.matmul(ea.tensor("A", (32, 512)), ea.tensor("B", (512, 512))),
        "vector times matrix": ops.matmul(ea.tensor("A", (1, 1024)), ea.tensor("B", (1024, 4096))),
        "product with reader": ea.parse(fused, A=(196, 256), B=(256, 128), b=(128,)),
        "convolution 14": ops.conv2d(
            data, ea.tensor("K", (3, 3, 256, 256), role="weight"), padding=1, **nhwc
        ),
        "convolution 7": ops.conv2d(
            ea.tensor("A", (1, 7, 7, 512)),
            ea.tensor("K", (3, 3, 512, 512), role="weight"),
            padding=1,
            **nhwc,
        ),
        "convolution, channels first": ops.conv2d(
            space, ea.tensor("K", (64, 64, 3, 3), role="weight"), padding=1
        ),
        "few filters": ops.conv2d(space, ea.tensor("K", (4, 64, 3, 3), role="weight"), padding=1),
        "depthwise": ops.conv2d(data, depthwise, padding=1, groups=256, **nhwc),
        "transposed convolution": ops.conv_transpose2d(
            ea.tensor("A", (1, 8, 8, 256)),
            ea.tensor("K", (256, 128, 4, 4), role="weight"),
            stride=2,
            padding=1,
            layout="NHWC",
        ),
        "band": ops.g2bmm(wide, ea.tensor("B", (4, 512, 64)), 32),
        "banded": ops.gbmm(banded, ea.tensor("B", (4, 512, 64))),
        "product 197x64x197": ops.matmul(
            ea.tensor("A", (6, 197, 64)), ea.tensor("B", (6, 197, 64)), transpose_b=True
        ),
        "triangle": ea.parse(
            "O[b,i:256,e] = Sum[j:256](A[b,i,j]*B[b,j,e], where=j <= i)",
            A=(4, 256, 256),
            B=(4, 256, 64),
        ),
        "transposition": ea.parse("O[i,j] = A[j,i]", A=(768, 512)),
        "sum of distances": ea.parse("O[i,j] += Abs(A[i,k] - B[k,j])", A=(192, 192), B=(192, 192)),
        "largest sum": ea.parse("O[i,j] = Max[k:192](A[i,k] + B[k,j])", A=(192, 192), B=(192, 192)),
        "squares of rows": ea.parse("O[i] += A[i,j]*A[i,j]", A=(512, 768)),
        "softmax": ops.softmax(ea.tensor("A", (512, 196)), 1),
        "map": ea.parse("O[i,j] = exp(A[i,j])*b[j]", A=(512, 768), b=(768,)),
    }


def named(words: Sequence[str]) -> Mapping[str, Any]:
    """Return the units in whose names is one of some words; all of them without any."""
    chosen: dict[str, Any] = {}
    for name, expression in units().items():
        if not words or any(word.lower() in name.lower() for word in words):
            chosen[name] = expression
    return chosen


def searched(
    expression: Any,
    strategy: str,
    seed: int,
    trials: int,
    target: str = "cpu",
    log: Path | None = None,
) -> Tuning:
    """Return what a search finds that knows of no other one. A log gets its measurements."""
    program = lifted(as_program(expression))
    own = RepeatedProgram(program, kernels_of(program))
    options = TuningOptions(trials=trials, strategy=strategy, seed=seed, target=target)
    with empty_cache():
        tuned = tune_programs([own], options, Clock.of(inf))
        if log is not None:
            with log.open("ab") as file:
                file.write(tuned.log.read_bytes())
    return Tuning(tuned.units, tuned.untuned, tuned.log)


@contextmanager
def empty_cache() -> Iterator[None]:
    """Let a block have a cache of its own."""
    before = os.environ.get(CACHE)
    with TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            os.environ.pop(CACHE)
            if before is not None:
                os.environ[CACHE] = before


def seconds_after(curve: Curve, trials: int) -> float:
    """Return the seconds of the best of so many trials.

    >>> seconds_after([(1, 0.1, 4.0), (3, 0.2, 2.0)], 2)
    4.0
    """
    seconds = curve[0][2]
    for number, _, best in curve:
        if number <= trials:
            seconds = best
    return seconds


def regret_after(curve: Curve, trials: int, best: float) -> float:
    """Return the best of so many trials, divided by the best there is."""
    return seconds_after(curve, trials) / best


def regrets(
    chosen: Mapping[str, Any],
    strategies: Sequence[str],
    seeds: int,
    trials: int,
    target: str = "cpu",
    log: Path | None = None,
) -> Iterator[bench.Row]:
    """Yield a row for each unit and strategy: the means over the seeds."""
    for name, expression in chosen.items():
        tunings: dict[str, list[Tuning]] = {}
        for strategy in strategies:
            tunings[strategy] = [
                searched(expression, strategy, seed, trials, target, log) for seed in range(seeds)
            ]
        best = min(t.curve[-1][2] for group in tunings.values() for t in group)
        for strategy, group in tunings.items():
            row: bench.Row = {"unit": name, "strategy": strategy, "best ms": best * 1e3}
            row["start"] = geometric_mean(t.curve[0][2] / best for t in group)
            for number in AFTER:
                ratios = [regret_after(t.curve, number, best) for t in group]
                row[f"after {number}"] = geometric_mean(ratios)
            yield row


def main() -> None:
    parser = bench.options("How far is a search of schedules from the best?")
    parser.add_argument("units", nargs="*", metavar="UNIT", help="words in the names of units")
    parser.add_argument("--trials", type=int, default=500, help="of each search (default: 500)")
    parser.add_argument("--seeds", type=int, default=1, help="searches of each (default: 1)")
    parser.add_argument("--strategies", nargs="+", choices=list(ABLATIONS), default=["evolution"])
    parser.add_argument("--log", type=Path, metavar="LOG", help="a file for all measurements")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    rows = regrets(
        named(options.units),
        options.strategies,
        options.seeds,
        options.trials,
        options.target,
        options.log,
    )
    bench.report({"regret": rows}, options.json)


if __name__ == "__main__":
    main()
