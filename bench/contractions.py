"""How fast are contractions of many tensors, beside opt_einsum on NumPy and on torch?

    python -m bench.contractions [--only WORD] [--derive SECONDS] [--json PATH]

Every network is derived once, which takes so many seconds at most. opt_einsum has the best order
that its path finders give (the exact one where it takes little), found before. All run in turns, on
one thread: the table has medians and minima in microseconds, and how many times faster einalg is
than the faster of the two, by medians. `Mops` are scalar operations in millions;
`error` is the largest deviation from double precision, relative to the largest element.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import opt_einsum

import bench
import einalg as ea
from bench import THREADS
from bench.contraction_cases import CASES, NetworkCase
from derive.cost.model import operations
from einalg.runtime.timing import MeasuringPolicy, measure

RESULTS = Path(__file__).parent / "results" / "contractions.json"
POLICY = MeasuringPolicy(seconds_per_alternative=0.5)
MAX_EXACT_TENSORS = 16  # that opt_einsum's exact path finders take little time for
OURS = "einalg"

Call = Callable[[], Any]


def best_path(case: NetworkCase) -> tuple[Any, float]:
    """Return the best order of opt_einsum's path finders, and its scalar operations."""
    finders: list[Any] = ["auto-hq"]
    if len(case.terms) <= MAX_EXACT_TENSORS:
        finders.append("dp")
    results = []
    for finder in finders:
        path, info = opt_einsum.contract_path(
            case.equation, *case.shapes, shapes=True, optimize=finder
        )
        results.append((float(info.opt_cost), path))
    cost, path = min(results, key=lambda result: result[0])
    return path, cost


def rivals(case: NetworkCase, arrays: list[Any], path: Any) -> dict[str, Call]:
    """Return the calls of opt_einsum, on NumPy and, where it is installed, on torch."""
    contract = opt_einsum.contract_expression(case.equation, *case.shapes, optimize=path)
    calls: dict[str, Call] = {"numpy": lambda: contract(*arrays, backend="numpy")}
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        tensors = [torch.from_numpy(array) for array in arrays]

        def run_torch() -> Any:
            with torch.inference_mode():
                return contract(*tensors, backend="torch")

        calls["torch"] = run_torch
    return calls


def measured_case(case: NetworkCase, seconds: float) -> bench.Row:
    """Derive and measure one network."""
    expression = case.expression
    begun = perf_counter()
    derivation = ea.derive(expression, seconds=seconds)
    derived = perf_counter() - begun
    arrays = case.arrays()
    named = {f"T{position}": array for position, array in enumerate(arrays)}
    run = derivation.best.compile().bind()
    path, cost = best_path(case)
    others = rivals(case, arrays, path)
    doubles = [array.astype(np.float64) for array in arrays]
    exact = opt_einsum.contract(case.equation, *doubles, optimize=path)
    error = np.abs(run(**named) - exact).max() / np.abs(exact).max()
    times = measure({OURS: lambda: run(**named), **others}, POLICY)
    rival = min(times[name].median for name in others)
    row: dict[str, Any] = {
        "network": case.name,
        "tensors": len(case.terms),
        "derive, s": derived,
        "moves": len(derivation.best.moves),
        "Mops": total_operations(derivation.best.program) / 1e6,
        "opt_einsum, Mops": cost / 1e6,
    }
    for name, figures in times.items():
        row[f"{name}, us"] = figures.median * 1e6
        row[f"{name}, min"] = figures.minimum * 1e6
    return {**row, "ratio": rival / times[OURS].median, "error": float(error)}


def total_operations(program: Any) -> int:
    """Return the scalar operations of a flat program."""
    return sum(operations(scope) for _, scope in program.statements)


def rows(only: str, seconds: float) -> Iterator[bench.Row]:
    """Yield the rows of the networks that have a word in their name."""
    for make in CASES:
        case = make()
        if only.lower() in case.name.lower():
            row = measured_case(case, seconds)
            print(bench.table([row]).splitlines()[1], file=sys.stderr, flush=True)
            yield row


def in_own_process(only: str, seconds: float) -> list[bench.Row]:
    """Return the rows as a process measures them that has one thread."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        options = ["--only", only, "--derive", str(seconds), "--worker", str(path)]
        environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
        command = [sys.executable, "-m", "bench.contractions", *options]
        subprocess.run(command, check=True, env=environment)
        return json.loads(path.read_text())


def main() -> None:
    parser = bench.options("How fast are contractions of many tensors?")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="only networks with this word in their name"
    )
    parser.add_argument(
        "--derive", type=float, default=20.0, metavar="SECONDS", help="of each (default: 20)"
    )
    parser.add_argument("--worker", type=Path, help=bench.argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        chosen.worker.write_text(json.dumps(list(rows(chosen.only, chosen.derive))))
        return
    path = chosen.json
    if path is None and not chosen.only:
        path = RESULTS
    bench.report({"contractions": in_own_process(chosen.only, chosen.derive)}, path)


if __name__ == "__main__":
    main()
