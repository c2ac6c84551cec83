"""Docstrings as Markdown, for mkdocstrings: an extension of Griffe, which reads them from the
source.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # mkdocstrings runs this file by itself

from docs.pages.markdown import with_examples_as_blocks


class Markdown(griffe.Extension):
    """Puts the examples of every docstring into blocks."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_examples_as_blocks(obj.docstring.value)
