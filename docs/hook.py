"""Adds the pages that are made from the code to those that are written by hand, and colours
sessions as such, whenever MkDocs builds the site.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # MkDocs runs this file by itself


def on_files(files: Any, config: Any) -> Any:
    """Called by MkDocs with the files of the site."""
    from mkdocs.structure.files import File

    from docs.pages import PAGES
    from einalg.display.html import asset

    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    files.append(File.generated(config, "einalg.css", content=asset("style.css")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of each page."""
    from docs.pages.markdown import with_prompts_as_sessions

    return with_prompts_as_sessions(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of each page."""
    from docs.pages.markdown import shown_well

    return shown_well(html)
