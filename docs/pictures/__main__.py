"""Make the pictures anew: `python -m docs.pictures`, or some: `session`, `tree`, …"""

from __future__ import annotations

import sys

from docs.pictures import browser
from docs.pictures.gallery import GALLERY, SESSION, code_until, entries, results


def main(names: list[str]) -> None:
    """Make the pictures of these names, or all."""
    text = GALLERY.read_text(encoding="utf-8")
    wanted = set(names) or {entry.name for entry in entries(text)}
    values = results(text)
    shown = {name: values[name] for name in wanted & set(values) - {SESSION}}
    for path in browser.photograph(shown):
        print(f"{path.name}: {path.stat().st_size // 1024} kB")
    if SESSION in wanted:
        for path in browser.photograph_session(code_until(SESSION, text)):
            print(f"{path.name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
