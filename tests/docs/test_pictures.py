"""The pictures of the documentation are there, and the README's figures are those of the results."""

from __future__ import annotations

import re

import pytest

from docs.pages import speed
from docs.pictures import gallery, readme
from einalg.text.wording import counted

GALLERY = gallery.GALLERY.read_text(encoding="utf-8")
ENTRIES = gallery.entries(GALLERY)
KILOBYTES = 80  # of a picture
MOST_LINES = 14  # of the code of an entry


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_is_short_and_has_a_picture_for_light_and_dark(entry):
    assert entry.code.count("\n") <= MOST_LINES
    for scheme in ("light", "dark"):
        picture = gallery.IMAGES / f"{entry.name}-{scheme}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < KILOBYTES * 1024
        assert f"images/{picture.name}#only-{scheme}" in GALLERY


def test_every_picture_is_shown_somewhere():
    pages = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (readme.README, *sorted((gallery.ROOT / "docs").rglob("*.md")))
    )
    pictures = sorted(path.name for path in gallery.IMAGES.iterdir())
    assert len(ENTRIES) >= 10
    assert not [name for name in pictures if f"images/{name}" not in pages]


def test_the_figures_of_the_readme_are_those_of_the_results():
    text = readme.README.read_text(encoding="utf-8")
    assert readme.with_figures(text) == text, "write them anew with `make pictures`"
    assert {name for name, _ in readme.BLOCK.findall(text)} == set(readme.BLOCKS)
    assert readme.CHART.read_text(encoding="utf-8") == readme.chart()


def test_figures_are_written_between_their_marks():
    text = "a <!-- demo -->1 ms<!-- end --> b\n\n<!-- speed -->\n| old |\n<!-- end -->\n"
    written = readme.with_figures(text)
    assert written.startswith(f"a <!-- demo -->{speed.readme_demo()}<!-- end --> b\n\n")
    assert written.endswith(f"<!-- speed -->\n{speed.readme_table()}\n<!-- end -->\n")


def test_the_chart_of_the_readme_has_every_network():
    record = next(iter(speed.records("models").values()))
    bars = re.findall("<rect", readme.chart())
    assert counted(len(bars), "network") == counted(len(record["models"]), "network")


@pytest.mark.parametrize("name", ["expression", "mapping-table", "proof"])
def test_the_page_of_a_value_is_what_a_notebook_shows(name):
    entry = next(entry for entry in ENTRIES if entry.name == name)
    start = "import einalg as ea\n"
    if name == "mapping-table":
        start += ENTRIES[0].code
    page = gallery.html(
        gallery.results(
            f"```python\n{start}{entry.code}```\n\n![a](images/{name}-light.png#only-light)"
        )[name]
    )
    shown = {"expression": "<math", "mapping-table": "axis 1", "proof": "96 &lt;= i &lt;= 99"}
    assert shown[name] in page and 'content="light dark"' in page
