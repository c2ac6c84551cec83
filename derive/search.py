"""Search: best-first over rule applications, guided by the distance to an operator (design §8)."""

from __future__ import annotations

import gc
import heapq
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from derive.cost import CostModel, Roofline, operations, total, traffic
from derive.matching import distance, match
from derive.moves import Move, Rule, apply, moves
from derive.places import places
from derive.rules import ALL, RULES
from derive.rules.spelling import lifted
from einalg.canonical import key
from einalg.errors import EinalgError
from einalg.kernel import EOP, Kernel
from einalg.program import Program, as_program

log = logging.getLogger("einalg")

# The rules that repair an expression towards an operator; cutting expressions up or joining them never does.
REPAIRS = ("summation splitting", "variable substitution", "traversal merging", "boundary relaxing", "boundary tightening")
INTENSITY = 4  # operations that an eOperator may do per byte that it moves
STEP = 0.1  # weight of one more move, so that short derivations come first


@dataclass(frozen=True)
class Budget:
    """How far to search: moves deep, states expanded, seconds, candidates; `patience` is states without a cheaper candidate."""

    depth: int = 12
    states: int = 400
    seconds: float = 20.0
    candidates: int = 8
    patience: int = 40


@dataclass
class Stats:
    """What a search did: `states` expanded, programs `generated`, `candidates` found, `duplicates` met again, `rejected` by reason."""

    states: int = 0
    generated: int = 0
    candidates: int = 0
    seconds: float = 0.0
    duplicates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    stopped: str = ""
    first_hit: float | None = None


@dataclass(frozen=True)
class Found:
    """A candidate: the flat program, the kernels of its statements, the moves that lead to it, and its estimated seconds."""

    program: Program
    kernels: tuple[Kernel, ...]
    moves: tuple[Move, ...]
    estimate: float


@dataclass(order=True)
class _State:
    priority: float
    order: int
    program: Program = field(compare=False)
    moves: tuple[Move, ...] = field(compare=False)


Progress = Callable[[Stats], None]


def search(
    expression: Any,
    budget: Budget | None = None,
    rules: Iterable[Rule] | None = None,
    model: CostModel | None = None,
    progress: Progress | None = None,
) -> tuple[list[Found], Stats]:
    """Candidates that run on library operators, cheapest first by the model; "leave it as it is" is always among them."""
    run = _Search(as_program(expression), budget or Budget(), rules, model or Roofline(), progress)
    with _frozen_garbage():
        run.explore()
    return sorted(run.found, key=lambda f: f.estimate), run.stats


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
    def __init__(self, start: Program, budget: Budget, rules: Iterable[Rule] | None, model: CostModel, progress: Progress | None):
        self.start, self.budget, self.model, self.progress = start, budget, model, progress
        self.rules = list(rules) if rules is not None else [RULES[name] for name in REPAIRS]
        self.known = {**ALL, **{r.name: r for r in self.rules}}
        self.stats = Stats()
        self.found: list[Found] = []
        self.seen: set[Any] = {key(start)}
        self.kernel_lists: set[Any] = set()
        self.began = time.perf_counter()
        self.improved, self.cheapest, self.has_operator = 0, float("inf"), False

    def explore(self) -> None:
        self.collect(self.start, (), keep=True)
        order = count()
        queue = [_State(0.0, next(order), self.start, ())]
        while queue and not self.exhausted():
            state = heapq.heappop(queue)
            self.stats.states += 1
            if self.progress:
                self.progress(self.stats)
            if len(state.moves) >= self.budget.depth:
                continue
            for program, move in self.successors(state.program):
                derivation = (*state.moves, move)
                gap = distance(scope for _, scope in places(program))
                if gap < 20.0:
                    self.collect(program, derivation)
                heapq.heappush(queue, _State(gap + STEP * len(derivation), next(order), program, derivation))
        self.stats.stopped = self.stats.stopped or "every state within the depth was explored"
        self.stats.seconds = time.perf_counter() - self.began

    def exhausted(self) -> bool:
        spent = time.perf_counter() - self.began
        limits = {
            f"{self.budget.states} states were expanded": self.stats.states >= self.budget.states,
            f"{self.budget.seconds:g} seconds were spent": spent >= self.budget.seconds,
            f"{self.budget.candidates} candidates were found": self.stats.candidates >= self.budget.candidates,
            f"no cheaper candidate in {self.budget.patience} states": self.stats.states - self.improved >= self.budget.patience and self.has_operator,
        }
        self.stats.stopped = next((why for why, reached in limits.items() if reached), "")
        return bool(self.stats.stopped)

    def successors(self, program: Program) -> Iterator[tuple[Program, Move]]:
        for move in moves(program, self.rules):
            try:
                following = apply(program, move, self.known)
            except EinalgError as error:
                log.warning("%s was proposed but does not apply: %s", move, error)
                continue
            self.stats.generated += 1
            identity = key(following)
            if identity in self.seen:
                self.stats.duplicates += 1
                continue
            self.seen.add(identity)
            yield following, move

    def collect(self, program: Program, derivation: tuple[Move, ...], keep: bool = False) -> None:
        """Keep the program as a candidate if one of its scopes is an operator and the others only copy or add."""
        reason = None if keep else _refused(program)
        if reason is not None:
            if reason:
                self.stats.rejected[reason] += 1
            return
        flat = lifted(program)
        kernels = kernels_of(flat)
        identity = tuple((k.op, tuple(k.sizes.items()), _shape_key(k)) for k in kernels)
        if identity in self.kernel_lists:
            self.stats.duplicates += 1
            return
        self.kernel_lists.add(identity)
        estimate = total(self.model, kernels)
        self.found.append(Found(flat, kernels, derivation, estimate))
        self.has_operator = self.has_operator or any(k.op != EOP for k in kernels)
        if estimate < self.cheapest:
            self.cheapest, self.improved = estimate, self.stats.states
        if not keep:
            self.stats.candidates += 1
            if self.stats.first_hit is None:
                self.stats.first_hit = time.perf_counter() - self.began


def _shape_key(kernel: Kernel) -> Any:
    assert kernel.scope is not None
    return key(kernel.scope)


def _refused(program: Program) -> str | None:
    """Why a program is not worth keeping (None if it is): no operator in it (no words), or a scope that ought not to be left."""
    matched = False
    outputs = {(name,) for name in program.outputs}
    for path, scope in places(program):
        if match(scope, path[0]) is not None:
            matched = True
        elif operations(scope) > INTENSITY * traffic(scope):
            return "an eOperator does more arithmetic than its memory traffic allows"
        elif _is_copy(scope) and path not in outputs:
            return "a copy is left that traversal merging removes"
    return None if matched else ""


def _is_copy(scope: Any) -> bool:
    return hasattr(scope.body, "subscripts")


def kernels_of(program: Program) -> tuple[Kernel, ...]:
    """A kernel for each statement of a flat program: the operator that it is, or an eOperator."""
    return tuple(match(scope, name) or Kernel(EOP, _sizes(scope), tuple(scope.tensors), name, scope=scope) for name, scope in program.statements)


def _sizes(scope: Any) -> dict[str, int]:
    return {it.index.name: it.extent for it in scope.iterators}
