"""Files that are written whole or not at all (design §13)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any


def write_whole(path: Any, content: bytes) -> None:
    """Write a file atomically: a reader sees the old one or the whole new one."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
