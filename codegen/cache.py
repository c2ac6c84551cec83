"""Shared objects on disk, by key: whole or absent, whatever other processes do (design §13).

A file's name holds the digest of its content, so that a truncated or damaged one is found before it is loaded.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

LOG = logging.getLogger("einalg")
_temporary: list[tempfile.TemporaryDirectory[str]] = []


def cache_folder() -> Path:
    """`$EINALG_CACHE`, or the user's cache folder: `~/.cache/einalg` (`$XDG_CACHE_HOME`), `~/Library/Caches/einalg` on macOS."""
    chosen = os.environ.get("EINALG_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    if home:
        return Path(home) / "einalg"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "einalg"


def temporary_folder() -> Path:
    """One folder for this process, removed at its end."""
    if not _temporary:
        _temporary.append(tempfile.TemporaryDirectory(prefix="einalg-"))
    return Path(_temporary[0].name)


def find(key: str) -> Path | None:
    """The whole file stored under a key; damaged ones are removed."""
    for folder in (_shelf(cache_folder(), key), _shelf(temporary_folder(), key)):
        try:
            found = sorted(folder.glob(f"{key}-*.so"))
        except OSError:
            continue
        for path in found:
            if _is_whole(path):
                return path
            LOG.warning("einalg: the cached kernel %s is damaged; it is built again", path)
            _remove(path)
    return None


def store(key: str, content: bytes) -> Path:
    """Keep a file under a key; in a temporary folder, with a warning, where the cache folder cannot be written."""
    folder = cache_folder()
    try:
        return _write(_shelf(folder, key), key, content)
    except OSError as error:
        LOG.warning("einalg: the cache folder %s cannot be written (%s); compiled kernels are kept for this process only", folder, error)
        return _write(_shelf(temporary_folder(), key), key, content)


def _shelf(folder: Path, key: str) -> Path:
    return folder / "kernels" / key[:2]


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


def _is_whole(path: Path) -> bool:
    try:
        return path.stem.rpartition("-")[2] == _digest(path.read_bytes())
    except OSError:
        return False


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        LOG.debug("einalg: %s cannot be removed: %s", path, error)


def _write(folder: Path, key: str, content: bytes) -> Path:
    """Write beside the place and rename: another process sees the whole file or none."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".new-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        path = folder / f"{key}-{_digest(content)}.so"
        os.replace(name, path)
        return path
    except OSError:
        _remove(Path(name))
        raise
