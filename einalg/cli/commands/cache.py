"""`einalg cache`: what is kept on disk, and its removal.

Only files that einalg has named are counted and removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from einalg.cli.output import say, table
from einalg.storage.disk_cache import cache_folder
from einalg.text.wording import counted, in_bytes

CACHED_NAME = re.compile(r"[0-9a-f]{64}-[0-9a-f]{32}\.\w+|\.new-\w+")


def cached_files() -> Iterator[Path]:
    """Every file that einalg keeps: SHELF/FIRST TWO DIGITS/KEY-DIGEST.SUFFIX, and what an
    interrupted writer left there.
    """
    for path in sorted(cache_folder().glob("*/*/*")):
        if (
            CACHED_NAME.fullmatch(path.name)
            and re.fullmatch("[0-9a-f]{2}", path.parent.name)
            and path.is_file()
            and not path.is_symlink()
        ):
            yield path


def info() -> None:
    """Print the folder, and files and sizes by shelf."""
    say(f"folder: {cache_folder()}")
    shelves: dict[str, list[int]] = {}
    for path in cached_files():
        shelves.setdefault(path.parent.parent.name, []).append(_size(path))
    if not shelves:
        say("it is empty")
        return
    rows = [(name, str(len(sizes)), in_bytes(sum(sizes))) for name, sizes in shelves.items()]
    every = [size for sizes in shelves.values() for size in sizes]
    table(
        ("shelf", "files", "size"),
        [*rows, ("all", str(len(every)), in_bytes(sum(every)))],
        numbers=("files", "size"),
    )


def clear(yes: bool) -> None:
    """Remove what is kept, once that is confirmed."""
    files = list(cached_files())
    if not files:
        say(f"{cache_folder()} is empty")
        return
    if not yes and not click.confirm(
        f"remove {counted(len(files), 'file')} ({in_bytes(sum(map(_size, files)))}) "
        f"from {cache_folder()}?"
    ):
        say("nothing was removed")
        return
    for path in files:
        path.unlink(missing_ok=True)
    for folder in {parent for path in files for parent in (path.parent, path.parent.parent)}:
        _remove_empty(folder)
    say(f"removed {counted(len(files), 'file')} from {cache_folder()}")


def _remove_empty(folder: Path) -> None:
    for inner in (*folder.glob("*/"), folder):
        try:
            inner.rmdir()
        except OSError:  # it is not empty, or gone
            continue


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # another process has removed it
        return 0
