"""Rows of cells as an HTML table."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from einalg.display import html


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], caption: str = "") -> str:
    """The same rows as HTML.

    >>> "<td>1 &lt; 2</td>" in table(("", "condition"), [("0", "1 < 2")])
    True
    """
    return html.table(map(escape, heads), (map(escape, row) for row in rows), escape(caption))
