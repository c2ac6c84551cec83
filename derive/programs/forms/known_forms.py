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
from einalg.runtime.clock import time_left
from einalg.storage.disk_cache import MAX_LOCK_SECONDS, DiskCache
from einalg.storage.fingerprint import SEARCH_CODE, Fingerprint

log = logging.getLogger("einalg")

FAMILIES = DiskCache("families", ".json", "derivations of layers of other sizes")
VERSION = 2  # of what is kept
MAX_KEPT = 64  # derivations of a family that saved time, and as many others: the last ones
DAMAGED = "einalg: stored derivations are damaged (%s), and are searched again"
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, EinalgError)


@dataclass(frozen=True)
class KnownForm:
    """A derivation, with the `sizes` of the layer for which it was found.

    `scale` and `original_scale` are what its form and the layer took in their estimates, `ratio` is
    what its form took in the time of the layer: infinity where its code had other values.
    """

    outline: Outline
    sizes: tuple[int, ...]
    scale: float
    original_scale: float
    ratio: float

    @property
    def is_right(self) -> bool:
        """Whether its code had the values of the layer."""
        return self.ratio < inf

    @property
    def saves_time(self) -> bool:
        """Whether it was faster than the layer."""
        return self.ratio < 1

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
            "ratio": self.ratio,
        }

    @classmethod
    def from_record(cls, row: Mapping[str, Any]) -> KnownForm:
        """Return the form of a record; raises one of `UNREADABLE` for a damaged one."""
        groups = []
        for group in row["groups"]:
            groups.append(tuple(Move.from_record(move) for move in group))
        sizes = tuple(map(int, row["sizes"]))
        scale, original_scale = float(row["scale"]), float(row["original_scale"])
        ratio = float(row["ratio"])
        if not all(0 < number < inf for number in (*sizes, scale, original_scale)):
            raise ValueError("a size or a scale is not positive")
        if not ratio > 0:
            raise ValueError("a ratio is not positive")
        return cls(Outline(tuple(groups)), sizes, scale, original_scale, ratio)


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

    def add(self, family: str, forms: Iterable[KnownForm]) -> None:
        """Keep forms with those of their family, in the place of what was known at their sizes.

        Where another process changes the family until the time for the work under way is over, or
        for a second, they are not kept.
        """
        key = self._key(family)
        try:
            with self.cache.locked(key, min(MAX_LOCK_SECONDS, time_left())):
                kept = _last(with_forms(self.read(family), forms))
                rows = [form.as_record() for form in kept]
                self.cache.replace(key, json.dumps(rows).encode())
        except TimeoutError as error:
            log.debug("einalg: derivations are not kept: %s", error)

    def _key(self, family: str) -> str:
        names = ""
        if self.rules is not None:
            names = repr(sorted(rule.name for rule in self.rules))
        parts = ("family", str(VERSION), family, self.backend.identity(), names)
        return Fingerprint(SEARCH_CODE).key(*parts)


def with_forms(known: Iterable[KnownForm], new: Iterable[KnownForm]) -> list[KnownForm]:
    """Return known forms and new ones, these in the places of what was known at their sizes."""
    forms = dict[tuple[Outline, tuple[int, ...]], KnownForm]()
    for form in (*known, *new):
        forms.pop((form.outline, form.sizes), None)
        forms[form.outline, form.sizes] = form
    return list(forms.values())


def _last(forms: Sequence[KnownForm]) -> list[KnownForm]:
    """Return the last of the forms that saved time, after the last of the others."""
    others = [form for form in forms if not form.saves_time]
    fast = [form for form in forms if form.saves_time]
    return [*others[-MAX_KEPT:], *fast[-MAX_KEPT:]]


def _intact(rows: Iterable[Any]) -> Iterator[KnownForm]:
    """Yield the forms of records, and warn of those that are damaged."""
    for row in rows:
        try:
            yield KnownForm.from_record(row)
        except UNREADABLE as error:
            log.warning(DAMAGED, error)
