"""The performance page: the questions that the benchmarks answer, and the results that are kept in
the repository.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from docs.pages.markdown import block, table

BENCH = Path(__file__).resolve().parents[2] / "bench"
INTRODUCTION = """# Performance

Each benchmark is one command, which answers one question and prints tables; `--json PATH` keeps
them. The tables below are the
files in `bench/results`, as they were measured on the machine that each names. Run the command to
have the figures of yours.

How figures come about:

- Everything that is compared runs in turns, in the same minutes, on the same inputs, each turn
  after calls that do not count. The tables show
  the median. With several threads, each way waits until the threads of the one before have gone to
  sleep.
- Where one thread does the work, the time is that which the processor spends; with several threads
  it is that of the clock. Turns in which the system gave a core to other work do not count where
  there are enough others.
- `ea.derive`, `compare` and the report tell a speed as `2.7x (2.6 to 2.9)`: the ratio of the
  shortest times, and the range from spread to spread (a spread reaches from the shortest time to
  the lower quartile). Something is called faster only where the spreads do not overlap. On a busy
  machine only the range is told: `the machine is busy: 2.1 to 2.9x`. What was measured then is
  marked in the cache, and measured again when the machine is quiet. `python -m bench.trust` tries
  all of that.
- A ratio is the time of the fastest library divided by that of einalg: above 1, einalg is faster.
- Weights are given ahead, to the libraries too.
- `error` is the largest deviation from a computation in double precision, relative to the largest
  element that is computed: the fill of a mask
  counts relative to itself. A way with another result does not count.

Whether a derivation pays depends on the machine, the shape, the element type and the number of
threads. That is why einalg measures
candidates where it runs, and keeps the expression as it is where nothing is faster.
"""


def page() -> str:
    """The whole page: an entry for every file of results."""
    return "\n\n".join(
        [
            INTRODUCTION,
            *(part for path in sorted((BENCH / "results").glob("*.json")) for part in _entry(path)),
        ]
    )


def _entry(path: Path) -> list[str]:
    record = json.loads(path.read_text(encoding="utf-8"))
    parts = [
        f"## {path.stem.replace('_', ' ').replace('-', ', ').capitalize()}",
        *_about(path.stem),
    ]
    machine = record.pop("machine", {})
    if machine:
        parts.append(
            "Measured on: "
            + ", ".join(f"{what} {version}" for what, version in machine.items())
            + "."
        )
    for name, value in record.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            parts += [f"### {path.stem}: {name}", rows_table(value)]
        elif isinstance(value, Mapping):
            parts += [
                f"### {path.stem}: {name}",
                table(["", name], [(key, cell(entry)) for key, entry in value.items()]),
            ]
        elif value:
            parts.append(
                f"{name.capitalize()}: "
                f"{', '.join(map(str, value)) if isinstance(value, list) else _code(value)}"
            )
    return parts


def _about(name: str) -> Iterable[str]:
    """The question of a benchmark, and its command, as its file tells them; what follows a dash in
    a name is a machine's.
    """
    name = name.partition("-")[0]
    files = [
        path for path in (BENCH / f"{name}.py", BENCH / name / "__main__.py") if path.is_file()
    ]
    if not files:
        return []
    text = ast.get_docstring(ast.parse(files[0].read_text(encoding="utf-8"))) or ""
    return [
        block(dedent(part), "sh") if re.match(r"\s*python -m [\w.]+( |$)", part) else part
        for part in text.split("\n\n")
    ]


def rows_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as a table, without the columns that hold more than a cell does or hold nothing.

    >>> print(rows_table([{"case": "a", "ms": 1.2345, "more": {}, "note": ""}]))
    | case | ms |
    |---|---|
    | a | 1.23 |
    """
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    kept = [
        name
        for name in names
        if any(row.get(name) not in ("", None) for row in rows)
        and not any(isinstance(row.get(name), (dict, list)) for row in rows)
    ]
    return table(kept, [[cell(row.get(name)) for name in kept] for row in rows])


def cell(value: Any) -> str:
    """A value as it stands in a table.

    >>> cell(0.000123456), cell(52885.5), cell(None)
    ('0.000123', '52886', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def _code(value: Any) -> str:
    text = str(value)
    return f"`{text}`" if "[" in text else text
