"""Verdicts on disk, so that a generation that was cut short goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import islpy as isl

from derive.substitutions.generation.terms import ProgramPair
from derive.substitutions.graphs.kinds import KINDS
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.storage import record
from einalg.storage.fingerprint import SEARCH_CODE, code_digest

KIND = "verdicts of generated substitutions"
SECONDS = 5.0  # between two writings of a file


class VerdictFile:
    """The verdicts of a file, which is written whole every few seconds; of nothing without a path.

    Verdicts that other code of einalg gave count for nothing, and those on functions are not kept:
    a name may be that of another one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries: dict[str, Any] = {}
        self._written = monotonic()
        if path is not None and path.exists():
            content = record.read(path, KIND)
            if content.get("code") == code_digest(*SEARCH_CODE):
                self._entries = dict(content.get("verdicts", {}))

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, pair: ProgramPair) -> RuleVerdict | None:
        """Return the verdict on a pair; None where it is not known."""
        entry = self._entries.get(_key(pair))
        if entry is None:
            return None
        sets = {name: _set(entry[name]) for name in ("condition", "region")}
        return RuleVerdict("", **{**entry, **sets})

    def put(self, pair: ProgramPair, verdict: RuleVerdict) -> None:
        if self._path is None or not _is_of_kinds(pair):
            return
        self._entries[_key(pair)] = {
            "verdict": verdict.verdict,
            "condition": _text(verdict.condition),
            "condition_text": verdict.condition_text,
            "counterexample": verdict.counterexample,
            "region": _text(verdict.region),
            "coverage": verdict.coverage,
            "leaves": dict(verdict.leaves),
        }
        if monotonic() - self._written > SECONDS:
            self.write()

    def write(self) -> None:
        """Write the file. Raises `RecordError` where that cannot be done."""
        if self._path is not None:
            content = {"code": code_digest(*SEARCH_CODE), "verdicts": self._entries}
            record.write(self._path, KIND, content)
        self._written = monotonic()


def _key(pair: ProgramPair) -> str:
    return f"{pair} of {_shapes_text(pair.shapes)}"


def _shapes_text(shapes: Sequence[Sequence[int]]) -> str:
    return ", ".join("x".join(map(str, shape)) or "a number" for shape in shapes)


def _is_of_kinds(pair: ProgramPair) -> bool:
    return all(operation.operator in KINDS for side in pair.graph.sides for operation in side)


def _text(points: Any) -> str | None:
    return None if points is None else str(points)


def _set(text: str | None) -> Any:
    return None if text is None else isl.Set(text)
