"""Text for a terminal: within its width, and without what a reader has seen."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator

COLUMNS = 80  # where there is no terminal
NO_BREAK = "\u00a0"  # a space at which no line is broken: h + r - 1 stays whole
SUBSCRIPTS, TERMS = re.compile(r"\[[^][]*\]"), re.compile(r" ([+-]) ")
MIN_LEFT_OUT_LETTERS = 10
LEFT_OUT = "…"


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size((COLUMNS, 24)).columns


def fitted(text: str) -> str:
    """Return a text within the width of the terminal; as it is where the output is no terminal.

    What goes through a pipe or into a file keeps its lines, so that other programs can read them.
    """
    if not sys.stdout.isatty():
        return text
    return wrapped(text, width())


def wrapped(text: str, columns: int) -> str:
    """Long lines broken at spaces, with what follows indented.

    >>> print(wrapped("  O[i] = A[i] + B[i] + C[i]", 16))
      O[i] = A[i] +
          B[i] + C[i]
    """
    return "\n".join(_line(line, columns) for line in text.splitlines())


def _line(line: str, columns: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    whole = SUBSCRIPTS.sub(lambda found: TERMS.sub(rf"{NO_BREAK}\1{NO_BREAK}", found[0]), line)
    return textwrap.fill(
        whole, max(columns, 2 * len(indent)), subsequent_indent=indent, break_on_hyphens=False
    ).replace(NO_BREAK, " ")


def differing(text: str, seen: str) -> str:
    """An expression without the long bodies and ranges that a seen one has too.

    >>> seen = "L[i:14, k:16](Sum[j:5](A[i, j, k]*x[k]))"
    >>> differing("L[i:14, k:16](Sum[j:5]((L[j:5](A[i, j, k]*x[k]))[j]))", seen)
    'L[…](Sum[j:5]((L[j:5](…))[j]))'
    """
    known = {seen[start:end] for start, end in _parts(seen)}
    shown, last = [], 0
    for start, end in sorted(_parts(text)):
        if start >= last and text[start:end] in known:
            shown += [text[last:start], LEFT_OUT]
            last = end
    return "".join([*shown, text[last:]])


def _parts(text: str) -> Iterator[tuple[int, int]]:
    """Where the bodies and ranges of an expression begin and end that are worth leaving out."""
    opened: list[int] = []
    for position, letter in enumerate(text):
        if letter in "([":
            opened.append(position + 1)
        elif letter in ")]":
            start = opened.pop() if opened else position
            if position - start >= MIN_LEFT_OUT_LETTERS and (
                letter == ")" or text[:start].endswith("L[")
            ):
                yield start, position
