"""The result of a search, as `einalg derive` and `einalg show` print it."""

from __future__ import annotations

from typing import Any

import click

from einalg.cli.output import say, table

MOST_ROWS = 8
NOTHING_FASTER = "Nothing is faster than what was given."


def tell(derivation: Any) -> None:
    """Print what a search did, and a table of the first candidates."""
    say(str(derivation))
    shown = derivation.candidates
    table(("#", *shown.heads[1:]), list(shown[:MOST_ROWS].rows()), numbers=("#", "ms", "moves"))
    for line in shown.remarks(MOST_ROWS):
        say(line)


def numbered(derivation: Any, number: int) -> Any:
    """The candidate with a number; a usage error where there is none."""
    if number >= len(derivation.candidates):
        raise click.UsageError(
            f"there is no candidate {number}: the last of them is {len(derivation.candidates) - 1}"
        )
    return derivation.candidates[number]


def nothing_to_explain(derivation: Any, number: int | None) -> bool:
    """Whether the best, which is explained where no number is given, is the expression as it is."""
    return number is None and not derivation.best.moves and len(derivation.candidates) > 1
