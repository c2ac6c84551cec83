"""Folders of files that are written whole or not at all, and replaced only by their like."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from einalg.errors import RecordError, without_remedy
from einalg.storage.atomic_file import part_of

MARK = ".einalg-export"  # which names the files that an export wrote, a line for each


def require_export_folder(folder: Path) -> None:
    """Raise `RecordError` where a folder holds anything, and no export has written it."""
    if not folder.exists() and not folder.is_symlink():
        return
    is_ours = folder.is_dir() and ((folder / MARK).is_file() or not any(folder.iterdir()))
    if not is_ours or folder.is_symlink():
        raise RecordError(
            f"{folder} is there already, and no export has written it\n"
            "  give a new folder, or remove it first"
        )


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, all of them or none.

    They take the place of those that an export wrote there before; what others wrote stays. Raises
    `RecordError` where the folder holds anything else, or cannot be written.
    """
    require_export_folder(folder)
    written = part_of(folder)
    try:
        written.mkdir(parents=True)
        for name, content in {**files, MARK: "\n".join(files).encode()}.items():
            (written / name).write_bytes(content)
        _put_in_place(written, folder)
    except OSError as error:
        raise RecordError(
            f"{folder} cannot be written: {without_remedy(error)}\n"
            "  give a folder in a place that can be written"
        ) from None
    finally:
        shutil.rmtree(written, ignore_errors=True)


def _put_in_place(written: Path, folder: Path) -> None:
    """Give a folder of files its name, with what others added to the one of that name before."""
    if not folder.exists():
        os.replace(written, folder)
        return
    before = part_of(folder)
    os.replace(folder, before)
    try:
        os.replace(written, folder)
    except OSError:
        os.replace(before, folder)
        raise
    ours = {MARK}
    if (before / MARK).is_file():
        ours.update((before / MARK).read_text(encoding="utf-8").splitlines())
    for entry in list(before.iterdir()):
        if entry.name not in ours and not (folder / entry.name).exists():
            os.replace(entry, folder / entry.name)
    shutil.rmtree(before, ignore_errors=True)
