"""Search in two stages: variations leave an expression for another one, repairs converge towards an operator (design §8)."""

from __future__ import annotations

import gc
import heapq
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import log2
from numbers import Real
from typing import Any

from derive.cost.model import CostModel, Roofline, total
from derive.matching import distance, match
from derive.rewriting.moves import Move, Rule
from derive.rewriting.paths import paths
from derive.rules import ALL
from derive.rules.algebra import bilinear_factorisation, staging
from derive.rules.inter.lifting_nesting import lifted
from derive.rules.intra import variable_substitution
from derive.search.channels_last import channels_last
from derive.search.cleanup import cleaned_up, fissioned, fully_inlined
from derive.search.expansion import (
    StateExpander,
    ideal_seconds,
    is_heavy,
    multiplies_by_constants,
    shape_class,
    total_operations,
)
from derive.search.search_tree import SearchNode
from derive.search.speculation import SpeculativeExpander
from einalg.errors import MatchError, NotationError, RuleError
from einalg.language.analysis.canonical import key
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ops.templates import TEMPLATES, Template
from einalg.text.wording import counted

log = logging.getLogger("einalg")

# The order of states: weights of a unit of distance, of a step, of a kind of scope, of a factorisation (which also rounds), of twice the work.
NEAR, LEVEL, SCOPE, FACTORED, TWICE = 0.05, 0.5, 0.2, 0.7, 0.5
RECOMPUTED = 2  # times the arithmetic of the expression as it is, that merging all of it may make
MOST_WORK = 16  # times the work of the expression as it is: states with more are dropped


@dataclass(frozen=True)
class Budget:
    """How far to search: moves deep, states expanded, seconds, candidates.

    `patience` is states without a candidate that promises more than all before it; `bytes` bounds the memory that the kept states may take,
    estimated.
    """

    depth: int = 24
    states: int = 400
    seconds: float = 20.0
    candidates: int = 128
    patience: int = 100
    bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if not all(
            isinstance(budget, Real) and budget >= 0
            for budget in (self.depth, self.states, self.seconds)
        ):
            raise NotationError("depth, states and seconds are budgets: give numbers from 0")


@dataclass
class Stats:
    """What a search did: `states` expanded, programs `generated`, `candidates` found, `duplicates` met again, `rejected` by reason.

    `unmeasured` counts the candidates that the time was not enough for.
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


@dataclass(frozen=True)
class EstimatedCandidate:
    """A candidate: the flat program, the kernels of its statements, the moves that lead to it, and its estimated seconds.

    It was found when so many `states` were expanded, `after` seconds of search.
    """

    program: Program
    kernels: tuple[Kernel, ...]
    moves: tuple[Move, ...]
    estimate: float
    states: int = 0
    after: float = 0.0


@dataclass(order=True)
class _State:
    priority: float
    order: int
    program: Program = field(compare=False)
    moves: tuple[Move, ...] = field(compare=False)
    level: int = field(compare=False)


Progress = Callable[[Stats], None]


def search(
    expression: Any,
    budget: Budget | None = None,
    rules: Iterable[Rule | str] | None = None,
    model: CostModel | None = None,
    progress: Progress | None = None,
    ops: Sequence[str] | None = None,
    executor: Any = None,
    seed: int = 0,
) -> tuple[list[EstimatedCandidate], Stats, list[SearchNode]]:
    """Candidates that run on library operators, cheapest first by the model, what it took, and every state that was kept.

    "Leave it as it is" is always among the candidates. `rules` replaces the rules that are searched (see `rules_by_name`), `ops` names
    the operators to look for (all by default); `executor` expands states elsewhere and gives what a search without it gives.
    """
    run = _Search(
        as_program(expression),
        budget or Budget(),
        StateExpander(rules_by_name(rules), templates_by_name(ops)),
        model or Roofline(),
        progress,
    )
    with _frozen_garbage():
        run.explore(executor)
    return sorted(run.found, key=lambda f: f.estimate), run.stats, run.explored


def rules_by_name(rules: Iterable[Rule | str] | Rule | str | None) -> dict[str, Rule]:
    """Rules, and names of known ones, or a single one, as a table; the known ones for None. Raises `RuleError` for anything else.

    >>> list(rules_by_name(["staging", ALL["nesting"]]))
    ['staging', 'nesting']
    """
    return dict(ALL) if rules is None else {rule.name: rule for rule in map(_rule, _several(rules))}


def _several(given: Any) -> list[Any]:
    """The elements of what is given, or a single one."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def _rule(given: Rule | str) -> Rule:
    if isinstance(given, Rule):
        return given
    if not isinstance(given, str) or given not in ALL:
        raise RuleError(
            f"{given!r} is no rule\n  make one with einalg.rule, or name one of: {', '.join(sorted(ALL))}"
        )
    return ALL[given]


def templates_by_name(names: Sequence[str] | str | None) -> tuple[Template, ...]:
    """The templates of these operators, or of a single one; `MatchError` for a name that none has."""
    known = {t.name for t in TEMPLATES}
    names = None if names is None else _several(names)
    unknown = [n for n in names or () if n not in known]
    if unknown:
        raise MatchError(
            f"there is no operator {unknown[0]!r}\n  known: {', '.join(dict.fromkeys(t.name for t in TEMPLATES))}"
        )
    return tuple(t for t in TEMPLATES if names is None or t.name in names)


@contextmanager
def _frozen_garbage() -> Iterator[None]:
    """Cyclic garbage collection costs a third of a search that makes many small objects."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Search:
    def __init__(
        self,
        start: Program,
        budget: Budget,
        expand: StateExpander,
        model: CostModel,
        progress: Progress | None,
    ):
        self.start, self.budget, self.expand, self.model, self.progress = (
            start,
            budget,
            expand,
            model,
            progress,
        )
        self.stats = Stats()
        self.found: list[EstimatedCandidate] = []
        self.explored: list[SearchNode] = []
        self.lengths: list[int] = []  # of the derivations of what was explored
        self.seen: set[Any] = {key(start)}
        self.kernel_lists: set[Any] = set()
        self.began = time.perf_counter()
        self.improved = 0
        self.least_work = max(ideal_seconds(self.start), 1e-12)

    def explore(self, executor: Any = None) -> None:
        queue = self.starts()
        with SpeculativeExpander(executor, self.expand) as ahead:
            while queue and not self.exhausted():
                state = heapq.heappop(queue)
                self.stats.states += 1
                if not self.goes_on():
                    break
                ahead.look(queue)
                for program, steps, gap in ahead.successors(state):
                    if time.perf_counter() - self.began >= self.budget.seconds:
                        break  # a state may have so many that they alone take seconds
                    self.stats.generated += 1
                    following = self.following(state, program, steps, gap)
                    if following is not None:
                        heapq.heappush(queue, following)
        self.stats.stopped = self.stats.stopped or "every state within the depth was explored"
        self.stats.seconds = time.perf_counter() - self.began

    def goes_on(self) -> bool:
        """Tell how far the search is; who is told may end it by `StopIteration`, and gets what was found until then."""
        try:
            if self.progress:
                self.progress(self.stats)
        except StopIteration:
            self.stats.stopped = "by the one who watched"
        return not self.stats.stopped

    def starts(self) -> list[_State]:
        """The expression as it was written, tidied; with all merged that merges, should it have been taken apart before; of that
        every part of a body by itself; and with channels last, where rules may be used that bring them there."""
        self.keep(self.start, (), self.distance(self.start), None, as_it_is=True)
        known = {**ALL, **self.expand.rules}
        most = RECOMPUTED * total_operations(self.start)
        tidy, tidying = cleaned_up(self.start, known)
        merged, merging = fully_inlined(self.start, known, lambda program: total_operations(program) <= most)
        apart, parting = fissioned(merged, known)
        starts = [(tidy, tidying), (merged, merging), (apart, [*merging, *parting])]
        if {staging.RULE.name, variable_substitution.RULE.name} <= self.expand.rules.keys():
            moved, moving = channels_last(tidy, known)
            again, tidying_again = cleaned_up(moved, known)
            starts.append((again, [*tidying, *moving, *tidying_again]))
        queue = list[_State]()
        for program, steps in starts:
            if key(program) not in self.seen:
                self.seen.add(key(program))
                self.keep(program, tuple(steps), self.distance(program), 0)
            elif queue:  # the first is searched from in any case
                continue
            queue.append(
                _State(LEVEL if queue else 0.0, len(self.explored) - 1, program, tuple(steps), 0)
            )
        return queue

    def distance(self, program: Program) -> float:
        return distance((scope for _, scope in paths(program)), self.expand.templates, is_heavy)

    def following(
        self, state: _State, program: Program, steps: tuple[Move, ...], gap: float
    ) -> _State | None:
        """The new state, kept; None for one that is known, too deep or too much work."""
        derivation = (*state.moves, *steps)
        if len(derivation) > self.budget.depth or not self.is_new(program):
            return None
        more = ideal_seconds(program) / self.least_work
        if more > MOST_WORK:
            self.stats.rejected[
                f"more than {MOST_WORK} times the work of the expression as it is"
            ] += 1
            return None
        number = len(self.explored)
        self.keep(program, derivation, gap, state.order)
        factored = len(
            {move.arguments for move in derivation if move.rule == bilinear_factorisation.RULE.name}
        )
        kinds = len({shape_class(scope) for _, scope in paths(program)})  # phases of a sum count once
        priority = (
            NEAR * gap
            + LEVEL * state.level
            + SCOPE * kinds
            + FACTORED * factored
            + TWICE * log2(max(1 / MOST_WORK, more))
        )
        return _State(priority, number, program, derivation, state.level + 1)

    def is_new(self, program: Program) -> bool:
        identity = key(program)
        if identity in self.seen:
            self.stats.duplicates += 1
            return False
        self.seen.add(identity)
        return True

    def exhausted(self) -> bool:
        spent = time.perf_counter() - self.began
        limits = {
            f"the limit of {counted(self.budget.states, 'state')} was reached": self.stats.states
            >= self.budget.states,
            f"{self.budget.seconds:g} seconds were spent": spent >= self.budget.seconds,
            f"the limit of {counted(self.budget.candidates, 'candidate')} was reached": self.stats.candidates
            >= self.budget.candidates,
            f"no better candidate in {counted(self.budget.patience, 'state')}": self.stats.states
            - self.improved
            >= self.budget.patience,
            f"{self.budget.bytes} bytes are taken by states": len(self.seen) * STATE_BYTES
            >= self.budget.bytes,
        }
        self.stats.stopped = next((why for why, reached in limits.items() if reached), "")
        return bool(self.stats.stopped)

    def keep(
        self,
        program: Program,
        derivation: tuple[Move, ...],
        gap: float,
        parent: int | None,
        as_it_is: bool = False,
    ) -> None:
        estimate = self.collect(program, derivation, as_it_is) if gap < FAR or as_it_is else None
        shown = str(derivation[-1]) if derivation else ""
        steps = derivation[self.lengths[parent] if parent is not None else 0 :]
        self.explored.append(
            SearchNode(
                len(self.explored), parent, shown, gap, estimate is not None, estimate, steps
            )
        )
        self.lengths.append(len(derivation))

    def collect(
        self, program: Program, derivation: tuple[Move, ...], as_it_is: bool
    ) -> float | None:
        """Keep the program as a candidate if one of its scopes is an operator and the others do little; its estimated seconds."""
        flat = lifted(program)
        if flat.inputs.keys() != self.start.inputs.keys():
            self.stats.rejected["an input is not read any more"] += 1
            return None
        kernels = kernels_of(flat, self.expand.templates)
        reason = None if as_it_is else _refused(flat, kernels)
        if reason is not None:
            if reason:
                self.stats.rejected[reason] += 1
            return None
        identity = tuple((k.op, tuple(k.sizes.items()), _shape_key(k)) for k in kernels)
        if identity in self.kernel_lists:
            self.stats.duplicates += 1
            return None
        self.kernel_lists.add(identity)
        estimate = total(self.model, kernels)
        spent = time.perf_counter() - self.began
        if all(estimate < other.estimate for other in self.found):
            self.improved = self.stats.states
        self.found.append(EstimatedCandidate(flat, kernels, derivation, estimate, self.stats.states, spent))
        if not as_it_is:
            self.stats.candidates += 1
            if self.stats.first_hit is None:
                self.stats.first_hit = spent
        return estimate


STATE_BYTES = 60_000  # that a kept state takes, measured on convolutions
FAR = 20.0


def _shape_key(kernel: Kernel) -> Any:
    assert kernel.scope is not None
    return key(kernel.scope)


def _refused(program: Program, kernels: Sequence[Kernel]) -> str | None:
    """Why a flat program is not worth keeping (None if it is): no operator in it (no words), or a statement that ought not to be left."""
    if all(k.op == EOP for k in kernels):
        return ""
    for kernel in kernels:
        scope = program[kernel.output]
        if kernel.op != EOP:
            continue
        if is_heavy(scope):
            return "an eOperator does more arithmetic than its memory traffic allows"
        if (
            isinstance(scope.body, Access)
            and kernel.output not in program.outputs
            and kernel.inputs[0] in program.names
        ):
            return "a copy is left that traversal merging removes"
    return None


def kernels_of(program: Program, templates: Sequence[Template] = TEMPLATES) -> tuple[Kernel, ...]:
    """A kernel for each statement of a flat program: the operator that it is, or an eOperator."""
    return tuple(kernel_of(name, scope, templates) for name, scope in program.statements)


def kernel_of(name: str, scope: Scope, templates: Sequence[Template] = TEMPLATES) -> Kernel:
    """The kernel of one statement."""
    found = None if multiplies_by_constants(scope) else match(scope, name, templates)
    return found or Kernel(
        EOP,
        {it.index.name: it.extent for it in scope.iterators},
        tuple(scope.tensors),
        name,
        scope=scope,
    )
