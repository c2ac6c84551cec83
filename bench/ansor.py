"""How fast are Ansor's operators and subgraphs beside the best of the libraries?

python -m bench.ansor [--batch 1,16] [--only WORD] [--derive SECONDS] [--without LIBRARY]
    [--json PATH]

Ten operators and two subgraphs in four shapes each (`bench.ansor_cases`), as written, and as the
best of a search that takes so many seconds; beside NumPy, torch (eager, with channels last, frozen,
compiled), ONNX Runtime and OpenVINO, whichever are installed, with weights that are constant for
all. One thread, in a process for each batch size; all run in turns, and medians and minima of the
processor's time are told. `ratio` is how many times faster the program as written is than the best
library, `derived ratio` the program of the search, both by medians; `least ratio` is the former by
minima. What has other values than the reference has no ratio. The summary has geometric means, and
how many cases are not slower than the best library, or by 5 % at most, and how many of the programs
as written and of the search are `wrong`; these count as slower.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import bench
from bench import THREADS
from bench.ansor_cases import cases
from bench.case_rows import columns, measured
from bench.kernel_cases import Arrays, Case
from bench.kernels import WRONG, Call, derived, exact, generated, in_turns, inputs_of
from bench.rivals import Rival, missing, rivals
from derive.cost.model import arithmetic
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import EinalgError
from einalg.language.ir.program import as_program

RESULTS = Path(__file__).parent / "results" / "ansor.json"
BATCHES = "1,16"
NEARLY = 0.95  # of the speed of the best library
WRITTEN, DERIVED = "written", "derived"


def measured_case(
    case: Case,
    search: float,
    without: Sequence[str],
    others: Callable[[Arrays], Iterable[Rival]] = lambda arrays: (),
) -> bench.Row:
    """Return the row of a case; libraries of other values do not count.

    `others` gives what else it is compared with.
    """
    program = lifted(as_program(case.expression))
    arrays: Arrays = {}
    for name, array in inputs_of(case, program).items():
        arrays[name] = array.astype(np.float32)
    weights = {name: arrays[name] for name in case.weights}
    inputs = {name: array for name, array in arrays.items() if name not in weights}
    calls: dict[str, Call] = {}
    calls[WRITTEN], _ = generated(program, inputs, weights)
    more: dict[str, Any] = {}
    if search and case.derives:
        try:
            calls[DERIVED], told = derived(case.expression, inputs, weights, search)
            more.update(told)
        except EinalgError as error:  # one column less, not the whole row
            more["derivation"] = f"failed: {error}"
    results: dict[str, Callable[[], Any]] = dict(calls)
    for name, call, result in (
        *rivals(case, arrays, 1, without, exports=True),
        *others(arrays),
    ):
        calls[name], results[name] = call, result
    expected = exact(case, arrays)
    largest = float(np.abs(expected).max())
    errors: dict[str, float] = {}
    for name, result in results.items():
        errors[name] = float(np.abs(np.asarray(result()) - expected).max()) / largest
    figures = in_turns(calls)
    medians = {name: one.median * 1e3 for name, one in figures.items()}
    least = {name: one.minimum * 1e3 for name, one in figures.items()}
    busy = [name for name, one in figures.items() if one.busy]
    more |= {"ms": medians, "least ms": least, "errors": errors, "busy": busy}
    return row(case.name, arithmetic(program), more)


def row(name: str, work: float, more: Mapping[str, Any]) -> bench.Row:
    """Return a case as the table shows it."""
    medians, least, errors = more["ms"], more["least ms"], more["errors"]
    right = [n for n in medians if errors[n] < WRONG]  # not NaN either
    others = [n for n in right if n not in (WRITTEN, DERIVED)]
    best = min(others, key=lambda n: medians[n], default="")
    shown: dict[str, Any] = {
        "case": name,
        "ms": medians[WRITTEN],
        "GFLOP/s": work / medians[WRITTEN] / 1e6,
        "best": best,
    }
    shown |= {"best ms": "", "ratio": "", "least ratio": "", "derived ratio": ""}
    if best:
        shown["best ms"] = medians[best]
    if best and WRITTEN in right:
        shown["ratio"] = medians[best] / medians[WRITTEN]
        shown["least ratio"] = min(least[n] for n in others) / least[WRITTEN]
    if best and DERIVED in right:
        shown["derived ratio"] = medians[best] / medians[DERIVED]
    shown |= {"error": errors[WRITTEN], "derived error": errors.get(DERIVED, "")}
    return {**shown, "more": dict(more)}


def summary(rows: Sequence[bench.Row]) -> list[bench.Row]:
    """Return a row for each operator, and one for all: how written and derived programs compare.

    Cases that no library runs are left out.

    >>> one = {"case": "NRM 2x2 b1", "best": "torch", "ratio": 0.5, "derived ratio": 2.0}
    >>> one |= {"error": 1e-7, "derived error": 1e-7}
    >>> [line["written"] for line in summary([one, {**one, "ratio": 2.0}])]
    [1.0, 1.0]
    """
    kinds: dict[str, list[bench.Row]] = {}
    for one in rows:
        if one["best"]:
            kinds.setdefault(str(one["case"]).split()[0], []).append(one)
    lines = [_compared(kind, members) for kind, members in kinds.items()]
    every = [one for members in kinds.values() for one in members]
    return [*lines, _compared("all", every)] if every else []


def _compared(name: str, rows: Sequence[bench.Row]) -> bench.Row:
    written = [one["ratio"] for one in rows if one["ratio"]]
    best = []
    for one in rows:
        ratios = [one[ratio] for ratio in ("ratio", "derived ratio") if one[ratio]]
        best += [max(ratios)] if ratios else []
    errors = [one[error] for one in rows for error in ("error", "derived error")]
    return {
        "operator": name,
        "cases": len(rows),
        "written": _mean(written),
        "best of both": _mean(best),
        "written, not slower": sum(ratio >= 1 for ratio in written),
        "written, by 5 % at most": sum(ratio >= NEARLY for ratio in written),
        "either, not slower": sum(ratio >= 1 for ratio in best),
        "wrong": sum(error != "" and not error < WRONG for error in errors),
    }


def _mean(ratios: Sequence[float]) -> float | str:
    """Return a geometric mean; nothing of no ratios."""
    if not ratios:
        return ""
    return prod(ratios) ** (1 / len(ratios))


def in_own_process(batch: str, only: str, search: float, without: Sequence[str]) -> list[bench.Row]:
    """Return the rows of a batch size, from a process whose libraries have one thread."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "bench.ansor", "--batch", batch, "--only", only]
        command += ["--derive", str(search), "--without", ",".join(without), "--worker", str(path)]
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "EINALG_LIBRARIES": ""}
        subprocess.run(command, check=True, env=environment)
        return json.loads(path.read_text())


def main() -> None:
    parser = bench.options("How fast are Ansor's operators beside the best of the libraries?")
    parser.add_argument(
        "--batch", default=BATCHES, help=f"sizes, separated by commas (default: {BATCHES})"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only cases with this word")
    parser.add_argument(
        "--derive", type=float, default=0.0, metavar="SECONDS", help="search each case too"
    )
    parser.add_argument(
        "--without", default="", metavar="LIBRARY", help="leave these out, separated by commas"
    )
    parser.add_argument("--worker", type=Path, help=bench.argparse.SUPPRESS)
    chosen = parser.parse_args()
    without = [name for name in chosen.without.split(",") if name]
    if chosen.worker:
        made = measured(
            cases(int(chosen.batch)),
            chosen.only,
            lambda case: measured_case(case, chosen.derive, without),
        )
        chosen.worker.write_text(json.dumps(list(made)))
        return
    tables: dict[str, list[bench.Row]] = {}
    for batch in chosen.batch.split(","):
        rows = in_own_process(batch, chosen.only, chosen.derive, without)
        tables[f"batch {batch}"] = rows
        print(f"\nbatch {batch}\n{bench.table(columns(one) for one in rows)}")
        print(f"\n{bench.table(summary(rows))}", flush=True)
    absent = missing()
    if absent:
        print(f"\nnot installed, and left out: {', '.join(absent)}")
    path = chosen.json
    if path is None and not chosen.only and not without and chosen.batch == BATCHES:
        path = RESULTS
    if path:
        told = {"machine": bench.machine(), "not installed": absent, "left out": without, **tables}
        path.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
