"""Benchmarks: one command a question. Each prints tables, and writes JSON where `--json PATH` asks for it."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def options(question: str) -> argparse.ArgumentParser:
    """A command line with `--json`; a benchmark adds its own options."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows as JSON too")
    return parser


def report(tables: Mapping[str, Iterable[Row]], json_path: Path | None = None) -> None:
    """Print named tables; their rows, with the machine and versions they are measured on, are written each as soon as it is there."""
    found: dict[str, list[Row]] = {name: [] for name in tables}
    on = machine()

    def keep() -> None:
        if json_path:
            json_path.write_text(json.dumps({"machine": on, **found}, indent=2) + "\n")

    keep()  # a path that cannot be written is told before hours of measuring
    for name, rows in tables.items():
        for row in rows:
            found[name].append(row)
            keep()  # an interrupt keeps what was measured until then
    print("\n\n".join(f"{name}\n{table(rows)}" for name, rows in found.items()))


def table(rows: Iterable[Row]) -> str:
    """Rows of equal keys as aligned text; numbers to the right.

    >>> print(table([{"what": "parse", "us": 12.5}, {"what": "key", "us": 3}]))
    what     us
    parse  12.5
    key       3
    """
    rows = list(rows)
    if not rows:
        return "no rows"
    cells = [
        [str(name) for name in rows[0]],
        *([_cell(value) for value in row.values()] for row in rows),
    ]
    numeric = [all(isinstance(row[name], int | float) for row in rows) for name in rows[0]]
    widths = [max(len(line[k]) for line in cells) for k in range(len(numeric))]
    return "\n".join(_line(line, widths, numeric) for line in cells)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def _line(cells: list[str], widths: list[int], numeric: list[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric)
    )
    return "  ".join(padded).rstrip()


def machine() -> dict[str, str]:
    """What a figure depends on besides the code."""
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
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
