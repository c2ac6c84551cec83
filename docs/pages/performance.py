"""The performance page: charts, how they come about, and all results that are kept in the
repository.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from docs.pages import speed
from docs.pages.markdown import block, table

Chart = tuple[str, Callable[[], str]]
BENCH = Path(__file__).resolve().parents[2] / "bench"
INTRODUCTION = """# Performance

A chart or table on this page is made from a file in `bench/results`, which a benchmark has written
on the machine that the file names. The benchmark's command is above each table; run it to have
the figures of your machine.

Whether a derived form is faster depends on the machine, the shapes, the element type and the number
of threads. That is why einalg measures candidates where it runs, and keeps the expression as it is
written where nothing is faster.
"""
CHARTS = (
    (
        "Networks",
        "Whole networks against the fastest of torch (three ways of running it), `torch.compile`, "
        "ONNX Runtime and OpenVINO. A dot right of 1 is faster than all of these. The colours are "
        "machines.",
        (
            ("One sample at a time, one thread", partial(speed.network_chart, 1, 1)),
            ("16 samples at a time, one thread", partial(speed.network_chart, 16, 1)),
            ("One sample at a time, two threads", partial(speed.network_chart, 1, 2)),
        ),
    ),
    (
        "Single operators",
        "Operators of these networks, as generated or as derived, whichever is faster, against the "
        "same libraries and NumPy. The weights are known to all beforehand.",
        (
            ("One thread", partial(speed.kernel_chart, 1)),
            ("Two threads", partial(speed.kernel_chart, 2)),
        ),
    ),
    (
        "Depthwise convolutions",
        "One filter for each channel, channels first (NCHW) and channels last (NHWC); `b16` is a "
        "batch of 16, whose images no cache holds.",
        (("One filter a channel", speed.depthwise_chart),),
    ),
    (
        "Products of many tensors",
        "Networks of tensors, contracted in the order that the derivation chose, against "
        "opt_einsum with its best order, on NumPy or torch, whichever is faster. The number after "
        "the name is the size of every index.",
        (("Against opt_einsum", speed.contraction_chart),),
    ),
    (
        "Filters of an image",
        "Box and Gaussian filters, dilations and erosions of an image of 300x300, derived from the "
        "sum or extreme over the whole window, against OpenCV and against that plain form.",
        (("Against OpenCV and the plain form", speed.filter_chart),),
    ),
    (
        "Are the figures to be trusted?",
        "The convolution of the README, derived ten times in new processes, half of them beside a "
        "busy loop on the same core. Each run tells a speed and its range.",
        (("Ten runs", speed.trust_chart),),
    ),
    (
        "What Winograd's algorithm saves, and what it costs",
        "A larger tile needs fewer products, and has a larger rounding error. Both are compared "
        "with the sum as it is written. A derivation drops forms with an error above `accuracy`.",
        (("Two axes, single precision", speed.factorisation_chart),),
    ),
)
METHOD = """## How this is measured

- Everything that is compared runs in turns, within the same minutes, on the same inputs. Each turn
  begins with calls that do not count. The tables show the median. With several threads, a turn
  begins when the threads of the one before are asleep.
- For one thread, the time is that of the processor; for several threads, it is that of the clock.
  Turns in which the system gave the core to other work do not count, where there are enough others.
- `ea.derive`, `compare` and the report tell a speed as `2.7x (2.6 to 2.9)`: the ratio of the
  shortest times, and its range. The range comes from the spread of both times, which reaches from
  the shortest time to the lower quartile. Something is called faster only where the spreads do not
  overlap. On a busy machine only the range is told: `the machine is busy: 2.1 to 2.9x`. Such a
  measurement is marked in the cache, and done again when the machine is quiet.
- A ratio is the time of the fastest library divided by that of einalg: above 1, einalg is faster.
- The libraries, too, know the weights beforehand.
- `error` is the largest deviation from a computation in double precision, relative to the largest
  element that is computed. (The fill of a mask counts relative to itself.) A program with another
  result does not count.
- `target` is a speed that was aimed at, and `missed` says by how much it was missed.

The sections below have all figures.
"""


def page() -> str:
    """Return the whole page: charts, the method, and an entry for every file of results."""
    files = sorted((BENCH / "results").glob("*.json"), key=lambda path: path.stem)
    return "\n\n".join(
        [
            INTRODUCTION,
            *(part for chapter in CHARTS for part in _chapter(*chapter)),
            METHOD,
            *(part for path in files for part in _entry(path)),
        ]
    )


def _chapter(title: str, text: str, charts: Iterable[Chart]) -> list[str]:
    parts = [f"## {title}", text]
    for name, chart in charts:
        parts += [f"### {name}", f'<div class="chart">{chart()}</div>']
    return parts


def _folded(title: str, content: str) -> str:
    """Return Markdown that a click unfolds."""
    return f'??? "{title}"\n\n' + indent(content, "    ")


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
            content = _folded(f"{len(value)} rows", rows_table(value))
            parts += [f"### {path.stem}: {name}", content]
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
    """The question of a benchmark, and its command, as its file tells them.

    A name with a dash is that of the same benchmark on another machine.
    """
    name, _, machine = name.partition("-")
    if machine:
        return [f"`bench.{name}` on another machine."]
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
