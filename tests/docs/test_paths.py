"""Files that pages and CONTRIBUTING.md name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.pages import PAGES as MADE

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"`((?:einalg|derive|codegen|bench|tests|docs|notebooks|\.ci)/[\w./*-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page):
    missing = [
        name
        for name in NAMED.findall(page.read_text(encoding="utf-8"))
        if not list(ROOT.glob(name))
    ]
    assert not missing


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_links_lead_to_files_or_to_pages_that_are_made(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    made = {ROOT / "docs" / path for path in MADE}
    targets = [(page.parent / link).resolve() for link in LINK.findall(text) if "://" not in link]
    assert not [target for target in targets if not target.exists() and target not in made]


def test_who_reads_in_the_repository_is_told_where_made_pages_are():
    """README links to none of them, and the documentation's first page says what makes them."""
    assert "](docs/reference/" not in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "The pages in `reference/` are made from the code: `make docs`" in (
        ROOT / "docs" / "index.md"
    ).read_text(encoding="utf-8")


def test_some_are_named():
    assert sum(len(NAMED.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 40
