"""Pieces of HTML that the widget and the pictures share: the style sheet, tables, badges (design
§4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from html import escape
from importlib.resources import files
from itertools import count

_NUMBERS = count(1)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
RULE = re.compile(r"[^{}]+\{(?:[^{}]|\{[^{}]*\})*\}")  # with the rules inside, of a container
CLASS = re.compile(r"\.(einalg-[\w-]+)")


@cache
def asset(name: str) -> str:
    """The text of a style sheet or script of this package."""
    return files("einalg.display").joinpath(name).read_text(encoding="utf-8")


def page(content: str, what: str) -> str:
    """HTML that brings its style along; `what` is the class of its outermost element."""
    shown = f'<div class="einalg {what}">{content}</div>'
    return f"<style>{style_of(shown)}</style>{shown}"


def style_of(content: str) -> str:
    """The rules of the style sheet that concern some HTML, for a notebook stores them with each
    output.

    >>> muted = style_of("<p class='einalg-muted'>")
    >>> "einalg-muted" in muted, "einalg-session" in muted
    (True, False)
    """
    rules = []
    for classes, rule in _rules():
        if not classes or any(name in content for name in classes):
            rules.append(rule)
    return "\n".join(rules)


@cache
def _rules() -> tuple[tuple[frozenset[str], str], ...]:
    """The rules of the style sheet, each with the classes of ours that it names."""
    rules = []
    for match in RULE.finditer(COMMENT.sub("", asset("style.css"))):
        rule = match[0].strip()
        rules.append((frozenset(CLASS.findall(rule)), rule))
    return tuple(rules)


def fresh_id() -> str:
    """An id that no other output of this process has."""
    return f"einalg-{next(_NUMBERS)}"


def table(
    head: Iterable[str],
    rows: Iterable[Iterable[str]],
    caption: str = "",
    numbers: Collection[int] = (),
) -> str:
    """A table whose cells are HTML; the first cell of a row is its heading. The columns at the
    positions in `numbers` are aligned to the right.
    """
    top = ""
    for position, cell in enumerate(head):
        top += f'<th scope="col"{_kind(position, numbers)}>{cell}</th>'
    body = "".join(_row(row, numbers) for row in rows)
    title = f"<caption>{caption}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _row(cells: Iterable[str], numbers: Collection[int]) -> str:
    heading, *others = cells
    values = ""
    for position, cell in enumerate(others, 1):
        values += f"<td{_kind(position, numbers)}>{cell}</td>"
    return f'<tr><th scope="row">{heading}</th>{values}</tr>'


def _kind(position: int, numbers: Collection[int]) -> str:
    return ' class="einalg-number"' if position in numbers else ""


def folded(summary: str, content: str, is_open: bool = False) -> str:
    """What a reader unfolds, by mouse or keyboard; nothing where there is nothing. Both are HTML.

    >>> folded("more", "<p>text</p>")
    '<details><summary>more</summary><p>text</p></details>'
    """
    if not content:
        return ""
    start = "<details open>" if is_open else "<details>"
    return f"{start}<summary>{summary}</summary>{content}</details>"


def code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def badge(text: str, kind: str = "") -> str:
    """A word in a frame; `kind` colours it: `good`, `bad` or nothing."""
    return f'<span class="einalg-badge {kind}">{escape(text)}</span>'
