"""The page of laws lists those that the tests prove; `pytest --update-golden` writes it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.laws.page import page

PAGE = Path(__file__).parents[2] / "docs" / "laws.md"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "docs/laws.md differs; write it with pytest --update-golden"
