"""Expansion: the states that follow a state of the search, by repairs and variations (design §8)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from derive.cost.model import Roofline, operations, traffic
from derive.matching import Reason, distance, ranked
from derive.rewriting.moves import Move, Rule, apply, moves
from derive.rewriting.paths import Path, paths, scope_at
from derive.rules import ALL
from derive.search import repairs, variations
from derive.search.cleanup import cleaned_up
from einalg.errors import EinalgError, RuleError
from einalg.language.analysis.compile_time import is_weight
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, unpadded
from einalg.language.ir.traversal import accesses, reductions
from einalg.language.ops.templates import TEMPLATES, Template

log = logging.getLogger("einalg")

INTENSITY = 4  # operations that an eOperator may do per byte that it moves
LIGHT = 8  # a scope with so much less arithmetic than the heaviest one is left as it is
ANOTHER_BODY = Reason("no operator has such a body", 20.0, "body")
CLEAN = 0.75  # distance up to which an expression counts as an operator with a layout around it
IDEAL = Roofline()

Successor = tuple[Program, tuple[Move, ...], float]


@dataclass(frozen=True)
class StateExpander:
    """The successors of a state: a pure function of its program, which another process may compute."""

    rules: Mapping[str, Rule]
    templates: tuple[Template, ...]

    def __reduce__(self) -> Any:
        """What is known everywhere travels by name and number."""
        rules = tuple(
            name if ALL.get(name) is rule else (name, rule) for name, rule in self.rules.items()
        )
        numbers = {id(template): number for number, template in enumerate(TEMPLATES)}
        return _arrived, (
            rules,
            tuple(numbers.get(id(template), template) for template in self.templates),
        )

    def __call__(self, program: Program) -> list[Successor]:
        found: list[Successor] = []
        known = {**ALL, **self.rules}
        together: set[Move] = set()  # the moves of what is alike, of which each is proposed
        for move in self.proposals(program):
            if move in together:
                continue
            try:
                moved, steps = self._at_all_alike(program, move, known)
                following, tidying = cleaned_up(moved, known)
            except EinalgError as error:
                log.debug("%s was proposed but does not apply: %s", move, error)
                continue
            together.update(steps)
            gap = distance((scope for _, scope in paths(following)), self.templates, is_heavy)
            found.append((following, (*steps, *tidying), gap))
        return found

    def proposals(self, program: Program) -> Iterator[Move]:
        """Every repair of every scope towards the operators it is near; variations of those that are operators already."""
        seen: set[Move] = set()
        for move in self._proposals(program):
            if move.rule in self.rules and move not in seen and not _idle(program, move):
                seen.add(move)
                yield move

    def _proposals(self, program: Program) -> Iterator[Move]:
        sums = [
            (path, scope)
            for path, scope in paths(program)
            if any(True for _ in reductions(scope.body))
        ]
        heaviest = max((operations(scope) for _, scope in sums), default=0)
        heavy = [
            (path, scope)
            for path, scope in sums
            if operations(scope) * LIGHT >= heaviest and not multiplies_by_constants(scope)
        ]
        for path, scope in heavy:
            # One scope after the other: what is repaired elsewhere does not depend on it.
            if self._is_far(scope):
                yield from self._of_scope(path, scope)
                return
        light = not any(
            is_heavy(scope) for _, scope in heavy
        )  # at such sizes nothing is too heavy for an eOperator
        for path, scope in heavy:
            yield from self._of_scope(path, scope, light)
        for path, scope in paths(program):
            if not multiplies_by_constants(scope):
                yield from variations.merging_moves(path, scope)
        yield from variations.program_variations(program, self.rules)
        own = [rule for name, rule in self.rules.items() if name not in ALL]
        yield from moves(program, own)

    def _of_scope(self, path: Path, scope: Scope, light: bool = False) -> Iterator[Move]:
        """Repairs of a scope, also where it is near no operator if it is `light`; and its variations, unless it is far from all operators."""
        is_far = self._is_far(scope)
        for listed in self._near(scope) or [[ANOTHER_BODY]] * (is_far or light):
            yield from repairs.repairs(path, scope, listed)
        if not is_far:
            yield from variations.scope_variations(path, scope, self.rules)

    def _is_far(self, scope: Scope) -> bool:
        near = self._near(scope)
        return _weight(near[0]) > CLEAN if near else is_heavy(scope)

    def _near(self, scope: Scope) -> list[list[Reason]]:
        """What separates a scope from each operator that it may become, the nearest first."""
        return [against for _, against in ranked(scope, self.templates)]

    def _at_all_alike(
        self, program: Program, move: Move, known: Mapping[str, Rule]
    ) -> tuple[Program, list[Move]]:
        """The program after a move, and after the same move at all scopes that are alike, as the phases of one sum are, if all have it.

        What is best for one is best for all of them: that some are moved and some are not is no state of its own. Where scopes differ in an
        offset, arguments may too: the same move is then the one that is proposed for the other scope in its place.
        """
        moved = apply(program, move, known)
        paths = isomorphic_scopes(program, move.path) if known[move.rule].level == "scope" else []
        same, counterpart = partial(_same, move), partial(self._counterpart, program, move)
        for other in (same, counterpart) if paths else ():
            try:
                together, others = moved, [other(path) for path in paths]
                for its in others:
                    together = apply(together, its, known)
            except EinalgError as error:
                log.debug("%s does not apply at all that is alike: %s", move, error)
            else:
                return together, [move, *others]
        return moved, [move]

    def _counterpart(self, program: Program, move: Move, path: Path) -> Move:
        """What is proposed for another scope in the place of a move. Raises `RuleError` where as many of that kind are not."""
        own, others = (
            [m for m in self._of_scope(at, scope_at(program, at)) if _is_of_kind(m, move)]
            for at in (move.path, path)
        )
        if move not in own or len(own) != len(others):
            raise RuleError(f"{move} has no counterpart at {path}")
        return others[own.index(move)]


def _same(move: Move, path: Path) -> Move:
    return Move(move.rule, path, move.args)


def _is_of_kind(one: Move, other: Move) -> bool:
    return one.rule == other.rule and one.args.keys() == other.args.keys()


def isomorphic_scopes(program: Program, path: Path) -> list[Path]:
    """The other scopes that sum as much of the same tensors over as many points, none inside another.

    >>> import einalg as ea
    >>> lines = "T[i] += A[i,k]*B[k]", "U[i] += A[i,k]", "V[i] += A[k,i]*B[k]", "O[i] = T[i] + U[i] + V[i]"
    >>> p = ea.parse("\\n".join(lines), A=(4, 4), B=(4,))
    >>> isomorphic_scopes(p, ("T",))
    [('V',)]
    """
    found: list[Path] = [path]
    wanted = shape_class(scope_at(program, path))
    for other, scope in paths(program) if wanted[1] else ():
        apart = not any(
            other[: len(known)] == known or known[: len(other)] == other for known in found
        )
        if apart and shape_class(scope) == wanted:
            found.append(other)
    return found[1:]


def shape_class(scope: Scope) -> tuple[Any, ...]:
    """What scopes have in common that a move may treat alike: how many points, how much is summed, and of what."""
    sums = tuple(tuple(it.extent for it in node.iterators) for node in reductions(scope.body))
    read = (unpadded(a.base) for a in accesses(scope.body))
    return (
        scope.shape,
        sums,
        tuple(sorted((base.shape, getattr(base, "name", "")) for base in read)),
    )


def _arrived(rules: Iterable[Any], templates: Iterable[Any]) -> StateExpander:
    known = dict((entry, ALL[entry]) if isinstance(entry, str) else entry for entry in rules)
    return StateExpander(known, tuple(TEMPLATES[t] if isinstance(t, int) else t for t in templates))


def _idle(program: Program, move: Move) -> bool:
    """Whether a sum is split where all that stays outside, or all that goes inside, is of extent 1."""
    if "outer" not in move.args:
        return False
    node = list(reductions(scope_at(program, move.path).body))[move.args["reduction"]]
    live = {it.index.name for it in node.iterators if it.extent != 1}
    outer = set(move.args["outer"])
    return live <= outer or (bool(outer) and not outer & live)


def multiplies_by_constants(scope: Scope) -> bool:
    """Whether a scope multiplies by constants: one that a factorisation has made."""
    return any(isinstance(unpadded(a.base), Constant) for a in accesses(scope.body))


def _weight(listed: Iterable[Reason]) -> float:
    return sum(r.weight for r in listed)


def is_heavy(scope: Scope) -> bool:
    return operations(scope) > INTENSITY * traffic(scope)


def total_operations(program: Program) -> int:
    """Scalar operations of a program."""
    return sum(operations(scope) for _, scope in paths(program))


def ideal_seconds(program: Program) -> float:
    """Seconds that a program takes at best: sums as fast as a library, the rest as fast as memory and a compiler allow."""
    return sum(_ideal(scope) for _, scope in paths(program))


def _ideal(scope: Scope) -> float:
    if all(is_weight(t) or isinstance(t, Constant) for t in scope.tensors.values()):
        return 0.0  # computed once, ahead
    rate = IDEAL.library if any(True for _ in reductions(scope.body)) else IDEAL.generated
    return IDEAL.call + max(operations(scope) / rate, traffic(scope) / IDEAL.bandwidth)
