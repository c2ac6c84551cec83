"""The pictures of the documentation are there, and show what their code makes."""

from __future__ import annotations

import pytest

from docs.pictures import gallery
from docs.readme import figures

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
        for path in (figures.README, *sorted((gallery.ROOT / "docs").rglob("*.md")))
    )
    pictures = sorted(path.name for path in gallery.IMAGES.iterdir())
    assert len(ENTRIES) >= 10
    assert not [name for name in pictures if f"images/{name}" not in pages]


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
