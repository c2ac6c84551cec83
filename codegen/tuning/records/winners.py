"""The fastest points that were measured, which later compilations use (design §10, §16).

They are stored for a machine, a compiler and einalg's own code, and travel as JSON.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from codegen.targets.c.compiler import Compiler, find_compiler
from codegen.tuning.records.provenance import SCHEMA, Provenance
from codegen.tuning.spaces.space import CodeCandidate
from einalg.errors import RecordError
from einalg.storage.disk_cache import DiskCache, cache_folder
from einalg.storage.fingerprint import text_digest

LOG = logging.getLogger("einalg")
TUNINGS = DiskCache("tunings", ".json", "tuned kernels")


@dataclass(frozen=True)
class Winner:
    """The fastest point of a unit, with its seconds and those of the model's own choice."""

    provenance: Provenance
    unit: str
    statement: str
    space: str
    point: dict[str, Any]
    seconds: float
    start_seconds: float

    @property
    def key(self) -> str:
        return _key(self.unit, self.provenance)

    def text(self) -> str:
        """Return the winner as JSON, the same for the same winner."""
        return json.dumps(asdict(self), sort_keys=True)

    def store(self) -> None:
        """Have later compilations use the winner."""
        TUNINGS.replace(self.key, self.text().encode())
        _stored.cache_clear()


def winner_from_row(row: Any) -> Winner:
    """Return a winner from a JSON value; `RecordError` for anything else."""
    try:
        provenance = Provenance(**row["provenance"])
        if provenance.schema != SCHEMA:
            raise RecordError(
                f"a tuned kernel has schema {provenance.schema}, not {SCHEMA}\n"
                "  tune again with this version"
            )
        values = {field.name: row[field.name] for field in fields(Winner)}
        winner = Winner(**{**values, "provenance": provenance})
        texts = (winner.unit, winner.statement, winner.space, *map(str, provenance.row().values()))
        is_right = all(type(text) is str for text in texts) and type(winner.point) is dict
        if not is_right or not min(winner.seconds, winner.start_seconds) > 0:
            raise ValueError("a field has another type")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"this is no tuned kernel: {error!r}\n  export the tunings again"
        ) from None
    return winner


def tuned(
    unit: str, starts: Iterable[CodeCandidate], compiler: Compiler | None = None
) -> CodeCandidate | None:
    """Return the fastest candidate of a unit that was measured here; None where none was.

    `unit` is its digest, and `starts` has a candidate of each of its spaces, of which as many are
    looked at as it takes. It was measured with the `compiler`, or with the usual one.
    """
    if not unit or not has_winners():
        return None
    compiler = compiler or find_compiler()
    if compiler is None:
        return None
    return winner_of(unit, starts, Provenance.here(compiler))


def has_winners() -> bool:
    """Say whether the cache may hold any."""
    return (cache_folder() / TUNINGS.name).is_dir()


def winner_of(
    unit: str, starts: Iterable[CodeCandidate], provenance: Provenance
) -> CodeCandidate | None:
    """Return the fastest candidate of a unit that was measured there; as `tuned` does."""
    winner = _stored(_key(unit, provenance), str(cache_folder()))
    if winner is None:
        return None
    for start in starts:
        if start.space.name == winner.space:
            try:
                return CodeCandidate(start.space, start.space.read(winner.point))
            except ValueError as error:
                LOG.warning("einalg: a tuned kernel is left out: %s", error)
                return None
    return None


def _key(unit: str, provenance: Provenance) -> str:
    return text_digest(unit, provenance.machine, provenance.compiler, provenance.code)


@lru_cache(maxsize=4096)
def _stored(key: str, folder: str) -> Winner | None:
    """Return what the cache in a folder holds; this process asks once."""
    content = TUNINGS.read(key)
    if not content:
        return None
    try:
        return winner_from_row(json.loads(content))
    except (ValueError, RecordError) as error:
        LOG.warning("einalg: a tuned kernel is left out: %s", error)
        return None


def forget_stored() -> None:
    """Have the next question read the cache anew, in which other processes may store winners."""
    _stored.cache_clear()


def exported() -> str:
    """Return all winners that the cache holds, as JSON; those of an older schema are left out."""
    forget_stored()
    texts: set[str] = set()
    for path in (cache_folder() / TUNINGS.name).glob("*/*.json"):
        winner = _stored(path.stem.partition("-")[0], str(cache_folder()))
        if winner is not None:
            texts.add(winner.text())
    kernels = [json.loads(text) for text in sorted(texts)]
    return json.dumps({"schema": SCHEMA, "kernels": kernels}, indent=1, sort_keys=True)


def imported(path: Path) -> int:
    """Put the winners of a file into the cache, and return how many there are.

    Each counts for the machine, the compiler and the code that it was measured with. Raises
    `RecordError`, and changes nothing, for a file that holds anything else.
    """
    try:
        rows = list(json.loads(path.read_text())["kernels"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path} holds no tuned kernels: {error!r}\n  write it with einalg tune --export"
        ) from None
    winners = [winner_from_row(row) for row in rows]
    for winner in winners:
        winner.store()
    return len(winners)
