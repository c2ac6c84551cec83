"""The cache on disk: content that can be computed again, stored by key (design §13).

An entry is whole or absent, whatever other processes do. The name of its file ends with a digest
of the content, for example `costs/3f/3f…-9a….json`, so that a damaged entry is detected before it
is used, and computed again.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from hashlib import sha256
from pathlib import Path

LOG = logging.getLogger("einalg")
MAX_LOCK_SECONDS = 1.0  # that one waits for a lock of others
LOCK_PAUSE = 0.01  # seconds between two tries
_temporary: list[tempfile.TemporaryDirectory[str]] = []


def cache_folder() -> Path:
    """Return `$EINALG_CACHE`, or the folder of einalg in the user's cache.

    That is `~/.cache/einalg` (`$XDG_CACHE_HOME`), and `~/Library/Caches/einalg` on macOS.
    """
    chosen = os.environ.get("EINALG_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    xdg_cache = os.environ.get("XDG_CACHE_HOME")
    if xdg_cache:
        return Path(xdg_cache) / "einalg"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches" / "einalg"
    return Path.home() / ".cache" / "einalg"


def temporary_folder() -> Path:
    """Return one folder for this process, which is removed at its end."""
    if not _temporary:
        _temporary.append(tempfile.TemporaryDirectory(prefix="einalg-"))
    return Path(_temporary[0].name)


@dataclass(frozen=True)
class DiskCache:
    """Entries of one kind, files in the folder `name` of the cache.

    `description` is what warnings call them, for example "measured costs".
    """

    name: str
    suffix: str
    description: str

    def find(self, key: str) -> Path | None:
        """Return the file stored under a key; remove damaged ones."""
        entry = self._entry(key)
        return None if entry is None else entry[0]

    def read(self, key: str) -> bytes | None:
        """Return the content stored under a key."""
        entry = self._entry(key)
        return None if entry is None else entry[1]

    def entries_digest(self) -> str:
        """Return a digest of all entries, for what depends on any of them."""
        paths = (cache_folder() / self.name).glob(f"*/*{self.suffix}")
        names = "\0".join(sorted(path.name for path in paths))
        return sha256(names.encode()).hexdigest()

    def store(self, key: str, content: bytes) -> Path:
        """Store content under a key, and return its file.

        Where the cache folder cannot be written, that is a temporary one, with a warning.
        Raises `OSError` where that cannot be written either.
        """
        folder = cache_folder()
        try:
            return self._write(self._folder(folder, key), key, content)
        except OSError as error:
            LOG.warning(
                "einalg: the cache folder %s cannot be written (%s); "
                "%s are kept for this process only",
                folder,
                error,
                self.description,
            )
            return self._write(self._folder(temporary_folder(), key), key, content)

    def replace(self, key: str, content: bytes) -> Path | None:
        """Store content under a key in the place of older content.

        Older files vanish, so this is for content that is read at once. Returns None, with a
        warning, where nothing can be written at all.
        """
        try:
            path = self.store(key, content)
        except OSError as error:
            LOG.warning(
                "einalg: the temporary folder cannot be written either (%s); %s are not kept",
                error,
                self.description,
            )
            return None
        for old in path.parent.glob(f"{key}-*{self.suffix}"):
            if old != path:
                _remove(old)
        return path

    def remove(self, key: str) -> None:
        """Remove what is stored under a key, as far as its files can be removed."""
        for root in (cache_folder(), temporary_folder()):
            for path in self._files(root, key):
                _remove(path)

    @contextmanager
    def locked(self, key: str, seconds: float = MAX_LOCK_SECONDS) -> Iterator[None]:
        """Change the content of a key in a block, while no other one who locks it does.

        The folder of its file is locked; where that is not possible, as where it cannot be written,
        the block runs without a lock. Raises `TimeoutError`, and nothing is to be changed, where
        another one holds it for so many seconds.
        """
        folder = self._folder(cache_folder(), key)
        with ExitStack() as at_end:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                handle = os.open(folder, os.O_RDONLY)
                at_end.callback(os.close, handle)  # which unlocks it
                _lock(handle, seconds)
            except TimeoutError:
                raise
            except OSError as error:
                LOG.debug("einalg: %s are changed without a lock: %s", self.description, error)
            yield

    def _folder(self, root: Path, key: str) -> Path:
        return root / self.name / key[:2]

    def _entry(self, key: str) -> tuple[Path, bytes] | None:
        """Return the file stored under a key and its content; remove damaged ones."""
        for root in (cache_folder(), temporary_folder()):
            for path in self._files(root, key):
                content = _intact_content(path)
                if content is not None:
                    return path, content
                if path.exists():  # else another process has replaced it
                    LOG.warning("einalg: %s in the cache is damaged; it is made again", path)
                    _remove(path)
        return None

    def _files(self, root: Path, key: str) -> list[Path]:
        """Return the files of a key, also those that are damaged."""
        folder = self._folder(root, key)
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return []
        files: list[Path] = []
        for name in names:
            if name.startswith(f"{key}-") and name.endswith(self.suffix):
                files.append(folder / name)
        return files

    def _write(self, folder: Path, key: str, content: bytes) -> Path:
        """Write a file beside the place and rename it: others see the whole file or none."""
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".new-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            path = folder / f"{key}-{_content_digest(content)}{self.suffix}"
            os.replace(name, path)
            return path
        except OSError:
            _remove(Path(name))
            raise


def _lock(handle: int, seconds: float) -> None:
    """Lock an open file; raises `TimeoutError` where others hold it for longer than `seconds`."""
    end = time.monotonic() + seconds
    while True:
        try:
            flock(handle, LOCK_EX | LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= end:
                raise TimeoutError("another process changes the cache") from error
        time.sleep(LOCK_PAUSE)


def _content_digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


def _intact_content(path: Path) -> bytes | None:
    """Return the content of a file; None where it is not what was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if path.stem.rpartition("-")[2] != _content_digest(content):
        return None
    return content


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        LOG.debug("einalg: %s cannot be removed: %s", path, error)
