"""Which programs the rules lead to: the cheapest first, and worse ones as far as they may lead to
better ones (TASO's search with backtracking).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from derive.cost.model import Roofline, operations, traffic
from derive.matching import kernel_of
from derive.programs.forms.rewriting.concatenations import with_neighbours_apart
from derive.programs.forms.rewriting.match import Match
from derive.programs.forms.rewriting.matching import matches
from derive.programs.forms.rewriting.patterns import RulePattern, apart
from derive.programs.forms.rewriting.replacement import RuleReplacement, replaced
from derive.programs.passes.normalise import is_elementwise
from derive.programs.passes.subprogram import excerpt
from derive.rules import OF_MODELS
from derive.rules.inter.lifting_nesting import lifted
from derive.search.cleanup import fissioned
from einalg.language.analysis.canonical import key
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.ir.kernel import EOP
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

ALPHA = 1.05  # times the cheapest cost: rules are applied to programs that cost less
MAX_PROGRAMS = 100  # to which rules are applied
MAX_MATCHES = 32  # of a rule in a program
MAX_APART = 32  # pairs of neighbours in concatenations of more
MIN_SAVED_SHARE = 0.01  # of a program's time, for which another one is worth compiling
MAX_GROWTH = 2  # times the statements that there are at first


@dataclass(frozen=True)
class Step:
    """A rule that was applied, and the seconds that it is estimated to save; fewer than none where
    it makes others possible.
    """

    rule: str
    saved: float


@dataclass(frozen=True)
class Rewritten:
    """A program that rules lead to, the seconds that it is estimated to take, and the rules."""

    program: Program
    seconds: float
    steps: tuple[Step, ...] = ()

    @property
    def words(self) -> str:
        """The rules, how often each was applied, and what it is estimated to save.

        >>> Rewritten(None, 3.0, (Step("a", 1.0), Step("b", -2.0), Step("a", 2.0))).words
        'a twice (75% less, estimated), b once (50% more, estimated)'
        """
        before = self.seconds + sum(step.saved for step in self.steps)
        parts = []
        for rule in dict.fromkeys(step.rule for step in self.steps):
            saved = [step.saved for step in self.steps if step.rule == rule]
            share = sum(saved) / before
            change = "less" if share >= 0 else "more"
            parts.append(f"{rule} {_times(len(saved))} ({abs(share):.0%} {change}, estimated)")
        return ", ".join(parts)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def rewritings(
    program: Program,
    patterns: Iterable[RulePattern],
    rates: Roofline,
    alpha: float = ALPHA,
    programs: int = MAX_PROGRAMS,
    is_late: Callable[[], bool] = lambda: False,
) -> list[Rewritten]:
    """Return the programs that rules lead to and that are estimated to be faster, fastest first.

    Rules are applied to the cheapest program that is left, as long as it costs less than `alpha`
    times the cheapest of all. No more once it `is_late`, or after so many `programs`.

    >>> import einalg as ea
    >>> from derive.programs.forms.rewriting.patterns import patterns_of
    >>> sides = "O[i] = x[i]*z[i] + y[i]*z[i]", "O[i] = (x[i] + y[i])*z[i]"
    >>> rule = ea.substitutions.Rule("distributive", *sides, x=("N",), y=("N",), z=("N",))
    >>> text = "O[i] = A[i]*C[i] + B[i]*C[i]\\nR[i] += O[j]*D[i,j]"
    >>> program = ea.parse(text, A=(4,), B=(4,), C=(4,), D=(9, 4))
    >>> best = rewritings(program, patterns_of(rule), Roofline(generated=1e6))[0]
    >>> print(best.program, best.steps[0].rule)
    O[i:4] = C[i]*(A[i] + B[i])
    R[i:9] = Sum[j:4](D[i, j]*O[j]) distributive
    """
    return _Search(program, patterns, rates, alpha).results(programs, is_late)


@dataclass
class _Node:
    """A program of the search, the one before it, and where each rule fits in it."""

    rewritten: Rewritten
    before: _Node | None = None
    matches: dict[RulePattern, list[Match]] = field(default_factory=dict)

    def find_matches(self, pattern: RulePattern) -> list[Match]:
        """Return where a rule fits: where it did in the program before, and in what is new."""
        if self.before is None:
            found = islice(matches(pattern, self.rewritten.program), MAX_MATCHES)
            return self.matches.setdefault(pattern, list(found))
        old = dict(self.before.rewritten.program)
        program = self.rewritten.program
        changed = {name for name, scope in program if old.get(name) is not scope}
        removed = old.keys() - set(program.names)
        others = []
        for match in self.before.matches.get(pattern, ()):
            if {place.name for place in match.places.values()}.isdisjoint(changed | removed):
                others.append(match)
        found = islice(matches(pattern, program, changed), max(0, MAX_MATCHES - len(others)))
        return self.matches.setdefault(pattern, [*others, *found])

    @cached_property
    def apart(self) -> list[tuple[Program, str]]:
        """The program with two neighbours of a concatenation as one of their own, and its name."""
        return list(islice(with_neighbours_apart(self.rewritten.program), MAX_APART))

    def places(self, pattern: RulePattern) -> Iterator[tuple[Program, Match]]:
        """Yield where a rule fits in the program, and in a part of a concatenation."""
        for match in self.find_matches(pattern):
            yield self.rewritten.program, match
        for program, name in self.apart:
            for match in islice(matches(pattern, program, [name]), MAX_MATCHES):
                yield program, match


class _Search:
    """Programs by what they are estimated to cost, from one program on."""

    def __init__(
        self, program: Program, patterns: Iterable[RulePattern], rates: Roofline, alpha: float
    ):
        self.patterns, self.alpha = tuple(patterns), alpha
        self.costs = _Costs(rates)
        first = apart(program)
        self.first = _Node(Rewritten(first, self.costs.of(first)))
        self.best_seconds = self.first.rewritten.seconds
        self.most_statements = MAX_GROWTH * len(first.statements)
        self.seen = {key(first)}
        self.proofs: dict[tuple[str, str, str], bool] = {}
        self.queue: list[tuple[float, int, _Node]] = [(self.best_seconds, 0, self.first)]
        self.better: list[Rewritten] = []

    def results(self, programs: int, is_late: Callable[[], bool]) -> list[Rewritten]:
        """Return the faster programs."""
        fast = (1 - MIN_SAVED_SHARE) * self.first.rewritten.seconds
        for _ in range(programs):
            if not self.queue or is_late():
                break
            seconds, _, node = heappop(self.queue)
            if seconds >= self.alpha * self.best_seconds and node is not self.first:
                break
            for rewritten in self._next(node, is_late):
                new = _Node(rewritten, node)
                heappush(self.queue, (rewritten.seconds, len(self.seen), new))
                self.best_seconds = min(self.best_seconds, rewritten.seconds)
                if rewritten.seconds < fast:
                    self.better.append(rewritten)
        return sorted(self.better, key=lambda rewritten: rewritten.seconds)

    def _next(self, node: _Node, is_late: Callable[[], bool]) -> Iterator[Rewritten]:
        """Yield the programs to which one rule leads that cost little enough and are new.

        Of matches that differ in the order of axes alone the first is taken that leads anywhere.
        """
        last = node.rewritten
        for pattern in self.patterns:
            done: set[Any] = set()
            for program, match in node.places(pattern):
                if is_late():
                    return
                if match.tensors in done:
                    continue
                made = replaced(pattern, match, program)
                if made is None or len(made.program.statements) > self.most_statements:
                    continue
                seconds = self.costs.of(made.program)
                if seconds >= self.alpha * self.best_seconds:
                    continue
                identity = key(made.program)
                if identity in self.seen:
                    done.add(match.tensors)
                elif self._is_proved(pattern, made):
                    done.add(match.tensors)
                    self.seen.add(identity)
                    step = Step(pattern.name, last.seconds - seconds)
                    yield Rewritten(made.program, seconds, (*last.steps, step))

    def _is_proved(self, pattern: RulePattern, made: RuleReplacement) -> bool:
        """Prove a replacement, the same once."""
        identity = pattern.name, str(made.before), str(made.after)
        if identity not in self.proofs:
            self.proofs[identity] = made.is_proved()
        return self.proofs[identity]


class _Costs:
    """Estimated seconds of programs of a statement for each operator."""

    def __init__(self, rates: Roofline):
        self.rates = rates
        self.known: dict[Scope, float] = {}

    def of(self, program: Program) -> float:
        """Return the seconds of a call.

        What depends on weights alone is done once. A copy is read where it lies, and what is
        computed element by element is a part of what reads it so: only its operations count.
        """
        once = compile_time_statements(program)
        readers: dict[str, list[str]] = {name: [] for name in program.names}
        for name, scope in program.statements:
            for read in scope.tensors.keys() & readers.keys():
                readers[read].append(name)
        seconds = 0.0
        for name, scope in program.statements:
            if name in once:
                continue
            if name not in program.outputs and is_elementwise(scope):
                if isinstance(scope.body, Access):
                    continue
                if len(readers[name]) == 1 and is_elementwise(program[readers[name][0]]):
                    seconds += operations(scope) / self.rates.generated
                    continue
            seconds += self._alone(name, program)
        return seconds

    def _alone(self, name: str, program: Program) -> float:
        """Return the seconds of the kernels of a statement: a summed factor has its own."""
        scope = program[name]
        if scope not in self.known:
            known = dict(program.statements)
            parts = lifted(fissioned(excerpt(known, [name]), OF_MODELS)[0]).statements
            self.known[scope] = sum(self._kernel(*part) for part in parts)
        return self.known[scope]

    def _kernel(self, name: str, scope: Scope) -> float:
        is_library = not is_elementwise(scope) and kernel_of(name, scope).op != EOP
        return self.rates.time(operations(scope), traffic(scope), is_library)
