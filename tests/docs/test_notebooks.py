"""Every notebook runs from top to bottom, and says in its first cell what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
def test_notebook_runs(path):
    nbformat = pytest.importorskip("nbformat", reason="needs einalg[notebook]")
    nbclient = pytest.importorskip("nbclient", reason="needs einalg[notebook]")
    pytest.importorskip("ipykernel", reason="needs einalg[notebook]")
    notebook = nbformat.read(path, as_version=4)
    if any(
        re.search(r"^import torch", cell.source, re.MULTILINE)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ):
        pytest.importorskip("torch", reason="needs einalg[torch]")
    assert notebook.cells[0].cell_type == "markdown" and "This notebook" in notebook.cells[0].source
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not committed"
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert shown and not any(output.output_type == "error" for output in shown)


def test_the_notebooks_are_numbered():
    assert [int(path.stem.partition("-")[0]) for path in NOTEBOOKS] == list(
        range(1, len(NOTEBOOKS) + 1)
    ) and len(NOTEBOOKS) >= 7
