"""The examples of a page: run in order, with what each prints written below it, as at a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from doctest import BLANKLINE_MARKER, DocTestParser, Example
from io import StringIO
from typing import Any

from docs.notebooks.compared import masked

BLOCK = re.compile(r"^```python\n(>>> .*?)^```$", re.MULTILINE | re.DOTALL)
TIME = "TIME"  # that `masked` writes for a measured time


def with_outputs(text: str) -> str:
    """Return a page with what its examples print in this process.

    The examples are the blocks of Python that begin with a prompt. They share their names.

    >>> with_outputs("```python\\n>>> x = 2\\n>>> x + 1\\nold\\n```")
    '```python\\n>>> x = 2\\n>>> x + 1\\n3\\n```'
    """
    names: dict[str, Any] = {"__name__": "__main__"}

    def block(match: re.Match[str]) -> str:
        parts = []
        for example in _examples(match[1]):
            parts += [_prompted(example.source), _printed(example.source, names)]
        return f"```python\n{''.join(parts)}```"

    return BLOCK.sub(block, text)


def _examples(block: str) -> list[Example]:
    return DocTestParser().get_examples(block)


def _prompted(source: str) -> str:
    first, *others = source.splitlines(keepends=True)
    return f">>> {first}" + "".join(f"... {line}" for line in others)


def _printed(source: str, names: dict[str, Any]) -> str:
    """Return what a statement prints at a prompt."""
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        exec(compile(source, "README.md", "single"), names)
    return re.sub(r"^$(?=\n)", BLANKLINE_MARKER, printed.getvalue(), flags=re.MULTILINE)


def differences(stored: str, fresh: str) -> list[str]:
    """Return a sentence for each example of a page that does not print what is stored of it.

    Times, ratios and paths may differ. Where a time is printed, another machine may choose other
    kernels: there only the lines with a time are compared, up to the last one.

    >>> page = "```python\\n>>> d\\ncost: 2.0 ms\\n  T = f(A)\\n```"
    >>> differences(page, page.replace("2.0", "7.5").replace("f(A)", "g(A)"))
    []
    >>> differences(page, page.replace("cost", "price"))
    ["`d` prints ['price: TIME'], and ['cost: TIME'] is stored"]
    """
    sentences = []
    for old, new in zip(_of_page(stored), _of_page(fresh), strict=True):
        before, after = compared(old.want), compared(new.want)
        if before != after:
            sentences.append(f"`{old.source.strip()}` prints {after}, and {before} is stored")
    return sentences


def _of_page(text: str) -> Iterator[Example]:
    for block in BLOCK.findall(text):
        yield from _examples(block)


def compared(printed: str) -> list[str]:
    """Return what an example prints on every machine.

    >>> compared("cost: 1.1 ms → 0.5 ms, 2.2x (2.2 to 2.3) the speed\\n  T = f(A)")
    ['cost: TIME → TIME']
    >>> compared("T = f(A)")
    ['T = f(A)']
    """
    lines = [masked(line) for line in printed.splitlines()]
    timed = [line[: line.rindex(TIME) + len(TIME)] for line in lines if TIME in line]
    return timed or lines
