"""How soon does the search find the known forms of an expression, and what does it take in all?

    python -m bench.search [--case NAME] [--repeats N] [--json PATH]
    python -m bench.search --executor process --workers 2      how it scales

One process and one thread unless an executor is named; every repetition builds its expression anew.
The default search goes deeper than EinNet's, and ends at so many candidates; `to depth 7` is one
that ends when every state within seven moves was expanded. `peer` is EinNet's search for the same
form, on one core: the states and seconds of its C++, from its public code.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import bench
from bench.cases import CASES, Case, Example
from derive.proof import prove
from derive.search.best_first import Budget, search
from derive.search.candidates import EstimatedCandidate, Stats

PEER = {
    ("Conv3x3 NCHW", "matmul and OffsetAdd"): (2_340, 0.03, ""),
    ("G2BMM dilation 4", "dense, classes in the batch"): (635, 0.01, ""),
    ("ConvTranspose", "matmul and selective addition"): (192_079, 3.9, 354),
    ("Conv5x5 as Conv3x3", "smaller windows"): (2_227_699, 33.5, ""),
}
BUDGET = Budget(seconds=600.0)  # what stops a search here is never the clock
DEPTH = 7  # that EinNet searches to
EXHAUSTIVE = Budget(depth=DEPTH, states=10**6, seconds=120.0, candidates=10**6, patience=10**6)
Run = tuple[list[EstimatedCandidate], Stats]


def one(example: Example, executor: Any = None, budget: Budget = BUDGET) -> Run:
    candidates, stats, _ = search(example.expression, budget, executor=executor)
    return candidates, stats


def first(example: Example, form: str, runs: list[Run]) -> tuple[Any, Any]:
    """The states expanded before a form was found, and the least milliseconds of all runs.

    "never" where it was not.
    """
    hits = [
        min((f for f in candidates if example.forms[form](f)), key=lambda f: f.states, default=None)
        for candidates, _ in runs
    ]
    times = [hit.after for hit in hits if hit is not None]
    return (hits[0].states, min(times) * 1e3) if hits[0] is not None else ("never", "never")


def peak(case: Case) -> float:
    """Megabytes that Python objects take at most during a search.

    A run of its own, because watching slows it down.
    """
    example = case.real()
    tracemalloc.start()
    try:
        one(example)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def proved(case: Case, candidates: list[EstimatedCandidate]) -> int:
    start = case.real().program
    return sum(prove(start, f.program).verdict == "proved" for f in candidates if f.moves)


def rows(names: list[str], repeats: int) -> Iterator[bench.Row]:
    for name in names:
        case = CASES[name]
        one(case.real())  # what is computed once in a process
        examples = [case.real() for _ in range(repeats)]
        runs = [one(example) for example in examples]
        candidates, stats = min(runs, key=lambda run: run[1].seconds)
        _, every = one(case.real(), budget=EXHAUSTIVE)
        shared = {
            "proved": proved(case, candidates),
            "peak MB": peak(case),
            "states to depth 7": every.states,
            "s to depth 7": every.seconds,
        }
        shared["all of depth 7"] = (
            "yes" if every.stopped.startswith("every state") else every.stopped
        )
        for form in examples[0].forms:
            states, milliseconds = first(examples[0], form, runs)
            peer = PEER.get((name, form), ("", "", ""))
            yield {
                "case": name,
                "form": form,
                "states to it": states,
                "ms to it": milliseconds,
                "states": stats.states,
                "ms": stats.seconds * 1e3,
                "stopped": stats.stopped,
                "candidates": stats.candidates,
                **shared,
                "peer states": peer[0],
                "peer s": peer[1],
                "peer MB": peer[2],
            }


def outcome(run: Run) -> Any:
    """Return the results that must not depend on where a search was computed."""
    candidates, stats = run
    return (
        [(str(f.program), f.moves, f.estimate, f.states) for f in candidates],
        stats.states,
        stats.generated,
        stats.duplicates,
        stats.rejected,
    )


def scaling(names: list[str], kind: str, workers: int, repeats: int) -> Iterator[bench.Row]:
    """Seconds of a whole search with no executor and with 1, 2, … workers.

    The results are the same, or this raises.
    """
    serial = {name: [one(CASES[name].real()) for _ in range(repeats + 1)][1:] for name in names}
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n < workers] + [workers]
    seconds = {name: {0: min(s.seconds for _, s in runs)} for name, runs in serial.items()}
    for count in counts:
        with EXECUTORS[kind](count) as executor:
            for name in names:
                runs = [one(CASES[name].real(), executor) for _ in range(repeats + 1)][1:]
                if any(outcome(run) != outcome(serial[name][0]) for run in runs):
                    raise RuntimeError(
                        f"{name}: {count} workers find something else than one process"
                    )
                seconds[name][count] = min(s.seconds for _, s in runs)
    for name, times in seconds.items():
        shown = {
            f"ms, {count} workers" if count else "ms, here": t * 1e3 for count, t in times.items()
        }
        yield {
            "case": name,
            "executor": kind,
            **shown,
            "ratio": times[0] / times[workers],
            "results": "the same",
        }


def processes(workers: int) -> AbstractContextManager[Any]:
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(workers)


def threads(workers: int) -> AbstractContextManager[Any]:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers)


@contextmanager
def dask(workers: int) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor()


EXECUTORS: dict[str, Callable[[int], AbstractContextManager[Any]]] = {
    "process": processes,
    "thread": threads,
    "dask": dask,
}


def main() -> None:
    options = bench.options("How soon does the search find the forms that are known?")
    options.add_argument(
        "--case",
        action="append",
        choices=list(CASES),
        metavar="NAME",
        help="only this case (may be given again)",
    )
    options.add_argument(
        "--repeats", type=int, default=5, help="runs of which the fastest counts (default: 5)"
    )
    options.add_argument(
        "--executor", choices=list(EXECUTORS), help="show how the search scales over workers"
    )
    options.add_argument("--workers", type=int, default=2, help="workers at most (default: 2)")
    chosen = options.parse_args()
    if chosen.executor:
        names = chosen.case or list(dict.fromkeys(name for name, _ in PEER))
        bench.report(
            {"scaling": scaling(names, chosen.executor, chosen.workers, chosen.repeats)},
            chosen.json,
        )
    else:
        bench.report({"search": rows(chosen.case or list(CASES), chosen.repeats)}, chosen.json)


if __name__ == "__main__":
    main()
