"""Benchmarks: one command a question.

Each prints tables, and writes JSON where `--json PATH` asks for it. The results that the repository
keeps are in `results`; `targets` compares them with what is to be reached. Imports all packages and
is imported by tests and docs only. A new question is a module with a `main`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def options(question: str) -> argparse.ArgumentParser:
    """Return a command line with `--json`; a benchmark adds its own options."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows as JSON too")
    return parser


def report(tables: Mapping[str, Iterable[Row]], json_path: Path | None = None) -> None:
    """Print named tables, each as soon as it is complete.

    Their rows, with the machine and versions on which they are measured, are written each as soon
    as it is there.
    """
    measured: dict[str, list[Row]] = {name: [] for name in tables}
    on = machine()

    def write() -> None:
        if json_path:
            json_path.write_text(json.dumps({"machine": on, **measured}, indent=2) + "\n")

    write()  # a path that cannot be written is an error before hours of measuring
    first = next(iter(tables), None)
    for name, rows in tables.items():
        for row in rows:
            measured[name].append(row)
            write()  # an interrupt leaves what was measured until then
        separator = "" if name == first else "\n"
        print(f"{separator}{name}\n{table(measured[name])}", flush=True)


def table(rows: Iterable[Row]) -> str:
    """Return rows of equal keys as aligned text, with numbers to the right.

    >>> print(table([{"what": "parse", "us": 12.5}, {"what": "key", "us": 3}]))
    what     us
    parse  12.5
    key       3
    """
    rows = list(rows)
    if not rows:
        return "no rows"
    columns = [_column(name, [row[name] for row in rows]) for name in rows[0]]
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*columns))


def _column(name: str, values: list[Any]) -> list[str]:
    """Return the cells of a column, padded to one width."""
    cells = [str(name), *map(_cell, values)]
    width = max(map(len, cells))
    if all(isinstance(value, int | float) for value in values):
        return [cell.rjust(width) for cell in cells]
    return [cell.ljust(width) for cell in cells]


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:.0f}"


def machine() -> dict[str, str]:
    """Return what a figure depends on besides the code."""
    from importlib.metadata import version

    import einalg
    from codegen.hardware.cpu import machine as described

    vectors = f"{8 * described().vector} bits"
    libraries = {name: version(name) for name in ("numpy", "sympy", "islpy")}
    return {
        "processor": _processor(),
        "vectors": vectors,
        "python": sys.version.split()[0],
        "einalg": einalg.__version__,
        **libraries,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    for line in lines:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
