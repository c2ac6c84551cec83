"""Candidates of a search: flat programs that run on library operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from derive.cost.memory import temporary_bytes
from derive.cost.model import CostModel, total
from derive.matching import kernels_of
from derive.rewriting.moves import Move
from derive.rules.inter.lifting_nesting import lifted
from derive.search.expansion import is_heavy, total_operations
from einalg.language.analysis.canonical import key
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.tensor import Access
from einalg.language.ops.templates import Template
from einalg.runtime.clock import Clock
from einalg.text.wording import counted

LATE = "not proven in time"  # why a candidate is dropped of which nothing is known
MIN_SAVING = 1.25  # of arithmetic, for which a program without operators is a candidate


@dataclass
class Stats:
    """The course of a search: `states` expanded, programs `generated`, `candidates` collected.

    `duplicates` counts programs and kernel lists that were met again, `rejected` those that were
    dropped, by reason, `unmeasured` the candidates that the time was not enough for. `seconds` are
    those of the whole, and `phases` those of each phase, such as "proving"; `phase` is the one
    under way, and `best` the best candidate so far. It `is_known` where the
    search was read from disk, `is_cut` where time or an interrupt ended
    it, and `is_interrupted` where an interrupt or the one who watched did.
    """

    states: int = 0
    generated: int = 0
    candidates: int = 0
    seconds: float = 0.0
    duplicates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    stopped: str = ""
    first_hit: float | None = None
    unmeasured: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    phase: str = ""
    best: Any = None
    is_known: bool = False
    is_cut: bool = False
    is_interrupted: bool = False

    @property
    def ending(self) -> str:
        """Return why the search ended, with what was not proven by then.

        >>> stats = Stats(stopped="the limit of 400 states was reached")
        >>> stats.rejected[LATE] = 25
        >>> stats.ending.partition("; ")[2]
        '25 candidates were not proven in time: more seconds may show them'
        """
        late = self.rejected[LATE]
        if not late:
            return self.stopped
        were = "was" if late == 1 else "were"
        note = f"{counted(late, 'candidate')} {were} not proven in time"
        if not self.is_interrupted:
            note += ": more seconds may show " + ("it" if late == 1 else "them")
        return f"{self.stopped}; {note}"


@dataclass(frozen=True)
class EstimatedCandidate:
    """A flat program, the kernels of its statements, its derivation, and its estimated seconds.

    It was collected when so many `states` were expanded, `after` seconds of search.
    """

    program: Program
    kernels: tuple[Kernel, ...]
    moves: tuple[Move, ...]
    estimate: float
    states: int = 0
    after: float = 0.0

    @property
    def operators(self) -> frozenset[tuple[str, bool]]:
        """The operators of its kernels, each with whether it reads none of the program's results.

        An operator on tensors as they are given is told from one on tensors that were made for it.
        """
        results = {kernel.output for kernel in self.kernels}
        operators = set()
        for kernel in self.kernels:
            operators.add((kernel.op, kernel.is_eop or results.isdisjoint(kernel.inputs)))
        return frozenset(operators)


class CandidateCollection:
    """The programs that run on library operators, one for each list of kernels."""

    def __init__(
        self,
        start: Program,
        templates: Sequence[Template],
        model: CostModel,
        stats: Stats,
        memory: float | None = None,
    ):
        self.start, self.templates, self.model, self.stats = start, templates, model, stats
        self.memory = inf if memory is None else memory  # bytes between statements, at most
        self.start_operations = total_operations(start)
        self.start_is_generated = False  # until the expression as it is is collected
        self.begin(Clock.of(inf))
        self.collected: list[EstimatedCandidate] = []
        self.kernel_lists: set[Any] = set()
        self.best: EstimatedCandidate | None = None  # of the lowest estimate
        self.improved_at = 0  # states expanded when that was last improved

    def begin(self, clock: Clock) -> None:
        """Count the time of the search from now on."""
        self.clock, self.began = clock, clock.now()

    def restore(self, candidates: Sequence[EstimatedCandidate]) -> None:
        """Take candidates as those that were collected."""
        self.collected.extend(candidates)
        self.best = min(candidates, key=lambda candidate: candidate.estimate)

    @property
    def elapsed(self) -> float:
        return self.clock.now() - self.began

    def collect(
        self, program: Program, derivation: tuple[Move, ...], as_it_is: bool
    ) -> float | None:
        """Add a program if it runs on an operator and its other scopes do little.

        Returns its estimated seconds; None where it is no new candidate.
        """
        flat = lifted(program)
        if not as_it_is and temporary_bytes(flat) > self.memory:
            self.stats.rejected[f"more than {self.memory} bytes between its statements"] += 1
            return None
        kernels = kernels_of(flat, self.templates)
        if as_it_is:
            self.start_is_generated = _is_generated(kernels)
        elif self._is_rejected(flat, kernels):
            return None
        if not self._is_new(kernels):
            self.stats.duplicates += 1
            return None
        estimate = total(self.model, kernels)
        self._add(
            EstimatedCandidate(flat, kernels, derivation, estimate, self.stats.states, self.elapsed)
        )
        if not as_it_is:
            self._count(self.collected[-1])
        return estimate

    def _is_rejected(self, flat: Program, kernels: Sequence[Kernel]) -> bool:
        saves = self._saves_arithmetic(flat)
        is_generated = _is_generated(kernels)
        if is_generated and not saves:
            return True  # no candidate, and nothing to tell
        may_be_heavy = saves and (is_generated or self.start_is_generated)
        reason = _rejection(flat, kernels, may_be_heavy)
        if reason is None:
            return False
        self.stats.rejected[reason] += 1
        return True

    def _saves_arithmetic(self, flat: Program) -> bool:
        """Tell whether a program does so much less than the expression that it may be better, even
        where no operator does it.
        """
        return total_operations(flat) * MIN_SAVING <= self.start_operations

    def _is_new(self, kernels: Sequence[Kernel]) -> bool:
        identity = tuple((k.op, tuple(k.sizes.items()), _canonical_key(k)) for k in kernels)
        if identity in self.kernel_lists:
            return False
        self.kernel_lists.add(identity)
        return True

    def _add(self, candidate: EstimatedCandidate) -> None:
        if self.best is None or candidate.estimate < self.best.estimate:
            self.best = candidate
            self.improved_at = self.stats.states
        self.collected.append(candidate)

    def _count(self, candidate: EstimatedCandidate) -> None:
        self.stats.candidates += 1
        if self.stats.first_hit is None:
            self.stats.first_hit = candidate.after


def _canonical_key(kernel: Kernel) -> Any:
    assert kernel.scope is not None
    return key(kernel.scope)


def _is_generated(kernels: Sequence[Kernel]) -> bool:
    """Tell whether no operator does any of it."""
    return all(kernel.is_eop for kernel in kernels)


def _rejection(
    program: Program, kernels: Sequence[Kernel], may_be_heavy: bool = False
) -> str | None:
    """Return why a flat program is not worth keeping: a statement that ought not to be left."""
    for kernel in kernels:
        if kernel.op != EOP:
            continue
        if not may_be_heavy and is_heavy(program[kernel.output]):
            return "an eOperator does more arithmetic than its memory traffic allows"
        if _is_needless_copy(program, kernel):
            return "a copy is left that traversal merging removes"
    return None


def _is_needless_copy(program: Program, kernel: Kernel) -> bool:
    if not isinstance(program[kernel.output].body, Access) or kernel.output in program.outputs:
        return False
    return kernel.inputs[0] in program.names
