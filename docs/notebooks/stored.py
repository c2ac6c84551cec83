"""Notebooks as files: read, executed, and written with what a reader wants of their outputs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
SECONDS = 300  # that a cell may take
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
WIDGET = "application/vnd.jupyter.widget-view+json"  # nothing without a running kernel

Notebook = dict[str, Any]
Output = dict[str, Any]


def paths() -> list[Path]:
    """Return the files of all notebooks, in the order of their numbers."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Notebook:
    """Return a notebook as its file states it; texts are lists of lines."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(notebook: Notebook, path: Path) -> None:
    """Write a notebook in the layout that Jupyter writes; `~` is the home folder in its paths."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    text = text.replace(f"{Path.home()}/", "~/")
    path.write_text(text + "\n", encoding="utf-8")


def executed(path: Path, command: Sequence[str] = ()) -> Notebook:
    """Return a notebook with the outputs of a run from top to bottom, in a kernel of its own, which
    another `command` than that of Jupyter may start.

    Raises `nbclient.exceptions.CellExecutionError` where a cell fails.
    """
    import nbclient  # with the kernel that it starts: the extra `notebook`
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": path.parent}},
    )
    if command:
        kernel = client.create_kernel_manager().kernel_spec
        assert kernel is not None
        kernel.argv = list(command)
    client.execute(env={**os.environ, "OMP_NUM_THREADS": "1"})  # others disturb one thread least
    return tidy(json.loads(nbformat.writes(notebook)))


def tidy(notebook: Notebook) -> Notebook:
    """Return a notebook without what is of one run only: widgets, time stamps, empty outputs.

    A style sheet stays in the first output that brings it.
    """
    cells, styles = [], set()
    for cell in notebook["cells"]:
        tidied = {**cell, "metadata": _tags(cell)}
        if cell["cell_type"] == "code":
            outputs = _tidy_outputs(cell.get("outputs", []))
            tidied["outputs"] = [_with_new_styles(output, styles) for output in outputs]
        cells.append(tidied)
    return {**notebook, "cells": cells, "metadata": METADATA}


def _tags(cell: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in cell["metadata"].items() if name == "tags"}


def _tidy_outputs(outputs: list[Output]) -> list[Output]:
    """Join the pieces of a stream, and leave out widgets and what shows nothing."""
    tidied: list[Output] = []
    for output in outputs:
        if output["output_type"] == "stream":
            last = tidied[-1] if tidied else {}
            if last.get("name") == output["name"]:
                last["text"] = [*last["text"], *output["text"]]
            else:
                tidied.append({**output, "text": list(output["text"])})
        elif "data" in output:
            data = {kind: value for kind, value in output["data"].items() if kind != WIDGET}
            if any(map(joined, data.values())):
                tidied.append({**output, "data": data})
        else:
            tidied.append(output)
    return tidied


def _with_new_styles(output: Output, styles: set[str]) -> Output:
    """Return an output without the style sheets that are among `styles`, and add its own there."""
    if "text/html" not in output.get("data", {}):
        return output

    def once(style: re.Match[str]) -> str:
        if style[0] in styles:
            return ""
        styles.add(style[0])
        return style[0]

    html = STYLE.sub(once, joined(output["data"]["text/html"]))
    return {**output, "data": {**output["data"], "text/html": html.splitlines(keepends=True)}}


def joined(text: Any) -> str:
    """Return a text that a notebook may state as a list of lines.

    >>> joined(["a\\n", "b"]), joined("c")
    ('a\\nb', 'c')
    """
    if isinstance(text, list):
        return "".join(text)
    return str(text)


def without_outputs(notebook: Notebook) -> Notebook:
    """Return a notebook as it is before it runs."""
    blank = {"execution_count": None, "outputs": []}
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell = {**cell, **blank}
        cells.append(cell)
    return {**notebook, "cells": cells}
