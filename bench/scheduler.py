"""Does the gradient spend the trials of a network where they save most?

python -m bench.scheduler [NETWORK…] [--trials N] [--seeds N] [--json PATH]

The kernels of a network, as it is without a search for other forms, are searched from nothing. What
each of their rounds found is recorded, and shared twice: in turns, and with that first which
promises to save most (Ansor, OSDI'20, §6). So both meet the same measurements. `turns ms` is what
turns end with after so many trials a kernel: the kernels of a run by themselves, each as often as a
run computes it. `gradient ms` is what the gradient ends with, and `share` the part of the trials
in turns after which it has what these end with; rounds of twice the trials are recorded for it.
`whole ms` is a call of the network compiled with what was found; `parts of whole` compares its
kernels with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from codegen.tuning.search.task_scheduler import (
    Scheduler,
    TuningTask,
    by_gradient,
    in_turns,
    run_seconds,
)
from codegen.tuning.search.tuner import BATCH
from derive.programs import repeated_programs
from einalg.language.ir.dtypes import numpy_dtype
from einalg.runtime.clock import Clock
from einalg.runtime.timing import measure

EXACTNESS = 0.01  # of a run's time
RECORDED = 2  # times the trials in turns, so that some kernels may have more of them
NETWORKS = ("resnet18", "mobilenet_v2", "bert", "dcgan", "lstm")
Progress = list[tuple[int, float]]  # the seconds of a run after so many trials


@dataclass
class Recorder:
    """Searches units in turns, and keeps what each of their rounds found."""

    tasks: Sequence[TuningTask] = ()

    def __call__(self, tasks: Sequence[TuningTask]) -> int | None:
        self.tasks = tasks
        return in_turns(tasks)


@dataclass(frozen=True)
class NetworkSearch:
    """The tasks of a search of a network's kernels, with all their rounds.

    The `parts` are the seconds of the kernels of a run by themselves with what was found, and the
    `whole` those of a call.
    """

    tasks: Sequence[TuningTask]
    parts: float
    whole: float


def searched(network: ea.Optimized, trials: int, seed: int) -> NetworkSearch:
    """Return a search that knows of no other one."""
    parts = repeated_programs(network.parts.values())
    programs = [RepeatedProgram(*part) for part in parts]
    recorder = Recorder()
    options = TuningOptions(trials=trials, seed=seed, scheduler=recorder)
    with empty_cache():
        tuned = tune_programs(programs, options, Clock.of(inf))
        of_kernels = sum(unit.share.count * unit.seconds for unit in tuned.units)
        whole = sum(own.count * seconds_of(own) for own in programs)
    return NetworkSearch(recorder.tasks, of_kernels, whole)


def replayed(tasks: Sequence[TuningTask], scheduler: Scheduler, trials: int) -> Progress:
    """Return what a scheduler that finds recorded rounds has after each of so many trials.

    A task is done where it has no other recorded round.

    >>> task = TuningTask(2, 8.0, "sum", [4.0, 3.0, 3.0])
    >>> replayed([task], in_turns, 10)
    [(1, 8.0), (9, 6.0)]
    """
    fresh = [replace(task, best=[], is_done=False) for task in tasks]
    progress: Progress = []
    made = 0
    while (number := scheduler(fresh)) is not None:
        own, recorded = fresh[number], tasks[number].best
        made += BATCH if own.rounds else 1
        if made > trials:
            break
        own.best.append(recorded[own.rounds])
        own.is_done = own.rounds == len(recorded)
        if (seconds := run_seconds(fresh)) < inf:
            progress.append((made, seconds))
    return progress


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


def share_of_trials(own: Progress, other: Progress) -> float:
    """Return the share of another search's trials after which one has what that ends with.

    It is `inf` where it does not come so far, but for what no measurement tells.

    >>> share_of_trials([(1, 4.0), (2, 3.0)], [(1, 4.0), (4, 3.0)])
    0.5
    """
    trials, end = other[-1]
    enough = end * (1 + EXACTNESS)
    return next((trial / trials for trial, seconds in own if seconds <= enough), inf)


def compared(names: Sequence[str], trials: int, seeds: int) -> Iterator[bench.Row]:
    """Yield a row for each network: the medians of searches with several seeds."""
    for name in names:
        module, inputs = MODELS[name](1)
        network = ea.optimize(module, inputs, seconds=0, prefer="einalg", progress=False)
        searches = [searched(network, RECORDED * trials, seed) for seed in range(seeds)]
        yield {"network": name, **row(searches, trials)}


def row(searches: Sequence[NetworkSearch], trials: int) -> bench.Row:
    """Return how both schedulers share so many trials a kernel, as medians over the searches."""
    units = len(searches[0].tasks)
    turns = [replayed(one.tasks, in_turns, trials * units) for one in searches]
    gradient = [replayed(one.tasks, by_gradient, trials * units) for one in searches]
    share = median(share_of_trials(*both) for both in zip(gradient, turns, strict=True))
    return {
        "kernels": units,
        "trials": turns[0][-1][0],
        "start ms": median(progress[0][1] for progress in turns) * 1e3,
        "turns ms": median(progress[-1][1] for progress in turns) * 1e3,
        "gradient ms": median(progress[-1][1] for progress in gradient) * 1e3,
        "share": share if share < inf else "never",
        "whole ms": median(one.whole for one in searches) * 1e3,
        "parts of whole": median(one.parts / one.whole for one in searches),
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
