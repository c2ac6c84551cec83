"""`einalg bench`: an expression timed as it is written and as it was derived."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import einalg as ea
from einalg.cli.output import print_json, say, table, working
from einalg.cli.shape_options import Shape
from einalg.cli.sources import programs
from einalg.text.wording import counted

TAKES_PART = ("torch",)  # where it has been imported


def run(
    text: str,
    shapes: Mapping[str, Shape],
    weights: Iterable[str],
    most: int,
    without: Collection[str],
    as_json: bool,
    **search: Any,
) -> None:
    """Search, time all ways in turns, and print a table."""
    (program,) = programs([text], shapes, weights)
    with working("searching and measuring") as tell:
        for name in TAKES_PART:
            if name not in without and find_spec(name) is not None:
                import_module(name)
        derivation = ea.derive(
            program,
            progress=lambda s: tell(
                f"{counted(s.states, 'state')}, {counted(s.candidates, 'candidate')}"
            ),
            **search,
        )
        timings = derivation.compare(most)
    if as_json:
        print_json(
            {
                "schema": 1,
                "einalg": ea.__version__,
                "text": str(program),
                "ways": [timing.as_record() for timing in timings],
            }
        )
        return
    say(str(program))
    table(timings.heads, timings.rows(), numbers=timings.heads[1:5])
    for remark in timings.remarks():
        say(remark)
