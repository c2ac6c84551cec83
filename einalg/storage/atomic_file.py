"""Files that are written whole or not at all (design §13)."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_IMODE
from typing import Any
from uuid import uuid4


def write_whole(path: Any, content: bytes) -> None:
    """Write a file atomically: a reader sees the old one or the whole new one.

    A new file has the permissions that `open` gives; one that is replaced keeps its own. What a
    link leads to is replaced, not the link; into a device or a pipe the content is written. Raises
    `OSError` with the path where that cannot be.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
        else:
            _replace(target, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(target: Path, content: bytes) -> None:
    """Put a new file in the place of one, or where there is none."""
    part = part_of(target)
    try:
        with part.open("xb") as file:
            file.write(content)
        if target.exists():
            part.chmod(S_IMODE(target.stat().st_mode))
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def part_of(path: Path) -> Path:
    """Return an unused name beside a file or folder, for content that is not whole yet.

    >>> part_of(Path("model.json"))  # doctest: +SKIP
    PosixPath('model.json5f0c8a3b91de.part')
    """
    return path.parent / f"{path.name}{uuid4().hex[:12]}.part"
