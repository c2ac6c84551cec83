"""Records on disk: JSON with a schema number, written whole, never executed (design §13)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from einalg import __version__
from einalg.errors import RecordError
from einalg.storage.atomic_file import write_whole

SCHEMA = 1
MAX_RECORD_BYTES = 64 * 2**20


def text(kind: str, content: dict[str, Any]) -> str:
    """Return a record as JSON text."""
    return json.dumps(
        {"format": kind, "schema": SCHEMA, "einalg": __version__, **content}, indent=1
    )


def write(path: Any, kind: str, content: dict[str, Any]) -> None:
    """Write a record atomically: a reader sees the old file or the whole new one.

    Raises `RecordError` where it cannot be written.
    """
    try:
        write_whole(path, text(kind, content).encode())
    except OSError as error:
        raise RecordError(
            f"{path} cannot be written: {error.strerror}\n  give a file in a folder of yours"
        ) from None


def read(path: Any, kind: str) -> dict[str, Any]:
    """Read a record.

    Raises `RecordError` where it is missing, broken, of another kind or newer than this version.
    """
    try:
        if not Path(path).exists():
            raise RecordError(f"there is no file {path}")
        if Path(path).stat().st_size > MAX_RECORD_BYTES:
            raise RecordError(
                f"{path} has more than {MAX_RECORD_BYTES} bytes, so it is not a record of einalg"
            )
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise RecordError(
            f"{path} cannot be read as a record: {error}\n  give a file that was written by `save`"
        ) from None
    if not isinstance(record, dict) or record.get("format") != kind:
        raise RecordError(f"{path} is not a record of the kind {kind!r}")
    schema = record.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise RecordError(f"{path} has no schema number")
    if schema > SCHEMA:
        raise RecordError(
            f"{path} has schema {schema}, this version reads up to {SCHEMA}\n"
            "  install a newer einalg"
        )
    return record
