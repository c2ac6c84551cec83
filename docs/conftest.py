"""Runs the examples of the hand-written pages as tests: every block of Python, after those before
it on its page.
"""

from __future__ import annotations

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

from docs.blocks import Page

collect_ignore = ["docstrings.py"]  # an extension of mkdocstrings, which the tests do not need

pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        SkipParser(),
    ],
    patterns=["*.md"],
    document_types={".md": Page},
).pytest()
