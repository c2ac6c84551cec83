"""What is kept on disk, by key: whole or absent, whatever other processes do (design §13).

A file's name holds the digest of its content, so that a truncated or damaged one is found before it is loaded.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

LOG = logging.getLogger("einalg")
PACKAGES = ("einalg", "derive", "codegen")
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


@dataclass(frozen=True)
class DiskCache:
    """Files of one kind, `what`, in a folder of the cache by the name of the shelf."""

    name: str
    suffix: str
    what: str

    def find(self, key: str) -> Path | None:
        """The whole file stored under a key; damaged ones are removed."""
        for folder in (self._folder(cache_folder(), key), self._folder(temporary_folder(), key)):
            try:
                found = sorted(folder.glob(f"{key}-*{self.suffix}"))
            except OSError:
                continue
            for path in found:
                if _content(path) is not None:
                    return path
                if path.exists():  # else another process has replaced it
                    LOG.warning("einalg: %s in the cache is damaged; it is made again", path)
                    _remove(path)
        return None

    def read(self, key: str) -> bytes | None:
        """The content stored under a key."""
        path = self.find(key)
        return _content(path) if path else None

    def state(self) -> str:
        """A digest of all that is on the shelf, for what depends on any of it."""
        return hashed(
            *sorted(path.name for path in (cache_folder() / self.name).glob(f"*/*{self.suffix}"))
        )

    def store(self, key: str, content: bytes) -> Path:
        """Keep a file under a key; in a temporary folder, with a warning, where the cache folder cannot be written.

        Raises `OSError` where that cannot be written either.
        """
        folder = cache_folder()
        try:
            return self._write(self._folder(folder, key), key, content)
        except OSError as error:
            LOG.warning(
                "einalg: the cache folder %s cannot be written (%s); %s are kept for this process only",
                folder,
                error,
                self.what,
            )
            return self._write(self._folder(temporary_folder(), key), key, content)

    def replace(self, key: str, content: bytes) -> Path | None:
        """Keep a file under a key in the place of what is there. For what is read at once: a file in use may vanish.

        None, with a warning, where nothing can be written at all.
        """
        try:
            path = self.store(key, content)
        except OSError as error:
            LOG.warning(
                "einalg: the temporary folder cannot be written either (%s); %s are not kept",
                error,
                self.what,
            )
            return None
        for old in path.parent.glob(f"{key}-*{self.suffix}"):
            if old != path:
                _remove(old)
        return path

    def _folder(self, folder: Path, key: str) -> Path:
        return folder / self.name / key[:2]

    def _write(self, folder: Path, key: str, content: bytes) -> Path:
        """Write beside the place and rename: another process sees the whole file or none."""
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".new-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            path = folder / f"{key}-{_digest(content)}{self.suffix}"
            os.replace(name, path)
            return path
        except OSError:
            _remove(Path(name))
            raise


def hashed(*parts: str) -> str:
    """A key of everything that an entry depends on."""
    return sha256("\0".join(parts).encode()).hexdigest()


def digest_of(arrays: Iterable[tuple[str, np.ndarray[Any, Any]]]) -> str:
    """A digest of arrays by name: of their element types, shapes and values.

    >>> digest_of([("A", np.zeros(2))]) == digest_of([("A", np.zeros((2, 2))[:, 1])])
    True
    """
    digest = sha256()
    for name, array in arrays:
        digest.update(f"{name}:{array.dtype}:{array.shape}".encode())
        digest.update(
            np.ascontiguousarray(array).data if array.dtype.kind in "biufc" else _bytes(array)
        )
    return digest.hexdigest()


def _bytes(array: np.ndarray[Any, Any]) -> bytes:
    """What NumPy gives no buffer of: text, and elements of other packages."""
    return repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()


@cache
def own_code() -> str:
    """A digest of einalg's own code, for what is kept and not computed anew from the same text: another version, or a changed file, makes it anew."""
    folders = [Path(__file__).parent.parent / package for package in PACKAGES]
    files = sorted((file, file.stat()) for folder in folders for file in folder.rglob("*.py"))
    return hashed(*(f"{file} {state.st_size} {state.st_mtime_ns}" for file, state in files))


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


def _content(path: Path) -> bytes | None:
    """What a file holds; None where it is not what was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if path.stem.rpartition("-")[2] == _digest(content) else None


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        LOG.debug("einalg: %s cannot be removed: %s", path, error)
