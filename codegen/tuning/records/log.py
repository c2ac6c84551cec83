"""A log of all candidates that were measured, one line of JSON each, which only grows (design §16).

A line is written whole or, where a disk is full, in part; a part is no record, and takes none that
was written before along.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from errno import ENOSPC
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from codegen.tuning.measuring.task import Outcome
from codegen.tuning.records.provenance import Provenance
from einalg.errors import RecordError
from einalg.storage.disk_cache import cache_folder

LOG = logging.getLogger("einalg")
FOLDER = "tuning-log"
OWN_FIELDS = ("unit", "statement", "space", "point", "cycles", "features")
NUMBERS = ("seconds", "cold_seconds", "spread", "strikes", "cycles")


@dataclass(frozen=True)
class TuningRecord:
    """A candidate of a unit, and what was measured of it.

    `unit` is a digest of the unit and `statement` its text; `space` and `point` are those of the
    candidate, `cycles` what the model expected, and `features` numbers that a model learns from.
    """

    provenance: Provenance
    unit: str
    statement: str
    space: str
    point: dict[str, Any]
    cycles: float
    features: dict[str, float]
    outcome: Outcome

    def line(self) -> bytes:
        """Return the record as a line of JSON."""
        row = {**self.provenance.row(), **asdict(self.outcome)}
        for name in OWN_FIELDS:
            row[name] = getattr(self, name)
        return json.dumps(row, sort_keys=True).encode() + b"\n"


def record_from_row(row: Any) -> TuningRecord:
    """Return the record that a row of JSON is of; `ValueError` for anything else."""
    try:
        outcome = Outcome(**{name: row[name] for name in Outcome.__dataclass_fields__})
        provenance = Provenance(**{name: row[name] for name in Provenance.__dataclass_fields__})
        values = {name: row[name] for name in OWN_FIELDS}
        record = TuningRecord(provenance=provenance, outcome=outcome, **values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no record: {error!r}") from None
    for name in NUMBERS:
        value = row[name]
        is_right = _is_number(value) and value >= 0
        if not is_right and not (value is None and name in ("seconds", "cold_seconds")):
            raise ValueError(f"{name} of a record is {value!r}")
    texts = (record.unit, record.statement, record.space)
    if not all(isinstance(text, str) for text in texts) or not isinstance(record.point, dict):
        raise ValueError("the unit, the space or the point of a record is missing")
    features = record.features
    if not isinstance(features, dict) or not all(map(_is_number, features.values())):
        raise ValueError("the features of a record are no numbers")
    return record


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)


@dataclass(frozen=True)
class TuningLog:
    """The log of a provenance: a file with no records of another machine, compiler or schema."""

    path: Path
    provenance: Provenance

    @classmethod
    def here(cls, provenance: Provenance) -> TuningLog:
        """Return the log of this machine, compiler and schema in the cache.

        An older schema has a file of its own, so that a new version begins anew beside it.
        """
        parts = (*provenance.machine.split(), provenance.compiler, f"schema{provenance.schema}")
        return cls(cache_folder() / FOLDER / f"{'-'.join(parts)}.jsonl", provenance)

    def append(self, record: TuningRecord) -> None:
        """Write a record behind all others; a warning says where that cannot be done."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                line = record.line()
                if not _ends_whole(file):
                    line = b"\n" + line
                if file.write(line) != len(line):
                    raise OSError(ENOSPC, "a part of the line was written")
        except OSError as error:
            LOG.warning("einalg: a measurement is not kept in %s: %s", self.path, error)

    def records(self) -> Iterator[TuningRecord]:
        """Yield the records.

        A line that was not written whole is left out. Raises `RecordError` for a record of another
        machine, compiler or schema.
        """
        try:
            lines = self.path.read_bytes().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise RecordError(
                f"{self.path} cannot be read: {error}\n  set EINALG_CACHE to another folder"
            ) from None
        for number, line in enumerate(lines, 1):
            record = self._record(line, f"line {number} of {self.path}")
            if record is not None:
                yield record

    def of_unit(self, unit: str) -> list[TuningRecord]:
        """Return the records of a unit that the same code of einalg has measured.

        They are those that the file had when it was first asked for one: it is read once.
        """
        return self._by_unit.get(unit, [])

    def own_code(self) -> Iterator[TuningRecord]:
        """Yield the records of all units that the same code of einalg has measured."""
        for records in self._by_unit.values():
            yield from records

    @cached_property
    def _by_unit(self) -> dict[str, list[TuningRecord]]:
        units: dict[str, list[TuningRecord]] = {}
        for record in self.records():
            if record.provenance == self.provenance:
                units.setdefault(record.unit, []).append(record)
        return units

    def _record(self, line: bytes, where: str) -> TuningRecord | None:
        try:
            row = json.loads(line)
        except ValueError:
            return None
        if not isinstance(row, dict):
            return None
        self.provenance.require(row, where)
        try:
            return record_from_row(row)
        except ValueError as error:
            raise RecordError(f"{where} is damaged: {error}\n  remove the line") from None


def _ends_whole(file: Any) -> bool:
    """Say whether a file is empty, or ends with a whole line."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return True
    file.seek(size - 1)
    return file.read(1) == b"\n"
