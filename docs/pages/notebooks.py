"""The notebooks as pages: their text, code and stored outputs; nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from docs.notebooks.stored import joined, paths, read
from docs.pages.markdown import block
from einalg.display.html import asset
from einalg.display.mathml import from_latex

LINK = re.compile(r"\]\(([\w-]+)\.ipynb\)")
DISPLAY = r"\displaystyle"
LONG = 40  # lines of an output that is folded


def pages() -> dict[str, Callable[[], str]]:
    """Return the function of each notebook's page, by the page's path in the site."""
    return {f"notebooks/{path.stem}.md": partial(page, path) for path in paths()}


def page(path: Path) -> str:
    """Return a notebook as Markdown."""
    head, *cells = [_cell(cell) for cell in read(path)["cells"]]
    note = (
        f"*This page is `notebooks/{path.name}` with the outputs of its last run. "
        "`jupyter lab notebooks` opens it, so that you can change and run it.*"
    )
    return "\n\n".join([head, note, *cells])


def _cell(cell: dict[str, Any]) -> str:
    text = joined(cell["source"])
    if cell["cell_type"] == "markdown":
        return LINK.sub(r"](\1.md)", text)
    return "\n\n".join([block(text, "python"), *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    """Return the best form of an output that a page can show."""
    if output["output_type"] == "stream":
        return _text(joined(output["text"]))
    data = {kind: joined(value) for kind, value in output["data"].items()}
    if "text/html" in data:
        return _html(without_sheet(data["text/html"]))
    if "image/png" in data:
        source = f"data:image/png;base64,{data['image/png'].strip()}"
        return _html(f'<img src="{source}" alt="{escape(data["text/plain"])}">')
    if "text/latex" in data:
        return _html(from_latex(data["text/latex"].strip("$ \n").removeprefix(DISPLAY).strip()))
    return _text(data["text/plain"])


def without_sheet(html: str) -> str:
    """Return HTML without the style sheet of einalg's views: the site has it once for all pages.

    An older version of it is recognised by its first line.
    """
    first = asset("style.css").partition("\n")[0]
    return re.sub(f"<style>{re.escape(first)}.*?</style>", "", html, flags=re.DOTALL)


def _html(content: str) -> str:
    """Return HTML as one block: an empty line would end it."""
    lines = filter(str.strip, content.splitlines())
    return '<div class="output">' + "\n".join(lines) + "</div>"


def _text(text: str) -> str:
    """Return plain text as a block; a long one is folded."""
    content = f'<pre class="text">{escape(text.rstrip())}</pre>'
    lines = text.count("\n")
    if lines > LONG:
        content = f"<details><summary>{lines} lines</summary>{content}</details>"
    return f'<div class="output">{content}</div>'
