"""The blocks of a page run alone, in part and in any order: workers share their tests."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from sybil.example import SybilFailure
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

from docs.blocks import Page

TEXT = """
```python
>>> names = ["a"]
```
<!--- skip: next -->
```python
names.append("skipped")
```
```python
names.append("b")
```
```python
>>> [*names, names.append("c")]
['a', 'b', None]
```
"""
FIRST, DIRECTIVE, SKIPPED, SECOND, LAST = range(5)


def page_of(folder: Path, text: str = TEXT) -> Page:
    path = folder / "page.md"
    path.write_text(text)
    return Page.parse(str(path), PythonCodeBlockParser(), SkipParser())


def run(page: Page, position: int) -> None:
    list(page.examples())[position].evaluate()


def test_blocks_run_in_any_order(tmp_path: Path) -> None:
    names = {
        FIRST: ["a"],
        DIRECTIVE: ["a"],
        SKIPPED: ["a"],
        SECOND: ["a", "b"],
        LAST: ["a", "b", "c"],
    }
    for order in permutations(names):
        page = page_of(tmp_path)
        for position in order:
            run(page, position)
            assert page._blocks[0].namespace["names"] == names[position]


def test_a_failure_is_told_by_its_own_block(tmp_path: Path) -> None:
    page = page_of(tmp_path, TEXT.replace("names = ", "names = 1 / 0 or "))
    for position, failure in ((SECOND, NameError), (FIRST, SybilFailure)):
        with pytest.raises(failure):
            run(page, position)
