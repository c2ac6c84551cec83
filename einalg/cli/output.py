"""Text within the width of the terminal, tables, and JSON."""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

KEPT = "\u00a0"  # a space at which no line is broken: h + r - 1 stays whole
SUBSCRIPTS, TERMS = re.compile(r"\[[^][]*\]"), re.compile(r" ([+-]) ")


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    from rich.console import Console

    return Console().width


def wrapped(text: str, columns: int) -> str:
    """Long lines broken at spaces, with what follows indented.

    >>> print(wrapped("  O[i] = A[i] + B[i] + C[i]", 16))
      O[i] = A[i] +
          B[i] + C[i]
    """
    return "\n".join(_line(line, columns) for line in text.splitlines())


def _line(line: str, columns: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    whole = SUBSCRIPTS.sub(lambda found: TERMS.sub(rf"{KEPT}\1{KEPT}", found[0]), line)
    return textwrap.fill(whole, columns, subsequent_indent=indent, break_on_hyphens=False).replace(KEPT, " ")


def say(text: str) -> None:
    """Print a text within the width of the terminal."""
    click.echo(wrapped(text, width()))


def note(text: str) -> None:
    """Print a line about what was done beside the result, which alone goes to the standard output."""
    click.echo(text, err=True)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Print a table; the columns named in `numbers` are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        shown.add_column(head, justify="right" if head in numbers else "left", no_wrap=head in numbers, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(shown)


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
    """Say on the terminal what is being done, on a line that vanishes; nothing where the errors go elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status(what) as status:
        yield lambda text: status.update(f"{what}: {text}")
