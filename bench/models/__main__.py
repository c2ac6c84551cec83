"""How fast do whole networks run beside torch, torch.compile, ONNX Runtime and OpenVINO?

python -m bench.models [--only NAME ...] [--batch 1,16] [--threads 1,2] [--seconds S] [--small]
    [--without LIBRARY] [--json PATH]

Every row is measured in a process of its own, whose libraries are loaded with so many threads: the
network is optimized, runs alternate between all implementations in the same minutes, and medians
are compared as in `bench.kernels`. `best` is the fastest library, `ratio` how many times faster the
optimized network is; `error` is the largest deviation from torch in double precision, relative to
the largest element; `search s` is the whole of `einalg.optimize`, `peak MB` the most memory until
it has run once. A second run takes the layers from the cache: `again s` is `search s` in a fresh
process that finds all there, not with `--small`; of it, the model is read in `read s`, and calls
are timed in `timed s`. `target` and `missed` are those of `bench.targets`; `allowed s` are the
seconds that the optimization may take. A Longformer layer at full size runs in libraries as tiles.
Nothing is kept in results/ unless all was measured, or `--json` names the file: rows that it has
already, of such a machine and such libraries, stay but for those that are measured anew; a file of
others is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import bench
from bench import THREADS
from bench.models import MODELS
from bench.models.measuring import OURS, measured, row
from bench.rivals import MAX_REASON_CHARACTERS, missing, versions
from bench.targets import judged_network

PATIENCE, POLL = (
    240.0,
    0.2,
)  # seconds in which a library must run for the first time, and how often that is looked after
RESULTS = Path(__file__).parents[1] / "results" / "models.json"
Rows = list[dict[str, Any]]
Key = tuple[str, int, int]


def numbers(text: str) -> list[int]:
    """Counts separated by commas.

    >>> numbers("1,16")
    [1, 16]
    """
    counts = [int(word) for word in text.split(",")]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"counts are from 1, not {text}")
    return counts


def parser() -> argparse.ArgumentParser:
    made = bench.options(
        "How fast do whole networks run, optimized, beside the best of the libraries?"
    )
    made.add_argument(
        "--only", nargs="+", choices=list(MODELS), metavar="NAME", help=f"of {', '.join(MODELS)}"
    )
    made.add_argument(
        "--batch",
        type=numbers,
        default=[1, 16],
        help="sizes of the batch, separated by commas (default: 1,16)",
    )
    made.add_argument(
        "--threads",
        type=numbers,
        default=[1, 2],
        help="numbers of threads, separated by commas (default: 1,2)",
    )
    made.add_argument(
        "--seconds", type=float, default=300.0, metavar="S", help="for each search (default: 300)"
    )
    made.add_argument("--small", action="store_true", help="sizes for a quick test")
    made.add_argument(
        "--without",
        default="",
        metavar="LIBRARY",
        help="leave these out: names of libraries, separated by commas",
    )
    made.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    made.add_argument("--skip", action="append", default=[], help=argparse.SUPPRESS)
    return made


def in_own_process(key: Key, seconds: float, without: Sequence[str], small: bool) -> dict[str, Any]:
    """Return a row, measured in a process of its own.

    Where that ends before the row is there, the row has its status, and the libraries that did not
    come back.
    """
    name, batch, threads = key
    options = [
        "--only",
        name,
        "--batch",
        str(batch),
        "--threads",
        str(threads),
        "--seconds",
        str(seconds),
    ]
    options += ["--without", ",".join(without), *(["--small"] if small else [])]
    environment = {**os.environ, **dict.fromkeys(THREADS, str(threads)), "EINALG_LIBRARIES": ""}
    lost: list[str] = []
    while True:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "row.json"
            command = [
                sys.executable,
                "-m",
                "bench.models",
                *options,
                "--worker",
                str(path),
                *(word for engine in lost for word in ("--skip", engine)),
            ]
            status, lines, hung = watched(command, environment, trial(path))
            if hung:
                lost.append(hung)
                continue
            if path.is_file():
                result = json.loads(path.read_text())
            else:
                result = row(
                    key,
                    {},
                    {},
                    {"failed": f"ended with {status}: {lines[-1] if lines else 'nothing is told'}"},
                    {},
                )
        result["more"]["left out"] |= dict.fromkeys(lost, f"no result after {PATIENCE:g} seconds")
        result["more"]["warnings"] = [line for line in lines if line.startswith("einalg: ")]
        return result


def watched(
    command: Sequence[str], environment: dict[str, str], trial: Path, patience: float | None = None
) -> tuple[int, list[str], str]:
    """Exit status and lines of a process.

    And of one that was ended, for it spent `patience` seconds there, what it was trying.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.STDOUT)
        hung = ""
        try:
            while process.poll() is None:
                time.sleep(POLL)
                with suppress(OSError):
                    engine, spent = trial.read_text(), time.time() - trial.stat().st_mtime
                    if engine and spent > (PATIENCE if patience is None else patience):
                        hung = engine
                        break
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        return process.returncode, said.read().strip().splitlines(), hung


def trial(row: Path) -> Path:
    """The file in which a worker says what it is trying."""
    return row.with_suffix(".trying")


def work(chosen: argparse.Namespace) -> None:
    """The row of one network in this process, written to a file."""
    without = [*(name for name in chosen.without.split(",") if name), *chosen.skip]
    trying = trial(chosen.worker).write_text
    result = measured(
        chosen.only[0],
        chosen.batch[0],
        chosen.threads[0],
        chosen.seconds,
        without,
        chosen.small,
        trying,
    )
    chosen.worker.write_text(json.dumps(result))


def shown(rows: Rows) -> str:
    """The table, and below it why a library has no figure and what einalg warns of.

    With the rows where it is so.
    """
    names = [OURS, *sorted({engine for result in rows for engine in result["ms"]} - {OURS})]
    remarks: dict[str, list[str]] = {}
    for result in rows:
        more = result["more"]
        for remark in [
            *(f"without {engine}: {reason}" for engine, reason in more["left out"].items()),
            *more["warnings"],
        ]:
            remarks.setdefault(remark[:MAX_REASON_CHARACTERS], []).append(
                f"{result['model']} {result['batch']}/{result['threads']}"
            )
    told = (f"{remark} ({', '.join(dict.fromkeys(where))})" for remark, where in remarks.items())
    return "\n".join([bench.table(_line(result, names) for result in rows), "", *told]).rstrip()


def _line(result: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    line = {name: result[name] for name in ("model", "batch", "threads")}
    line |= {f"{name} ms": result["ms"].get(name, "") for name in names}
    return line | {
        name: value for name, value in result.items() if name not in (*line, "ms", "more")
    }


def measured_before(path: Path | None, told: dict[str, Any]) -> dict[Key, dict[str, Any]]:
    """The rows of a file that were measured in the same way, on such a machine.

    Those that are measured now take their places.

    Where it is of another machine, or was measured otherwise, it is the kept results that are made
    anew, or a file that is not to be lost: a message ends the program.
    """
    if path is None or not path.is_file():
        return {}
    record = json.loads(path.read_text())
    other = [
        name for name, value in json.loads(json.dumps(told)).items() if record.get(name) != value
    ]
    if other and path == RESULTS:
        return {}
    if other:
        raise SystemExit(
            f"{path} was measured with other values of: {', '.join(other)}\n"
            "  name another file with --json"
        )
    return {
        (row["model"], row["batch"], row["threads"]): row
        if record["small"]
        else judged_network(row)
        for row in record["models"]
    }


def main() -> None:
    chosen = parser().parse_args()
    if chosen.worker:
        return work(chosen)
    without = [name for name in chosen.without.split(",") if name]
    whole = not (chosen.only or without or chosen.small)
    path = chosen.json or (RESULTS if whole else None)
    told = {
        "machine": {**bench.machine(), **versions()},
        "not installed": missing(),
        "left out": without,
    }
    told |= {"small": chosen.small}
    rows, measured_now = measured_before(path, told), list[dict[str, Any]]()
    for threads in chosen.threads:
        for batch in chosen.batch:
            for name in chosen.only or MODELS:
                result = in_own_process(
                    (name, batch, threads), chosen.seconds, without, chosen.small
                )
                result = {
                    **(result if chosen.small else judged_network(result)),
                    "allowed s": chosen.seconds,
                }
                rows[name, batch, threads] = result
                measured_now.append(result)
                print(shown([result]).splitlines()[1], file=sys.stderr, flush=True)
                if path:  # an interrupt keeps what was measured until then
                    path.write_text(
                        json.dumps({**told, "models": list(rows.values())}, indent=2) + "\n"
                    )
    print(shown(measured_now))


if __name__ == "__main__":
    main()
