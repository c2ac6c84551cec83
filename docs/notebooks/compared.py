"""Whether what a notebook shows today is what is stored of it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from docs.notebooks.stored import Notebook, Output, joined

VARIES = "varies"  # the tag of a cell whose output depends on the machine, or on what is measured
UNSEEN = ("style", "script")
MASKS = (
    (r"\b0x[0-9a-f]+\b", "ADDRESS"),
    (r"\beinalg-\d+", "ID"),
    (r"(?<![\w/)\]])(?:/[\w.+-]+){2,}", "PATH"),
    (r"-?\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|min)\b", "TIME"),
    (r"\b\d+(?:\.\d+)?x\b", "RATIO"),
    (r"\b\d+(?:\.\d+)?e-\d+\b", "ERROR"),
)


def differences(stored: Notebook, fresh: Notebook) -> list[str]:
    """Return a sentence for each cell whose stored output is not what it shows now."""
    sentences = []
    for old, new in zip(_code(stored), _code(fresh), strict=True):
        before, after = shown(old), shown(new)
        if before != after:
            sentences.append(f"cell {old.get('id')} shows {after}, and {before} is stored")
    return sentences


def shown(cell: Notebook) -> list[tuple[str, str]]:
    """Return the kind and the masked text of each form of each output of a cell.

    Of a cell that varies: the kinds alone, without warnings and lines of progress.
    """
    if VARIES in cell["metadata"].get("tags", []):
        return _kinds(cell["outputs"])
    parts = []
    for output in cell["outputs"]:
        for kind, text in _forms(output):
            if kind.startswith("image/"):
                text = ""
            parts.append((kind, masked(text)))
    return parts


def _kinds(outputs: list[Output]) -> list[tuple[str, str]]:
    kinds = set()
    for output in outputs:
        if output["output_type"] != "display_data" and output.get("name") != "stderr":
            kinds.update(kind for kind, _ in _forms(output))
    return [(kind, "") for kind in sorted(kinds)]


def _code(notebook: Notebook) -> list[Notebook]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _forms(output: Output) -> list[tuple[str, str]]:
    if output["output_type"] == "stream":
        return [(output["name"], joined(output["text"]))]
    if output["output_type"] == "error":
        return [("error", output["ename"])]
    forms = {kind: joined(value) for kind, value in sorted(output["data"].items())}
    if "text/html" in forms:
        forms["text/html"] = visible(forms["text/html"])
    return list(forms.items())


def masked(text: str) -> str:
    """Return a text without what differs from run to run.

    >>> masked("0.012 ms   at 0x7f3a, error 1.2e-07, 1.04x")
    'TIME at ADDRESS, error ERROR, RATIO'
    >>> masked("A[h//2, i/3] is in /tmp/einalg/a.c")
    'A[h//2, i/3] is in PATH'
    """
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return " ".join(text.split())


def visible(html: str) -> str:
    """Return what a reader sees of HTML: no markup, style or script.

    >>> visible("<style>p {}</style><p>1 &lt; <b>2</b></p>")
    '1 < 2'
    """
    parser = _VisibleText()
    parser.feed(html)
    return " ".join("".join(parser.parts).split())


class _VisibleText(HTMLParser):
    """Gathers the text between the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.unseen += tag in UNSEEN

    def handle_endtag(self, tag: str) -> None:
        self.unseen -= tag in UNSEEN

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.parts.append(data)
