"""Are the figures of a derivation to be trusted, also on a busy machine?

python -m bench.trust [--runs N] [--cores N] [--cold] [--json PATH]

Derives the convolution of the README in fresh processes, every second one beside a busy loop on the
same core. Each tells how many times as fast its best form is as the expression as it is written.
The ratios lie within 25 % of each other, or say that they are uncertain; else the exit code is 1.
All processes share a cache that is empty at first, unless each is to begin with one of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import bench
import einalg as ea

CONVOLUTION = "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1] * K[f,c,r,s]"
SHAPES = {"A": (1, 64, 56, 56), "K": (64, 64, 3, 3)}
RESULTS = Path(__file__).parent / "results" / "trust.json"
MAX_DIFFERENCE = 0.25  # relative, of two ratios that are told as one figure
SECONDS = 120.0  # of a derivation, which ends sooner unless the machine is very busy
LOOP = "while True: pass"


def told() -> bench.Row:
    """Derive the convolution here, and return what is told of it."""
    began, worked = perf_counter(), process_time()
    derivation = ea.derive(ea.parse(CONVOLUTION, **SHAPES), seconds=SECONDS)
    passed, worked = perf_counter() - began, process_time() - worked
    best, written = derivation.best, derivation.original
    comparison = best.compared(written)
    if comparison is None:
        raise SystemExit(f"{SECONDS:.0f} seconds are too few here: {derivation}")
    return {
        "as written ms": written.cost * 1e3,
        "best ms": best.cost * 1e3,
        "text": comparison.text(),
        **comparison.as_record(),
        "clock": comparison.own.clock,
        "moves": len(best.moves),
        "derive s": passed,
        "processor s": worked,
    }


def difference(rows: Sequence[bench.Row]) -> float:
    """Return by which part the ratios differ that are told as one figure.

    >>> rows = [{"ratio": 2.0, "sharp": True}, {"ratio": 2.2, "sharp": True}]
    >>> round(difference([*rows, {"ratio": 9.0, "sharp": False}]), 3)
    0.1
    """
    certain = [row["ratio"] for row in rows if row["sharp"]]
    if not certain:
        return 0.0
    return max(certain) / min(certain) - 1


def contradictions(rows: Sequence[bench.Row]) -> list[bench.Row]:
    """Return the rows that say more than is so: those whose range does not reach one that is told
    as one figure, by more than these may differ among each other.

    >>> rows = [{"ratio": 2.0, "sharp": True, "low": 1.9, "high": 2.1}]
    >>> wide = {"ratio": 3.0, "sharp": False, "low": 2.2, "high": 9.0}
    >>> wrong = {"ratio": 5.0, "sharp": False, "low": 4.0, "high": 9.0}
    >>> contradictions([*rows, wide, wrong]) == [wrong]
    True
    """
    certain = [row["ratio"] for row in rows if row["sharp"]]
    lowest, highest = min(certain, default=0.0), max(certain, default=inf)
    wrong = []
    for row in rows:
        is_above = row["low"] > highest * (1 + MAX_DIFFERENCE)
        if is_above or row["high"] * (1 + MAX_DIFFERENCE) < lowest:
            wrong.append(row)
    return wrong


@contextmanager
def busy_loop(core: int | None) -> Iterator[None]:
    """Keep a core busy with a loop, as another program would; `None` leaves it alone."""
    if core is None:
        yield
        return
    loop = subprocess.Popen([sys.executable, "-c", LOOP])
    try:
        _pin(loop.pid, {core})
        yield
    finally:
        loop.kill()
        loop.wait()


def in_fresh_process(cores: Sequence[int], is_loaded: bool, cache: Path) -> bench.Row:
    """Return what a new process tells, which has these cores, the first of them perhaps shared."""
    environment = {**os.environ, "EINALG_CACHE": str(cache), "OMP_NUM_THREADS": str(len(cores))}
    command = [sys.executable, "-m", "bench.trust", "--worker", ",".join(map(str, cores))]
    with busy_loop(cores[0] if is_loaded else None):
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if ended.returncode:
        raise SystemExit(f"a derivation ended with {ended.returncode}")
    return {"beside a loop": is_loaded, **json.loads(ended.stdout.splitlines()[-1])}


def _pin(process: int, cores: set[int]) -> None:
    """Keep a process on some cores, where the system offers that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process, cores)


def _cores(number: int) -> list[int]:
    """Return so many of the cores that this process may use, the last ones."""
    available = list(range(os.cpu_count() or 1))
    if hasattr(os, "sched_getaffinity"):
        available = sorted(os.sched_getaffinity(0))
    return available[-number:]


def measured(runs: int, cores: Sequence[int], cold: bool) -> Iterator[bench.Row]:
    """Yield what each of some fresh processes tells, every second one beside a busy loop."""
    with TemporaryDirectory() as folder:
        for number in range(runs):
            cache = Path(folder) / (f"run {number}" if cold else "all")
            row = in_fresh_process(cores, bool(number % 2), cache)
            print(_line(number, row), flush=True)
            yield row


def _line(number: int, row: bench.Row) -> str:
    load = "beside a loop" if row["beside a loop"] else "alone"
    times = f"{row['as written ms']:.3f} → {row['best ms']:.3f} ms"
    return f"{number + 1:3}  {load:13}  {times}  {row['text']}"


def verdict(rows: Sequence[bench.Row]) -> tuple[bool, str]:
    """Say whether the figures agree, and how far."""
    uncertain = sum(not row["sharp"] for row in rows)
    largest, wrong = difference(rows), len(contradictions(rows))
    agree = largest <= MAX_DIFFERENCE and not wrong
    text = f"{len(rows) - uncertain} figures within {largest:.0%} of each other"
    text += f", {uncertain} said to be uncertain"
    if wrong:
        text += f", {wrong} whose range misses the others"
    return agree, f"{text}: {'they agree' if agree else 'they do not agree'}"


def main() -> None:
    parser = bench.options((__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="fresh processes (default: 10)")
    parser.add_argument("--cores", type=int, default=1, help="cores of a process (default: 1)")
    parser.add_argument(
        "--cold", action="store_true", help="let every process begin with an empty cache"
    )
    parser.add_argument("--worker", help=bench.argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        _pin(0, set(map(int, chosen.worker.split(","))))
        print(json.dumps(told()))
        return
    rows = list(measured(chosen.runs, _cores(chosen.cores), chosen.cold))
    agree, text = verdict(rows)
    print(f"\n{text}")
    content: dict[str, Any] = {"machine": bench.machine(), "verdict": text, "trust": rows}
    path = chosen.json or RESULTS
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if not agree:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
