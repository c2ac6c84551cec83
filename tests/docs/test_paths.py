"""Files that pages and CONTRIBUTING.md name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = re.compile(r"`((?:einalg|derive|codegen|bench|tests|docs|notebooks|\.ci)/[\w./*-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page):
    missing = [name for name in NAMED.findall(page.read_text(encoding="utf-8")) if not list(ROOT.glob(name))]
    assert not missing


def test_some_are_named():
    assert sum(len(NAMED.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 40
