"""Pages whose blocks of Python can run each alone, and in any order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from sybil import Document, Example
from sybil.typing import Evaluator, Parser


class Page(Document):
    """A page of Markdown, whose blocks use the names of those before them.

    Every block is a test, and workers share the tests of a page. A worker runs the blocks before
    its own first, where it did not do so yet; one that comes back to an earlier block starts anew.
    """

    read: Callable[[], Document]

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text, path)
        self._blocks: list[Example] = []
        self._next = 0  # the block that follows the last one that ran

    @classmethod
    def parse(cls, path: str, *parsers: Parser, encoding: str = "utf-8") -> Page:
        """Return the page of a file, divided by the parsers."""
        with open(path, encoding=encoding) as file:
            page = cls(file.read(), path)
        for parser in parsers:
            for region in parser(page):
                page.add(region)
        page.read = partial(Document.parse, path, *parsers, encoding=encoding)
        return page

    def evaluate(self, example: Example, evaluator: Evaluator) -> None:
        """Run a block after all those before it, whose failures are told by their own tests."""
        __tracebackhide__ = True
        position = [region for _, region in self.regions].index(example.region)
        if position < self._next or not self._blocks:
            self._blocks, self._next = list(self.read().examples()), 0
        for block in self._blocks[self._next : position]:
            with suppress(Exception):
                block.evaluate()
        self._next = position + 1
        self._blocks[position].evaluate()
