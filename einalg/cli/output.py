"""Text within the width of the terminal, tables, and JSON.

Where the standard output is no terminal, nothing is wrapped or coloured, and every row of a table
is one line.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from einalg.text.terminal import width, wrapped


def is_terminal() -> bool:
    """Return whether results go to a terminal; else they go to a file or to another program."""
    return sys.stdout.isatty()


def say(text: str) -> None:
    """Print a text, within the width of the terminal where there is one."""
    if is_terminal():
        text = wrapped(text, width())
    click.echo(text)


def note(text: str) -> None:
    """Print a line about what was done; the result alone goes to the standard output."""
    click.echo(text, err=True)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Print a table; the columns named in `numbers` are aligned to the right."""
    if not is_terminal():
        click.echo(_plain_table(heads, list(rows), numbers))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        shown.add_column(
            head,
            justify="right" if head in numbers else "left",
            no_wrap=head in numbers,
            overflow="fold",
        )
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(shown)


def _plain_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]
) -> str:
    """Return a table with a line for each row.

    >>> rows = [("0", "1.5", "matmul"), ("1", "10.5", "eop")]
    >>> print(_plain_table(("#", "ms", "kernels"), rows, ("ms",)))
    #    ms  kernels
    0   1.5  matmul
    1  10.5  eop
    """
    cells = [tuple(heads), *map(tuple, rows)]
    columns = []
    for head, column in zip(heads, zip(*cells)):
        longest = max(map(len, column))
        put = str.rjust if head in numbers else str.ljust
        columns.append([put(cell, longest) for cell in column])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns))


def print_json(record: Any) -> None:
    """Print a record as JSON."""
    click.echo(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))


def finite(number: float | None) -> float | None:
    """A number as JSON knows it.

    >>> finite(1.5), finite(float("inf"))
    (1.5, None)
    """
    return float(number) if number is not None and math.isfinite(number) else None


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Say on the terminal what is being done, on a line that vanishes; nothing where the errors go
    elsewhere.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status(what) as status:
        yield lambda text: status.update(f"{what}: {text}")
