"""Best-first search: variations leave an expression, repairs converge to an operator.

Design §8.
"""

from __future__ import annotations

import gc
import heapq
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from derive.contraction.ordering import contracted, has_nested_products
from derive.contraction.slicing import contracted_within
from derive.cost.model import CostModel, Roofline
from derive.matching import distance
from derive.rewriting.moves import Move, Rule
from derive.rewriting.paths import program_scopes
from derive.rules import ALL
from derive.rules.algebra import bilinear_factorisation, staging
from derive.rules.intra import axis_elimination, summation_splitting, variable_substitution
from derive.rules.partial import partial_substitution
from derive.search.candidates import CandidateCollection, EstimatedCandidate, Stats
from derive.search.cleanup import cleaned_up, fissioned, fully_inlined
from derive.search.expansion import (
    StateExpander,
    Successor,
    ideal_seconds,
    is_heavy,
    shape_class,
    total_operations,
)
from derive.search.repairs import is_long_product
from derive.search.search_tree import SearchNode
from derive.search.speculation import SpeculativeExpander
from derive.search.starts.channels_last import channels_last
from derive.search.starts.digits import digits_apart
from derive.search.starts.partly_equal import partly_equal
from derive.search.starts.separation import separated
from derive.search.weights import DEFAULT_WEIGHTS, SearchWeights, StateFeatures
from einalg.boundary import similar
from einalg.errors import EinalgError, MatchError, RuleError
from einalg.language.analysis.canonical import key
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.traversal import reductions
from einalg.language.ops.templates import TEMPLATES, Template
from einalg.options import Kind, shown
from einalg.runtime.clock import Clock, OutOfTime
from einalg.text.wording import counted, in_bytes

log = logging.getLogger("einalg")


CHANNELS_LAST_RULES = frozenset({staging.RULE.name, variable_substitution.RULE.name})
SEPARATION_RULES = frozenset({summation_splitting.RULE.name, axis_elimination.RULE.name})


@dataclass(frozen=True)
class Budget:
    """The limits of a search: moves deep, states expanded, seconds, candidates.

    `patience` is states without a candidate that promises more than all before it, once there is
    one; `bytes` bounds the memory that the explored states may take, estimated. `memory` is how
    many bytes the statements of a candidate may hold between each other, if that is bounded.
    """

    depth: int = 24
    states: int = 400
    seconds: float = 20.0
    candidates: int = 128
    patience: int = 100
    bytes: int = 1 << 30
    memory: int | None = None


@dataclass(order=True)
class _State:
    priority: float
    order: int
    program: Program = field(compare=False)
    moves: tuple[Move, ...] = field(compare=False)
    level: int = field(compare=False)


Progress = Callable[[Stats], None]
_Spelling = tuple[Program, tuple[Move, ...]]  # with the moves that lead to it


def search(
    expression: Any,
    budget: Budget | None = None,
    rules: Iterable[Rule | str] | None = None,
    model: CostModel | None = None,
    progress: Progress | None = None,
    ops: Sequence[str] | None = None,
    executor: Any = None,
    seed: int = 0,
    weights: SearchWeights = DEFAULT_WEIGHTS,
    clock: Clock | None = None,
) -> tuple[list[EstimatedCandidate], Stats, list[SearchNode]]:
    """Return the candidates, cheapest first by the model, the statistics, and every state kept.

    "Leave it as it is" is always among the candidates. `rules` replaces the rules that are searched
    (see `rules_by_name`), `ops` names the operators to look for (all by default); `executor`
    expands states elsewhere and gives what a search without it gives. The search draws nothing at
    random: `seed` changes nothing. The seconds of the budget are those of the `clock`, if there is
    one.
    """
    budget = budget or Budget()
    run = Search(
        as_program(expression),
        budget,
        StateExpander(rules_by_name(rules), templates_by_name(ops)),
        model or Roofline(),
        weights,
    )
    run.explore(clock or Clock.of(budget.seconds), progress, executor)
    return run.ordered(), run.stats, run.explored


def rules_by_name(rules: Iterable[Rule | str] | Rule | str | None) -> dict[str, Rule]:
    """Return rules, given as values or by name, as a table; all built-in ones for None.

    Raises `RuleError` for anything else.

    >>> list(rules_by_name(["staging", ALL["nesting"]]))
    ['staging', 'nesting']
    """
    if rules is None:
        return dict(ALL)
    table = {}
    for entry in _as_list(rules):
        rule = _rule(entry)
        table[rule.name] = rule
    return table


def _as_list(value: Any) -> list[Any]:
    """Return the elements of an iterable; a text or anything else as a single element."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    return [value]


def _rule(entry: Rule | str) -> Rule:
    if isinstance(entry, Rule):
        return entry
    if not isinstance(entry, str) or entry not in ALL:
        known = ", ".join(sorted(ALL))
        remedy = f"make one with einalg.rule, or name one of: {known}"
        meant = similar(entry, ALL) if isinstance(entry, str) else []
        if meant:
            remedy = f"write {meant[0]!r}, or name one of: {known}"
        raise RuleError(f"{shown(entry)} is no rule\n  {remedy}")
    return ALL[entry]


def templates_by_name(names: Sequence[str] | str | None) -> tuple[Template, ...]:
    """Return the templates of these operators, or of a single one; all of them for None.

    Raises `MatchError` for a name that no operator has.
    """
    if names is None:
        return tuple(TEMPLATES)
    wanted = _as_list(names)
    known = dict.fromkeys(template.name for template in TEMPLATES)
    for name in wanted:
        if not isinstance(name, str) or name not in known:
            meant = similar(name, known) if isinstance(name, str) else []
            remedy = f"write {meant[0]!r}" if meant else f"known: {', '.join(known)}"
            raise MatchError(f"there is no operator {shown(name)}\n  {remedy}")
    return tuple(template for template in TEMPLATES if template.name in wanted)


def _read_rules(value: Any) -> tuple[Rule, ...]:
    return tuple(rules_by_name(value).values())


def _read_operators(value: Any) -> tuple[str, ...]:
    templates = templates_by_name(value)
    return tuple(dict.fromkeys(template.name for template in templates))


RULE_LIST = Kind("rules or names of rules", _read_rules, "see einalg.rules", RuleError)
OPERATOR_NAMES = Kind("names of operators", _read_operators, "see einalg.ops", MatchError)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Spare the search, which makes many small objects, a third of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Search:
    """A best-first search from one program: a queue of states, and the log of those explored.

    Whenever it ends, what it has found is there: `stats`, the candidates that are `ordered` by
    their estimates, and the `explored` states.
    """

    def __init__(
        self,
        start: Program,
        budget: Budget,
        expand: StateExpander,
        model: CostModel,
        weights: SearchWeights = DEFAULT_WEIGHTS,
    ):
        self.start, self.budget, self.expand = start, budget, expand
        self.clock, self.weights = Clock.of(inf), weights
        self.progress: Progress | None = None
        self.stats = Stats()
        self.candidates = CandidateCollection(
            start, expand.templates, model, self.stats, budget.memory
        )
        self.explored: list[SearchNode] = []
        self.derivation_lengths: list[int] = []  # of the explored states
        self.seen: set[Any] = {key(start)}
        self.start_seconds = max(ideal_seconds(start), 1e-12)

    def restore(
        self, candidates: Sequence[EstimatedCandidate], explored: Sequence[SearchNode]
    ) -> None:
        """Take what the same search has found before as its outcome."""
        self.candidates.restore(candidates)
        self.explored.extend(explored)

    def ordered(self) -> list[EstimatedCandidate]:
        """Return the candidates, cheapest first by the model."""
        return sorted(self.candidates.collected, key=lambda candidate: candidate.estimate)

    def explore(self, clock: Clock, progress: Progress | None = None, executor: Any = None) -> None:
        """Explore states until a budget is spent; `progress` is called after each of them."""
        self.clock, self.progress = clock, progress
        self.candidates.begin(clock)
        with suppress(OutOfTime), self.clock.limiting(), _without_garbage_collection():
            self._explore(executor)
        if self.clock.is_over and not self.stats.stopped:
            self.stats.stopped = self._out_of_time()
        self.stats.stopped = self.stats.stopped or "every state within the depth was explored"
        self.stats.seconds = self.candidates.elapsed

    def _explore(self, executor: Any) -> None:
        self.keep_as_it_is()
        queue = self._start_states()
        with SpeculativeExpander(executor, self.expand) as expander:
            while queue and not self._is_exhausted():
                state = heapq.heappop(queue)
                self.stats.states += 1
                if not self._may_go_on():
                    break
                expander.look(queue)
                self._push_successors(queue, state, expander.successors(state))

    def _push_successors(
        self, queue: list[_State], state: _State, successors: Iterable[Successor]
    ) -> None:
        for program, steps, distance_left in successors:
            if self.clock.is_over:
                return  # a state may have so many that they alone take seconds
            self.stats.generated += 1
            successor = self._new_state(state, program, steps, distance_left)
            if successor is not None:
                heapq.heappush(queue, successor)

    def _may_go_on(self) -> bool:
        """Report the progress; the one who watches may end the search by `StopIteration`."""
        try:
            if self.progress:
                self.progress(self.stats)
        except StopIteration:
            self.stats.stopped = "by the one who watched"
        return not self.stats.stopped

    def keep_as_it_is(self) -> None:
        """Keep the expression as it is, whatever time there is; nothing where that was done."""
        if self.candidates.collected:
            return
        self.candidates.kernel_lists.clear()  # of an attempt that was interrupted
        with Clock.of(inf).limiting():
            self._keep(self.start, (), self._distance(self.start), None, as_it_is=True)

    def _start_states(self) -> list[_State]:
        """Return the states that the search starts from."""
        queue = list[_State]()
        for program, steps in self._start_programs():
            if key(program) not in self.seen:
                self.seen.add(key(program))
                self._keep(program, steps, self._distance(program), 0, is_start=True)
            elif queue:  # the first is searched from in any case
                continue
            priority = self.weights.level if queue else 0.0
            queue.append(_State(priority, len(self.explored) - 1, program, steps, 0))
        return queue

    def _start_programs(self) -> Iterator[_Spelling]:
        """Yield the spellings of the expression that the search starts from, with their moves.

        They are: cleaned up; inlined, should it have been taken apart before; of that every part of
        a body by itself; of that the long products in good orders of their contractions, by the
        digits of indices too; with channels last; and partly equal ones, corrected: these two where
        their rules may be used. Those of a kind whose moves are refused are left out.
        """
        rules = {**ALL, **self.expand.rules}
        limit = self.weights.max_relative_operations * total_operations(self.start)
        clean, cleaning = cleaned_up(self.start, rules)
        yield clean, tuple(cleaning)
        inlined, inlining = fully_inlined(
            self.start, rules, lambda program: total_operations(program) <= limit
        )
        yield inlined, tuple(inlining)
        for spellings in (
            self._fissioned(inlined, rules),
            self._ordered(inlined, rules),
            self._ordered_by_digits(inlined, rules),
        ):
            with suppress(EinalgError):  # a move may be refused
                for program, steps in spellings:
                    yield program, (*inlining, *steps)
        for spellings in (
            self._separated(clean, rules),
            self._channels_last(clean, rules),
            self._partly_equal(clean, rules),
        ):
            with suppress(EinalgError):
                for program, steps in spellings:
                    yield program, (*cleaning, *steps)

    def _fissioned(self, inlined: Program, rules: Mapping[str, Rule]) -> Iterator[_Spelling]:
        parts, fission = fissioned(inlined, rules)
        yield parts, tuple(fission)

    def _separated(self, clean: Program, rules: Mapping[str, Rule]) -> Iterator[_Spelling]:
        if self.expand.rules.keys() >= SEPARATION_RULES and not _has_long_products(clean):
            for by_digits in (False, True):
                separate, separation = separated(clean, rules, cleaned_up, by_digits)
                yield separate, tuple(separation)

    def _channels_last(self, clean: Program, rules: Mapping[str, Rule]) -> Iterator[_Spelling]:
        if self.expand.rules.keys() >= CHANNELS_LAST_RULES:
            moved, moving = channels_last(clean, rules)
            moved, cleaning = cleaned_up(moved, rules)
            yield moved, (*moving, *cleaning)

    def _partly_equal(self, clean: Program, rules: Mapping[str, Rule]) -> Iterator[_Spelling]:
        if partial_substitution.RULE.name in self.expand.rules:
            for mutant, steps in partly_equal(clean, rules, cleaned_up, ideal_seconds):
                yield mutant, tuple(steps)

    def _ordered_by_digits(
        self, inlined: Program, rules: Mapping[str, Rule]
    ) -> Iterator[_Spelling]:
        """Yield the program with its long products in good orders of the digits of their indices.

        There is none where no index is read by digits.
        """
        apart, splitting = digits_apart(inlined, self.expand.rules)
        if splitting:
            clean, cleaning = cleaned_up(apart, rules)
            for ordered, steps in self._ordered(clean, rules):
                yield ordered, (*splitting, *cleaning, *steps)

    def _ordered(self, inlined: Program, rules: Mapping[str, Rule]) -> Iterator[_Spelling]:
        """Yield the program with its long products in good orders, with the moves from it.

        Products that read each other are one long product: its orders take less arithmetic than
        that in which the program computes them, or are left.
        """
        if summation_splitting.RULE.name not in self.expand.rules:
            return
        yield from self._fissioned_in_good_orders(inlined, rules)
        merged, merging = _with_merged_products(inlined, rules)
        if not merging:
            return
        for ordered, steps in self._fissioned_in_good_orders(merged, rules):
            if total_operations(ordered) < total_operations(inlined):
                yield ordered, (*merging, *steps)

    def _fissioned_in_good_orders(
        self, program: Program, rules: Mapping[str, Rule]
    ) -> Iterator[_Spelling]:
        parts, fission = fissioned(program, rules)
        for ordered, steps in self._in_good_orders(parts):
            yield ordered, (*fission, *steps)

    def _in_good_orders(self, program: Program) -> Iterator[tuple[Program, list[Move]]]:
        if self.budget.memory is None:
            return contracted(program, self.expand.rules)
        return contracted_within(program, self.expand.rules, self.budget.memory, fissioned)

    def _distance(self, program: Program) -> float:
        return distance(program_scopes(program), self.expand.templates, is_heavy)

    def _new_state(
        self, parent: _State, program: Program, steps: tuple[Move, ...], distance_left: float
    ) -> _State | None:
        """Keep a new state and return it; None for one that is known, too deep or too much work."""
        derivation = (*parent.moves, *steps)
        if len(derivation) > self.budget.depth or not self._is_new(program):
            return None
        relative_work = ideal_seconds(program) / self.start_seconds
        if relative_work > self.weights.max_relative_work:
            times = f"{self.weights.max_relative_work} times the work"
            self.stats.rejected[f"more than {times} of the expression as it is"] += 1
            return None
        number = len(self.explored)
        self._keep(program, derivation, distance_left, parent.order)
        features = StateFeatures(
            distance_left,
            parent.level,
            len(set(map(shape_class, program_scopes(program)))),
            _factorisations(derivation),
            relative_work,
        )
        priority = self.weights.priority(features)
        return _State(priority, number, program, derivation, parent.level + 1)

    def _is_new(self, program: Program) -> bool:
        identity = key(program)
        if identity in self.seen:
            self.stats.duplicates += 1
            return False
        self.seen.add(identity)
        return True

    def _is_exhausted(self) -> bool:
        """Tell whether a budget is spent, and note the first that is."""
        self.stats.stopped = self.stats.stopped or self._spent_budget()
        return bool(self.stats.stopped)

    def _spent_budget(self) -> str:
        budget, stats = self.budget, self.stats
        if stats.states >= budget.states:
            return f"the limit of {counted(budget.states, 'state')} was reached"
        if self.clock.is_over:
            return self._out_of_time()
        if stats.candidates >= budget.candidates:
            return f"the limit of {counted(budget.candidates, 'candidate')} was reached"
        is_fruitless = stats.states - self.candidates.improved_at >= budget.patience
        if stats.candidates and is_fruitless:
            return f"no better candidate in {counted(budget.patience, 'state')}"
        if len(self.seen) * self.weights.bytes_per_state >= budget.bytes:
            return f"the limit of {in_bytes(budget.bytes)} for states was reached"
        return ""

    def _out_of_time(self) -> str:
        self.stats.is_cut = True
        if self.clock.course.is_stopped:
            return "interrupted"
        return f"its share of the {self.budget.seconds:g} s was over"

    def _keep(
        self,
        program: Program,
        derivation: tuple[Move, ...],
        distance_left: float,
        parent: int | None,
        as_it_is: bool = False,
        is_start: bool = False,
    ) -> None:
        """Log a state, as a candidate if it is one.

        A spelling to start from may be one that is far from all operators.
        """
        estimate = None
        if as_it_is or is_start or distance_left < self.weights.max_candidate_distance:
            estimate = self.candidates.collect(program, derivation, as_it_is)
        last_move = str(derivation[-1]) if derivation else ""
        inherited = self.derivation_lengths[parent] if parent is not None else 0
        node = SearchNode(
            len(self.explored),
            parent,
            last_move,
            distance_left,
            estimate is not None,
            estimate,
            derivation[inherited:],
        )
        self.explored.append(node)
        self.derivation_lengths.append(len(derivation))


def _has_long_products(program: Program) -> bool:
    """Tell whether sums have so many factors that only good orders of them are tried."""
    for scope in program_scopes(program):
        if any(map(is_long_product, reductions(scope.body))):
            return True
    return False


def _factorisations(derivation: Iterable[Move]) -> int:
    """Count the different factorisations of a derivation; one at several places counts once."""
    arguments = set()
    for move in derivation:
        if move.rule == bilinear_factorisation.RULE.name:
            arguments.add(move.arguments)
    return len(arguments)


def _with_merged_products(
    program: Program, rules: Mapping[str, Rule]
) -> tuple[Program, list[Move]]:
    """Return the program with sums of products of sums as one sum each, and the moves to it: of
    statements, of inner scopes, or of one body, whose sums become statements first.
    """
    splitting: list[Move] = []
    if not has_nested_products(program):
        program, splitting = fissioned(program, rules)
    if not has_nested_products(program):
        return program, []
    program, merging = fully_inlined(program, rules)
    return program, [*splitting, *merging]
