"""Searches that are kept on disk, with the verdicts of their proofs (design §8, §20).

A search draws nothing at random, and a proof neither: under the fingerprint of einalg's own code
another process would find the same candidates and prove the same of them. Their programs are made
again, by the moves that lead to them, when they are looked at.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from derive.cost.backend import Backend
from derive.cost.model import CostModel
from derive.matching import kernels_of, with_operator_names
from derive.results.candidates import Candidate
from derive.rewriting.moves import Move, apply
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Search
from derive.search.candidates import EstimatedCandidate, Stats
from derive.search.search_tree import SearchNode
from einalg.errors import EinalgError, RecordError, RuleError, without_remedy
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.language.notation.program_json import program_record
from einalg.language.ops.templates import PLAIN, AnyTemplate
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import SEARCH_CODE, Fingerprint, text_digest

log = logging.getLogger("einalg")

SEARCHES = DiskCache("searches", ".json", "searches")
VERSION = 3  # of what is kept
MIN_SECONDS = 0.3  # a search that takes less is not worth keeping
COUNTS = ("states", "generated", "candidates", "duplicates")
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, EinalgError)


class StaleSearch(RecordError):
    """The moves of a stored search do not give the programs that they gave when it was stored."""


class LazyEstimate(EstimatedCandidate):
    """A candidate of a stored search.

    Its kernels are matched with those operators alone that are stored: to learn what the others
    look like takes longer than all the rest.
    """

    def __init__(self, row: Mapping[str, Any], moves: tuple[Move, ...], programs: Programs):
        names = row["kernels"]
        fields = {
            "moves": moves,
            "estimate": float(row["estimate"]),
            "states": int(row["states"]),
            "after": float(row["after"]),
            "_programs": programs,
            "_digest": str(row["program"]),
            "_operators": frozenset((str(op), bool(first)) for op, first in row["operators"]),
            "_names": None if names is None else frozenset(map(str, names)),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def operators(self) -> frozenset[tuple[str, bool]]:
        return self._operators  # type: ignore[attr-defined]

    @property
    def digest(self) -> str:
        """What tells its flat program from others."""
        return self._digest  # type: ignore[attr-defined]

    @property
    def start(self) -> Program:
        """The expression that was searched."""
        return self._programs.start  # type: ignore[attr-defined]

    @cached_property
    def program(self) -> Program:  # type: ignore[override]
        return self._programs.stored(self.moves, self.digest)  # type: ignore[attr-defined]

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        templates = self._programs.templates  # type: ignore[attr-defined]
        return kernels_of(self.program, _named(templates, self._library_operators))

    @property
    def _library_operators(self) -> frozenset[str]:
        return frozenset(op for op, _ in self.operators)

    @cached_property
    def named_kernels(self) -> tuple[Kernel, ...]:
        """The kernels, with the names of the operators that need no library."""
        names = self._names  # type: ignore[attr-defined]
        if names is None:
            return with_operator_names(self.kernels)
        return with_operator_names(self.kernels, _named(PLAIN, names))

    def candidate(self, verdict: str, backend: Backend | None) -> Candidate:
        return LazyCandidate(self, verdict, backend)


class LazyCandidate(Candidate):
    """An equal program that a stored search found."""

    def __init__(self, estimated: LazyEstimate, verdict: str, backend: Backend | None):
        self._estimated = estimated
        self.moves, self.cost, self.verdict = estimated.moves, estimated.estimate, verdict
        self.measured, self.error, self.backend = False, None, backend
        self.expression = estimated.start

    @property
    def program(self) -> Program:  # type: ignore[override]
        return self._estimated.program

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        return self._estimated.named_kernels


@lru_cache(maxsize=256)
def _named(templates: tuple[AnyTemplate, ...], names: frozenset[str]) -> tuple[Any, ...]:
    """Return the templates of some operators, in their order."""
    return tuple(template for template in templates if template.name in names)


@dataclass
class Programs:
    """The programs after some moves from a start, each made once.

    Where a stored search is stale, `forget` is called, so that it is done again the next time.
    """

    start: Program
    templates: Any
    forget: Callable[[], None]
    known: dict[tuple[Move, ...], Program] = field(default_factory=dict)

    def after(self, moves: tuple[Move, ...]) -> Program:
        """Return the program after all moves."""
        if not moves:
            return self.start
        if moves not in self.known:
            self.known[moves] = apply(self.after(moves[:-1]), moves[-1], ALL)
        return self.known[moves]

    def stored(self, moves: tuple[Move, ...], digest: str) -> Program:
        """Return the flat program after all moves, which had a digest when they were stored.

        Raises `StaleSearch` where the moves do not give it.
        """
        try:
            program = lifted(self.after(moves))
        except RuleError as error:
            raise self._stale(without_remedy(error)) from error
        if text_digest(str(program)) != digest:
            raise self._stale("its moves give another program")
        return program

    def _stale(self, reason: str) -> StaleSearch:
        self.forget()
        return StaleSearch(f"a search in the cache is stale: {reason}\n  derive it again")


class StoredSearch:
    """The place of a search on disk; there is none where rules are a user's own."""

    def __init__(self, search: Search, model: CostModel, cache: DiskCache = SEARCHES):
        self._search, self._cache = search, cache
        self._key = _key(search, model)

    def restore(self) -> dict[int, str] | None:
        """Give a search the outcome that is stored, and return the verdicts that are known.

        They are by the identity of a candidate. None where nothing is stored.
        """
        content = self._cache.read(self._key) if self._key is not None else None
        if content is None:
            return None
        try:
            return self._restored(json.loads(content))
        except UNREADABLE as error:
            log.warning("einalg: a search in the cache is damaged (%s); it is done again", error)
            return None

    def _restored(self, row: Any) -> dict[int, str]:
        search = self._search
        moves = [Move.from_record(move) for move in row["moves"]]
        programs = Programs(search.start, search.expand.templates, self.forget)
        explored = [SearchNode.from_record(node) for node in row["explored"]]
        candidates: list[LazyEstimate] = []
        verdicts: dict[int, str] = {}
        for one in row["candidates"]:
            steps = tuple(moves[number] for number in one["moves"])
            candidates.append(LazyEstimate(one, steps, programs))
            if one["verdict"] is not None:
                verdicts[id(candidates[-1])] = str(one["verdict"])
        if all(candidate.moves for candidate in candidates):
            raise ValueError("the expression as it is is missing")
        counts = {name: int(row["stats"][name]) for name in COUNTS}
        rejected = {str(reason): int(times) for reason, times in row["rejected"].items()}
        stopped, first_hit = str(row["stopped"]), row["first_hit"]
        search.restore(candidates, explored)
        for name, count in counts.items():
            setattr(search.stats, name, count)
        search.stats.rejected.update(rejected)
        search.stats.stopped, search.stats.is_known = stopped, True
        search.stats.first_hit = None if first_hit is None else float(first_hit)
        return verdicts

    def forget(self) -> None:
        """Remove what is stored."""
        if self._key is not None:
            self._cache.remove(self._key)

    def keep(
        self,
        outcome: SearchOutcome,
        verdict: Callable[[EstimatedCandidate], str | None],
        candidate_of: Callable[[EstimatedCandidate], Candidate | None],
    ) -> None:
        """Store the outcome of a search, with what is known of its candidates."""
        if self._key is None:
            return
        numbers: dict[Move, int] = {}
        candidates = []
        for candidate in self._search.candidates.collected:
            known = candidate_of(candidate)
            candidates.append(
                {
                    "moves": [numbers.setdefault(move, len(numbers)) for move in candidate.moves],
                    "program": _program_digest(candidate),
                    "estimate": candidate.estimate,
                    "states": candidate.states,
                    "after": candidate.after,
                    "operators": sorted(candidate.operators),
                    "kernels": None if known is None else list(known.operators),
                    "verdict": verdict(candidate),
                }
            )
        row = {
            "moves": [move.as_record() for move in numbers],
            "candidates": candidates,
            "explored": [node.as_record() for node in self._search.explored],
            "stats": {name: getattr(self._search.stats, name) for name in COUNTS},
            "rejected": dict(outcome.rejected),
            "stopped": self._search.stats.stopped,
            "first_hit": self._search.stats.first_hit,
        }
        self._cache.replace(self._key, json.dumps(row).encode())


def _program_digest(candidate: EstimatedCandidate) -> str:
    """Return what tells the flat program of a candidate from others."""
    if isinstance(candidate, LazyEstimate):
        return candidate.digest
    return text_digest(str(candidate.program))


@dataclass(frozen=True)
class SearchOutcome:
    """The candidates that a search dropped, by reason, before any proof."""

    rejected: Mapping[str, int]

    @classmethod
    def of(cls, stats: Stats) -> SearchOutcome:
        return cls(dict(stats.rejected))


def _key(search: Search, model: CostModel) -> str | None:
    """Return what the outcome of a search depends on; None where a rule is a user's own."""
    for name, rule in search.expand.rules.items():
        if ALL.get(name) is not rule:
            return None
    budget = search.budget
    limits = (
        budget.depth,
        budget.states,
        budget.candidates,
        budget.patience,
        budget.bytes,
        budget.memory,
    )
    templates: Sequence[Any] = [template.identity for template in search.expand.templates]
    return Fingerprint(SEARCH_CODE).key(
        "search",
        str(VERSION),
        json.dumps(program_record(search.start)),
        repr(limits),
        repr(list(search.expand.rules)),
        repr(templates),
        repr(search.weights),
        repr(model),
    )
