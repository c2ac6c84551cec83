"""The entries of the gallery, and the page that shows the result of one."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from einalg.display.html import asset, page
from einalg.display.mathml import formula

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery.md"
IMAGES = ROOT / "docs" / "images"
SESSION = "session"  # whose picture is that of a notebook
ENTRY = re.compile(r"^```python\n(.*?)^```\n+!\[.*?\]\(images/([\w-]+)-light\.png", re.M | re.S)


@dataclass(frozen=True)
class Entry:
    """A picture and the code whose last line it shows."""

    name: str
    code: str


def entries(text: str) -> list[Entry]:
    """Return the entries of a page in the form of the gallery.

    >>> entries("```python\\nx\\n```\\n\\n![an x](images/x-light.png#only-light)")
    [Entry(name='x', code='x\\n')]
    """
    return [Entry(name, code) for code, name in ENTRY.findall(text)]


def code_until(name: str, text: str) -> str:
    """Return the code of the entries of a page up to the one of this name, with that.

    >>> page = "".join(f"```python\\n{x}\\n```\\n![]" f"(images/{x}-light.png)\\n" for x in "abc")
    >>> code_until("b", page)
    'a\\n\\nb\\n'
    """
    codes = []
    for entry in entries(text):
        codes.append(entry.code)
        if entry.name == name:
            break
    return "\n".join(codes)


def results(text: str) -> dict[str, Any]:
    """Run the code of all entries in order; return the value of each last line, by name."""
    names: dict[str, Any] = {}
    values = {}
    for entry in entries(text):
        *before, last = entry.code.rstrip().splitlines()
        exec("\n".join(before), names)
        values[entry.name] = eval(last, names)
    return values


def html(value: Any) -> str:
    """Return what a notebook shows of a value, as a page of its own that follows the theme."""
    if hasattr(value, "_repr_png_") and not hasattr(value, "iterators"):
        bits = b64encode(value._repr_png_()).decode()
        content = f'<img style="max-width:100%" src="data:image/png;base64,{bits}">'
    elif hasattr(value, "_repr_html_"):
        content = value._repr_html_()
    else:
        content = page(formula(value), "einalg-formula")
    return (
        '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<style>{asset('style.css')}</style>"
        '<body style="margin:0"><div id="shown" style="padding:12px;'
        f'box-sizing:border-box">{content}</div>'
    )
