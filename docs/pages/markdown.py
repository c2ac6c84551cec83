"""Docstrings, tables and code blocks as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

COMMAND = re.compile(r"<p>(einalg \w+ [^<]*--\w[^<]*)</p>")
CELL = re.compile(r"<td.*?</td>", re.DOTALL)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that hold Markdown.

    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    lines = [columns, *rows]
    shown = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "---|" * len(columns), *shown[1:]])


def block(text: str, language: str = "") -> str:
    """A fenced block of code.

    >>> print(block("x = 1", "python"))
    ```python
    x = 1
    ```
    """
    return f"```{language}\n{text}\n```"


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line.

    >>> first_sentence("A sum, e.g. of f(x). It has\\na range.\\n\\nMore.")
    'A sum, e.g. of f(x).'
    """
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<!e\.g)\. ", paragraph)[0].removesuffix(".") + "."


def with_examples_as_blocks(text: str) -> str:
    """A docstring as Markdown: every example, up to the empty line after it, becomes a block of
    code.

    >>> with_examples_as_blocks("A sum.\\n\\n>>> 1 + 1\\n2\\n\\nThat was it.")
    'A sum.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n\\nThat was it.'
    """
    parts = []
    for part in text.strip().split("\n\n"):
        after_example = parts and parts[-1].startswith("```pycon") and part.startswith(">>>")
        if after_example:
            parts[-1] = f"{parts[-1].removesuffix('```')}\n{part}\n```"
        elif ">>> " in part:
            before, _, example = part.partition(">>> ")
            parts += [before.rstrip()] if before.strip() else []
            parts.append(block(f">>> {example}", "pycon"))
        else:
            parts.append(part)
    return "\n\n".join(parts)


def shown_well(html: str) -> str:
    """Return a page with what Markdown left as it was: commands that stand alone are code, and the
    bars of a table's cells have no backslash, which only GitHub needs.

    >>> shown_well("<p>einalg show a --svg</p>")
    '<div class="highlight"><pre><code>einalg show a --svg</code></pre></div>'
    >>> shown_well("<p>einalg runs</p><td>a \\\\| b</td>")
    '<p>einalg runs</p><td>a | b</td>'
    """
    html = COMMAND.sub(r'<div class="highlight"><pre><code>\1</code></pre></div>', html)
    return CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), html)


def with_prompts_as_sessions(page: str) -> str:
    """Return Markdown whose blocks of Python with prompts are coloured as sessions: what they
    print is no Python.

    >>> with_prompts_as_sessions("```python\\n>>> 1 + 1\\n2\\n```\\n\\n```python\\nx = 1\\n```")
    '```pycon\\n>>> 1 + 1\\n2\\n```\\n\\n```python\\nx = 1\\n```'
    """
    return re.sub(r"```python(?=\n\s*>>> )", "```pycon", page)
