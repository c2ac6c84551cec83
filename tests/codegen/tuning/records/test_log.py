"""The log of tuning: it only grows, loses nothing that was written, and mixes nothing."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codegen.tuning.measuring.task import Outcome
from codegen.tuning.records.log import TuningLog, TuningRecord
from codegen.tuning.records.provenance import Provenance
from einalg.errors import RecordError

PROVENANCE = Provenance("machine", "compiler", "code")
RECORD = TuningRecord(
    PROVENANCE,
    "unit",
    "O = L[i:3](A[i])",
    "loops",
    {"row": 8},
    5.0,
    {"row": 3.0},
    Outcome(1e-3),
)
REFUSED = replace(RECORD, outcome=Outcome(reason="crash: SIGSEGV"))


@pytest.fixture
def log(tmp_path: Path) -> TuningLog:
    return TuningLog(tmp_path / "folder" / "log.jsonl", PROVENANCE)


def test_records_come_back_in_order(log: TuningLog) -> None:
    assert list(log.records()) == []
    for record in (RECORD, REFUSED, RECORD):
        log.append(record)
    assert list(log.records()) == [RECORD, REFUSED, RECORD]
    rows = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [row["reason"] for row in rows] == [None, "crash: SIGSEGV", None]


def test_a_torn_line_takes_no_other_record_along(log: TuningLog) -> None:
    """As where a disk is full in the middle of a record."""
    log.append(RECORD)
    with log.path.open("ab") as file:
        file.write(REFUSED.line()[:40])
    log.append(REFUSED)
    assert list(log.records()) == [RECORD, REFUSED]


def test_a_full_disk_is_a_warning(
    log: TuningLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log.append(RECORD)

    def is_full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(Path, "open", is_full)
        log.append(REFUSED)
    assert "is not kept" in caplog.text and list(log.records()) == [RECORD]


def test_a_record_that_is_written_in_part_is_a_warning(
    log: TuningLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is nearly full takes a part of a line without an error."""

    class Nearly(io.FileIO):
        def write(self, line: Any) -> int:
            return super().write(bytes(line)[:40])

    log.append(RECORD)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(Path, "open", lambda path, *_, **__: Nearly(path, "ab+"))
        log.append(REFUSED)
    assert "is not kept" in caplog.text
    log.append(REFUSED)
    assert list(log.records()) == [RECORD, REFUSED]


@pytest.mark.parametrize("name, value", [("machine", "x"), ("compiler", "x"), ("schema", 1)])
def test_records_of_other_origins_are_refused(log: TuningLog, name: str, value: Any) -> None:
    log.append(RECORD)
    log.append(replace(RECORD, provenance=replace(PROVENANCE, **{name: value})))
    with pytest.raises(RecordError, match=rf"line 2 of .* is of another {name}"):
        list(log.records())


@pytest.mark.parametrize("folder", ["missing", "file/below"])
def test_a_folder_that_cannot_be_holds_nothing(
    tmp_path: Path, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    log = TuningLog(tmp_path / folder / "log.jsonl", PROVENANCE)
    assert not list(log.records())
    if folder != "missing":
        with caplog.at_level(logging.WARNING, "einalg"):
            log.append(RECORD)
        assert "a measurement is not kept" in caplog.text and not list(log.records())


def test_records_of_other_code_say_nothing_of_a_point(log: TuningLog) -> None:
    log.append(replace(RECORD, provenance=replace(PROVENANCE, code="older")))
    log.append(replace(RECORD, unit="another"))
    log.append(RECORD)
    assert log.of_unit("unit") == [RECORD] and len(list(log.records())) == 3


def test_each_schema_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new version begins anew beside the records of an older one."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    older = replace(PROVENANCE, schema=PROVENANCE.schema - 1)
    TuningLog.here(older).append(replace(RECORD, provenance=older))
    log = TuningLog.here(PROVENANCE)
    assert log.of_unit("unit") == []
    log.append(RECORD)
    assert list(log.records()) == [RECORD]


def test_the_file_is_read_once(log: TuningLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(RECORD)
    log.append(replace(RECORD, unit="another"))
    assert log.of_unit("unit") == [RECORD]
    log.path.unlink()
    assert len(log.of_unit("another")) == 1 and log.of_unit("third") == []


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": -1},
        {"seconds": "1"},
        {"point": []},
        {"unit": 3},
        {"cycles": None},
        {"strikes": "2"},
        {"features": []},
        {"features": {"row": "8"}},
        {"features": {"row": float("nan")}},
    ],
)
def test_a_damaged_record_is_an_error(log: TuningLog, change: dict[str, Any]) -> None:
    log.path.parent.mkdir()
    log.path.write_text(json.dumps({**json.loads(RECORD.line()), **change}) + "\n")
    with pytest.raises(RecordError, match=r"line 1 of .* is damaged"):
        list(log.records())
