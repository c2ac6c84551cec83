"""`einalg substitutions`: the rewrite rules between programs of some operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import einalg as ea
from einalg.cli.output import say


def run(
    operators: Sequence[str],
    inputs: Sequence[tuple[str, ...]],
    file: str | None,
    **options: Any,
) -> None:
    """Print the rules that are found, with the numbers of the search, and write them to a file."""
    shapes = [tuple(map(_extent, shape)) for shape in inputs]
    generated = ea.substitutions.generate(operators, shapes or None, **options)
    say(str(generated))
    if file is not None:
        generated.save(file)


def _extent(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
