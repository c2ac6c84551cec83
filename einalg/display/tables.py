"""Rows of cells as an HTML table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from einalg.display import html

MAX_OPEN_ROWS = 12  # of a table that may be long


def table(
    heads: Iterable[str],
    rows: Iterable[Iterable[str]],
    caption: str = "",
    numbers: Collection[int] = (),
) -> str:
    """The same rows as HTML; the columns at the positions in `numbers` are aligned to the right.

    >>> "<td>1 &lt; 2</td>" in table(("", "condition"), [("0", "1 < 2")])
    True
    """
    cells = (map(escape, row) for row in rows)
    return html.table(map(escape, heads), cells, escape(caption), numbers)


def long_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()
) -> str:
    """The first rows as a table, and those after them in another one, folded."""
    first, others = rows[:MAX_OPEN_ROWS], rows[MAX_OPEN_ROWS:]
    shown = table(heads, first, numbers=numbers)
    if not others:
        return shown
    return shown + html.folded(f"{len(others)} more", table(heads, others, numbers=numbers))
