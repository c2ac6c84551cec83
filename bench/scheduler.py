"""Does the gradient spend the trials of a network where they save most?

python -m bench.scheduler [NETWORK…] [--trials N] [--seeds N] [--json PATH]

The kernels of a network, as it is without a search for other forms, are searched twice from
nothing, with so many trials each on average: in turns, and that first which promises to save most
(Ansor, OSDI'20, §6). `turns ms` and `gradient ms` are what these end with: the kernels of a run by
themselves, each as often as a run computes it. `share` is that of the trials in turns after which
the gradient has what turns end with, to 1 % as no measurement is more exact. `whole ms` is a call
of the network compiled with what the gradient found; `parts of whole` compares its kernels with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any

import numpy as np

import bench
import einalg as ea
from bench.models import MODELS
from bench.tune import empty_cache
from codegen.program.compile import compile_program
from codegen.program.tune import RepeatedProgram, TuningOptions, tune_programs
from codegen.tuning.search.task_scheduler import Scheduler, by_gradient, in_turns
from codegen.tuning.search.tuner import Curve
from derive.programs import repeated_programs
from einalg.api.schedules.tuning import Tuning
from einalg.language.ir.dtypes import numpy_dtype
from einalg.runtime.clock import Clock
from einalg.runtime.timing import measure

EXACTNESS = 0.01  # of a run's time
NETWORKS = ("resnet18", "mobilenet_v2", "bert", "dcgan", "lstm")


@dataclass(frozen=True)
class NetworkSearch:
    """The curve of a search of a network's kernels; `seconds` are those of a call afterwards."""

    units: int
    curve: Curve
    seconds: float

    @property
    def end(self) -> float:
        """The seconds that the kernels of a run take by themselves at the end of the search."""
        return self.curve[-1][2]


def searched(network: ea.Optimized, trials: int, seed: int, scheduler: Scheduler) -> NetworkSearch:
    """Return a search that knows of no other one."""
    parts = repeated_programs(network.parts.values())
    programs = [RepeatedProgram(*part) for part in parts]
    options = TuningOptions(trials=trials, seed=seed, scheduler=scheduler)
    with empty_cache():
        tuned = tune_programs(programs, options, Clock.of(inf))
        tuning = Tuning(tuned.units, tuned.untuned, tuned.log)
        seconds = sum(own.count * seconds_of(own) for own in programs)
    return NetworkSearch(len(tuning.units), tuning.curve, seconds)


def seconds_of(own: RepeatedProgram) -> float:
    """Return the seconds of a call of a program, compiled with the schedules that were found."""
    run = compile_program(own.program, own.kernels, compares=False)
    random = np.random.default_rng(0)
    arrays: dict[str, dict[str, Any]] = {"weight": {}, "input": {}}
    for name, tensor in own.program.inputs.items():
        values = 0.1 * random.standard_normal(tensor.shape)
        role = "weight" if tensor.role == "weight" else "input"
        arrays[role][name] = values.astype(numpy_dtype(tensor.dtype))
    ready = run.bind(**arrays["weight"])
    return measure({"whole": lambda: ready(**arrays["input"])})["whole"].seconds


def share_of_trials(curve: Curve, other: Curve) -> float:
    """Return the share of another search's trials after which one has what that ends with.

    It is `inf` where it does not come so far, but for what no measurement tells.

    >>> share_of_trials([(1, 0.1, 4.0), (2, 0.2, 3.0)], [(1, 0.1, 4.0), (4, 0.2, 3.0)])
    0.5
    """
    trials, _, end = other[-1]
    enough = end * (1 + EXACTNESS)
    return next((trial / trials for trial, _, best in curve if best <= enough), inf)


def compared(names: Sequence[str], trials: int, seeds: int) -> Iterator[bench.Row]:
    """Yield a row for each network: the medians of searches with several seeds."""
    for name in names:
        shares: list[float] = []
        ends: list[float] = []
        searches: list[NetworkSearch] = []
        module, inputs = MODELS[name](1)
        network = ea.optimize(module, inputs, seconds=0, prefer="einalg", progress=False)
        for seed in range(seeds):
            turns = searched(network, trials, seed, in_turns)
            gradient = searched(network, trials, seed, by_gradient)
            shares.append(share_of_trials(gradient.curve, turns.curve))
            ends.append(turns.end)
            searches.append(gradient)
        parts = median(search.end for search in searches)
        whole = median(search.seconds for search in searches)
        share = median(shares)
        yield {
            "network": name,
            "kernels": searches[0].units,
            "trials": searches[0].curve[-1][0],
            "start ms": searches[0].curve[0][2] * 1e3,
            "turns ms": median(ends) * 1e3,
            "gradient ms": parts * 1e3,
            "share": share if share < inf else "never",
            "whole ms": whole * 1e3,
            "parts of whole": parts / whole,
        }


def main() -> None:
    parser = bench.options("Does the gradient spend trials where they save most?")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="by default five")
    parser.add_argument("--trials", type=int, default=40, help="of a kernel (default: 40)")
    parser.add_argument("--seeds", type=int, default=1, help="searches of each (default: 1)")
    options = parser.parse_args()
    names = options.networks or NETWORKS
    bench.report({"trials": compared(names, options.trials, options.seeds)}, options.json)


if __name__ == "__main__":
    main()
