"""Derivations of layers by their families, kept on disk for later networks."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from derive.cost.backend import Backend
from derive.rewriting.moves import Move, Rule
from derive.search.outlines import Outline
from einalg.errors import EinalgError
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import SEARCH_CODE, Fingerprint

log = logging.getLogger("einalg")

FAMILIES = DiskCache("families", ".json", "derivations of layers of other sizes")
VERSION = 1  # of what is kept
MAX_KEPT = 64  # derivations of one family, the last ones
DAMAGED = "einalg: stored derivations are damaged (%s), and are searched again"
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, EinalgError)


@dataclass(frozen=True)
class KnownForm:
    """A derivation, with the `sizes` of the layer for which it was found.

    `scale` and `original_scale` are what its form and the layer took in their estimates.
    """

    outline: Outline
    sizes: tuple[int, ...]
    scale: float
    original_scale: float

    def as_record(self) -> dict[str, Any]:
        """Return the form as JSON values."""
        groups = []
        for group in self.outline.groups:
            groups.append([move.as_record() for move in group])
        return {
            "groups": groups,
            "sizes": self.sizes,
            "scale": self.scale,
            "original_scale": self.original_scale,
        }

    @classmethod
    def from_record(cls, row: Mapping[str, Any]) -> KnownForm:
        """Return the form of a record; raises one of `UNREADABLE` for a damaged one."""
        groups = []
        for group in row["groups"]:
            groups.append(tuple(Move.from_record(move) for move in group))
        sizes = tuple(map(int, row["sizes"]))
        scale, original_scale = float(row["scale"]), float(row["original_scale"])
        if not all(0 < number < inf for number in (*sizes, scale, original_scale)):
            raise ValueError("a size or a scale is not positive")
        return cls(Outline(tuple(groups)), sizes, scale, original_scale)


@dataclass(frozen=True)
class StoredForms:
    """The derivations on disk that were measured on such a machine, by families of layers."""

    backend: Backend
    rules: Sequence[Rule] | None = None  # of the searches; None for all
    cache: DiskCache = FAMILIES

    def read(self, family: str) -> list[KnownForm]:
        """Return the forms of a family, the last found last."""
        content = self.cache.read(self._key(family))
        if content is None:
            return []
        try:
            rows = list(json.loads(content))
        except (ValueError, TypeError) as error:
            log.warning(DAMAGED, error)
            return []
        return list(_intact(rows))

    def add(self, family: str, form: KnownForm) -> None:
        """Keep a form with those of its family, in the place of what was known at its sizes."""
        key, forms = self._key(family), []
        with self.cache.locked(key):
            for known in self.read(family):
                if (known.outline, known.sizes) != (form.outline, form.sizes):
                    forms.append(known)
            rows = [known.as_record() for known in [*forms, form][-MAX_KEPT:]]
            self.cache.replace(key, json.dumps(rows).encode())

    def _key(self, family: str) -> str:
        names = ""
        if self.rules is not None:
            names = repr(sorted(rule.name for rule in self.rules))
        parts = ("family", str(VERSION), family, self.backend.identity(), names)
        return Fingerprint(SEARCH_CODE).key(*parts)


def _intact(rows: Iterable[Any]) -> Iterator[KnownForm]:
    """Yield the forms of records, and warn of those that are damaged."""
    for row in rows:
        try:
            yield KnownForm.from_record(row)
        except UNREADABLE as error:
            log.warning(DAMAGED, error)
