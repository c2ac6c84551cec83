"""Every notebook runs from top to bottom, and shows what is stored of it."""

from __future__ import annotations

import copy
import re

import pytest

from docs.notebooks import compared, stored
from docs.pages import notebooks as pages
from tests.helpers.forked_kernels import forked_kernels

NOTEBOOKS = stored.paths()
KILOBYTES = 450  # that a notebook may take with its outputs
CELL = {
    "cell_type": "code",
    "id": "a",
    "metadata": {},
    "source": ["d"],
    "outputs": [
        {"output_type": "stream", "name": "stdout", "text": ["0.5 ms\n"]},
        {"output_type": "stream", "name": "stdout", "text": ["1 move\n"]},
        {"output_type": "display_data", "data": {"text/plain": [""]}, "metadata": {}},
        {
            "output_type": "execute_result",
            "data": {"text/html": ["<b>2</b>"], stored.WIDGET: {"model_id": "1"}},
            "metadata": {},
        },
    ],
}


def notebook_of(*cells):
    return {"cells": [copy.deepcopy(cell) for cell in cells], "metadata": {"widgets": {}}}


@pytest.fixture(scope="module")
def kernels():
    for package in ("nbformat", "nbclient", "ipykernel"):
        pytest.importorskip(package, reason="needs einalg[notebook]")
    with forked_kernels() as command:
        yield command


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
def test_what_a_notebook_shows_is_what_is_stored(path, kernels):
    notebook = stored.read(path)
    if re.search(r"^import torch", sources(notebook), re.MULTILINE):
        pytest.importorskip("torch", reason="needs einalg[torch]")
    fresh = stored.executed(path, kernels)
    different = compared.differences(notebook, fresh)
    assert not different, "write it anew with `make notebooks-store`:\n" + "\n".join(different)


def sources(notebook):
    return "\n".join(stored.joined(cell["source"]) for cell in notebook["cells"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_stored_notebook_is_whole_and_small(path):
    notebook = stored.read(path)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert "This notebook" in stored.joined(notebook["cells"][0]["source"])
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not any(o["output_type"] == "error" for cell in code for o in cell["outputs"])
    assert any(
        text and compared.VARIES not in cell["metadata"].get("tags", [])
        for cell in code
        for _, text in compared.shown(cell)
    ), "nothing would be compared"
    assert stored.tidy(notebook) == notebook
    assert path.stat().st_size < KILOBYTES * 1024


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_page_of_a_notebook_has_its_text_code_and_outputs(path):
    notebook, page = stored.read(path), pages.page(path)
    for cell in notebook["cells"]:
        assert stored.joined(cell["source"]).splitlines()[0] in page
    outputs = sum(len(cell.get("outputs", [])) for cell in notebook["cells"])
    assert page.count('<div class="output">') == outputs
    assert ".ipynb)" not in page and pages.without_sheet(page) == page


def test_the_notebooks_are_numbered():
    assert [int(path.stem.partition("-")[0]) for path in NOTEBOOKS] == list(
        range(1, len(NOTEBOOKS) + 1)
    ) and len(NOTEBOOKS) >= 7


def test_outputs_of_one_run_only_are_not_stored():
    stream, html = stored.tidy(notebook_of(CELL))["cells"][0]["outputs"]
    assert stream["text"] == ["0.5 ms\n", "1 move\n"]
    assert list(html["data"]) == ["text/html"]


def test_the_home_folder_is_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere/of/mine")
    stored.write({"cells": ["/somewhere/of/mine/.cache, /somewhere/else"]}, tmp_path / "a.ipynb")
    assert stored.read(tmp_path / "a.ipynb") == {"cells": ["~/.cache, /somewhere/else"]}


def test_a_style_sheet_is_stored_once():
    shown = [f"<style>{css}</style><b>{css}</b>" for css in ("p {}", "q {}", "p {}")]
    outputs = [
        {"output_type": "display_data", "data": {"text/html": html}, "metadata": {}}
        for html in shown
    ]
    (cell,) = stored.tidy(notebook_of({**CELL, "outputs": outputs}))["cells"]
    assert [stored.joined(output["data"]["text/html"]) for output in cell["outputs"]] == [
        *shown[:2],
        "<b>p {}</b>",
    ]


def test_times_may_differ_and_words_may_not():
    one = stored.tidy(notebook_of(CELL))
    slower, other, shorter = copy.deepcopy(one), copy.deepcopy(one), copy.deepcopy(one)
    slower["cells"][0]["outputs"][0]["text"][0] = "12.25 ms\n"
    other["cells"][0]["outputs"][0]["text"][1] = "2 moves\n"
    del shorter["cells"][0]["outputs"][1]
    assert compared.differences(one, slower) == []
    (sentence,) = compared.differences(one, other)
    assert "cell a shows" in sentence and "2 moves" in sentence
    assert compared.differences(one, shorter)


def test_of_a_cell_that_varies_the_kinds_are_compared():
    one = stored.tidy(notebook_of({**CELL, "metadata": {"tags": ["varies"]}}))
    other, shorter = copy.deepcopy(one), copy.deepcopy(one)
    other["cells"][0]["outputs"][0]["text"][1] = "2 moves\n"
    del shorter["cells"][0]["outputs"][1]
    assert compared.differences(one, other) == []
    assert compared.differences(one, shorter)


def test_html_is_compared_by_what_a_reader_sees():
    one = stored.tidy(notebook_of(CELL))
    styled = copy.deepcopy(one)
    styled["cells"][0]["outputs"][1]["data"]["text/html"] = ["<style>b {}</style><i>2</i>"]
    assert compared.differences(one, styled) == []
    styled["cells"][0]["outputs"][1]["data"]["text/html"] = ["<i>3</i>"]
    assert compared.differences(one, styled)


def test_a_notebook_without_its_outputs():
    (cell,) = stored.without_outputs(notebook_of(CELL))["cells"]
    assert cell["outputs"] == [] and cell["execution_count"] is None and cell["source"] == ["d"]
