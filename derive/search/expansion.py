"""Expansion: the states that follow a state of the search, by repairs and variations.

Design §8.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from derive.cost.model import Roofline, operations, traffic
from derive.matching import Reason, distance, multiplies_by_constants, nearest_templates
from derive.rewriting.body_queries import has_reduction
from derive.rewriting.moves import Move, Rule, apply, moves
from derive.rewriting.paths import Path, paths, program_scopes, scope_at
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

MAX_EOPERATOR_INTENSITY = 4  # operations per byte moved
LIGHT_RATIO = 8  # a scope with so much less arithmetic than the heaviest one is left as it is
MAX_OPERATOR_DISTANCE = 0.75  # up to which an expression is an operator with a layout around it
UNKNOWN_BODY = Reason("no operator has such a body", 20.0, "body")
IDEAL_MACHINE = Roofline()

Successor = tuple[Program, tuple[Move, ...], float]


@dataclass(frozen=True)
class StateExpander:
    """The successors of a state: a pure function of its program, which another process may compute.

    A successor is a program, the moves that lead to it, and its distance to the operators.
    """

    rules: Mapping[str, Rule]
    templates: tuple[Template, ...]

    def __reduce__(self) -> Any:
        """Send what every process knows by its name or its number."""
        rules: list[Any] = []
        for name, rule in self.rules.items():
            rules.append(name if ALL.get(name) is rule else (name, rule))
        numbers = {id(template): number for number, template in enumerate(TEMPLATES)}
        templates: list[Any] = []
        for template in self.templates:
            templates.append(numbers.get(id(template), template))
        return _restored, (tuple(rules), tuple(templates))

    def __call__(self, program: Program) -> list[Successor]:
        successors: list[Successor] = []
        rules = {**ALL, **self.rules}
        applied: set[Move] = set()  # with the moves at isomorphic scopes, each of which is proposed
        for move in self.proposals(program):
            if move in applied:
                continue
            try:
                moved, steps = self._at_isomorphic_scopes(program, move, rules)
                cleaned, cleaning = cleaned_up(moved, rules)
            except EinalgError as error:
                log.debug("%s was proposed but does not apply: %s", move, error)
                continue
            applied.update(steps)
            left = distance(program_scopes(cleaned), self.templates, is_heavy)
            successors.append((cleaned, (*steps, *cleaning), left))
        return successors

    def proposals(self, program: Program) -> Iterator[Move]:
        """Yield every repair of every scope towards the operators it is near; also variations.

        There are variations of those scopes alone that are operators already.
        """
        seen: set[Move] = set()
        for move in self._proposals(program):
            if move.rule in self.rules and move not in seen and not _is_idle(program, move):
                seen.add(move)
                yield move

    def _proposals(self, program: Program) -> Iterator[Move]:
        heavy = _heavy_sums(program)
        for path, scope in heavy:
            # One scope after the other: what is repaired elsewhere does not depend on it.
            if self._is_far(scope):
                yield from self._at_scope(path, scope)
                return
        # At small sizes nothing is too heavy for an eOperator.
        light = not any(is_heavy(scope) for _, scope in heavy)
        for path, scope in heavy:
            yield from self._at_scope(path, scope, light)
        for path, scope in paths(program):
            if not multiplies_by_constants(scope):
                yield from variations.merging_moves(path, scope)
        yield from variations.program_variations(program, self.rules)
        users_rules = [rule for name, rule in self.rules.items() if name not in ALL]
        yield from moves(program, users_rules)

    def _at_scope(self, path: Path, scope: Scope, light: bool = False) -> Iterator[Move]:
        """Yield repairs of a scope; and its variations, unless it is far from all operators.

        A `light` one is repaired also where it is near no operator.
        """
        is_far = self._is_far(scope)
        near = self._reasons(scope)
        if not near and (is_far or light):
            near = [[UNKNOWN_BODY]]
        for reasons in near:
            yield from repairs.repairs(path, scope, reasons)
        if not is_far:
            yield from variations.scope_variations(path, scope, self.rules)

    def _is_far(self, scope: Scope) -> bool:
        near = self._reasons(scope)
        if not near:
            return is_heavy(scope)
        return _weight(near[0]) > MAX_OPERATOR_DISTANCE

    def _reasons(self, scope: Scope) -> list[list[Reason]]:
        """Return what separates a scope from each operator that it may become, nearest first."""
        return [reasons for _, reasons in nearest_templates(scope, self.templates)]

    def _at_isomorphic_scopes(
        self, program: Program, move: Move, rules: Mapping[str, Rule]
    ) -> tuple[Program, list[Move]]:
        """Apply a move, and the same move at all isomorphic scopes if all of them have it.

        What is best for one phase of a sum is best for all of them: that some are moved and some
        are not is no state of its own. Where scopes differ in an offset, arguments may too: the
        same move is then the one that is proposed for the other scope in its place.
        """
        moved = apply(program, move, rules)
        if rules[move.rule].level != "scope":
            return moved, [move]
        others = isomorphic_scopes(program, move.path)
        for translate in (_at_path, self._counterpart) if others else ():
            try:
                moves_there = [translate(program, move, path) for path in others]
                together = moved
                for other in moves_there:
                    together = apply(together, other, rules)
            except EinalgError as error:
                log.debug("%s does not apply at all isomorphic scopes: %s", move, error)
            else:
                return together, [move, *moves_there]
        return moved, [move]

    def _counterpart(self, program: Program, move: Move, path: Path) -> Move:
        """Return what is proposed for another scope in the place of a move.

        Raises `RuleError` where not as many moves of that kind are proposed there.
        """
        here = self._moves_of_kind(program, move, move.path)
        there = self._moves_of_kind(program, move, path)
        if move not in here or len(here) != len(there):
            raise RuleError(f"{move} has no counterpart at {path}")
        return there[here.index(move)]

    def _moves_of_kind(self, program: Program, move: Move, path: Path) -> list[Move]:
        proposed = self._at_scope(path, scope_at(program, path))
        return [other for other in proposed if _is_of_kind(other, move)]


def _weight(reasons: Iterable[Reason]) -> float:
    return sum(reason.weight for reason in reasons)


def _restored(rules: Iterable[Any], templates: Iterable[Any]) -> StateExpander:
    """Return the expander that `StateExpander.__reduce__` sent."""
    known: dict[str, Rule] = {}
    for entry in rules:
        name, rule = (entry, ALL[entry]) if isinstance(entry, str) else entry
        known[name] = rule
    restored = []
    for template in templates:
        restored.append(TEMPLATES[template] if isinstance(template, int) else template)
    return StateExpander(known, tuple(restored))


def _heavy_sums(program: Program) -> list[tuple[Path, Scope]]:
    """Return the scopes that reduce, without the light ones and those of factorisations."""
    sums = []
    heaviest = 0
    for path, scope in paths(program):
        if has_reduction(scope.body):
            sums.append((path, scope))
            heaviest = max(heaviest, operations(scope))
    heavy = []
    for path, scope in sums:
        if operations(scope) * LIGHT_RATIO >= heaviest and not multiplies_by_constants(scope):
            heavy.append((path, scope))
    return heavy


def _at_path(program: Program, move: Move, path: Path) -> Move:
    return Move(move.rule, path, move.args)


def _is_of_kind(one: Move, other: Move) -> bool:
    return one.rule == other.rule and one.args.keys() == other.args.keys()


def isomorphic_scopes(program: Program, path: Path) -> list[Path]:
    """Return the other scopes of the same shape class, none inside another.

    >>> import einalg as ea
    >>> lines = "T[i] += A[i,k]*B[k]", "U[i] += A[i,k]", "V[i] += A[k,i]*B[k]"
    >>> p = ea.parse("\\n".join([*lines, "O[i] = T[i] + U[i] + V[i]"]), A=(4, 4), B=(4,))
    >>> isomorphic_scopes(p, ("T",))
    [('V',)]
    """
    chosen: list[Path] = [path]
    wanted = shape_class(scope_at(program, path))
    if not wanted[1]:
        return []
    for other, scope in paths(program):
        nested = any(_is_inside(other, known) or _is_inside(known, other) for known in chosen)
        if not nested and shape_class(scope) == wanted:
            chosen.append(other)
    return chosen[1:]


def _is_inside(inner: Path, outer: Path) -> bool:
    return inner[: len(outer)] == outer


def shape_class(scope: Scope) -> tuple[Any, ...]:
    """Return what scopes share that a move may treat alike: points, summed extents, operands.

    `((4,), ((4,),), (((4,), "B"), ((4, 4), "A")))` is that of `T[i] += A[i,k]*B[k]`.
    """
    sums = []
    for node in reductions(scope.body):
        sums.append(tuple(it.extent for it in node.iterators))
    operands = []
    for access in accesses(scope.body):
        base = unpadded(access.base)
        operands.append((base.shape, getattr(base, "name", "")))
    return scope.shape, tuple(sums), tuple(sorted(operands))


def _is_idle(program: Program, move: Move) -> bool:
    """Tell whether a split sum has nothing but extents of 1 on one of its sides."""
    if "outer" not in move.args:
        return False
    node = list(reductions(scope_at(program, move.path).body))[move.args["reduction"]]
    outer = set(move.args["outer"])
    live = {it.index.name for it in node.iterators if it.extent != 1}
    if live <= outer:
        return True
    return bool(outer) and outer.isdisjoint(live)


def is_heavy(scope: Scope) -> bool:
    """Tell whether a scope does more arithmetic than its memory traffic allows an eOperator."""
    return operations(scope) > MAX_EOPERATOR_INTENSITY * traffic(scope)


def total_operations(program: Program) -> int:
    """Return the scalar operations of a program."""
    return sum(map(operations, program_scopes(program)))


def ideal_seconds(program: Program) -> float:
    """Return the seconds that a program takes at best.

    Sums are as fast as a library, the rest as fast as memory and a compiler allow.
    """
    return sum(map(_ideal_seconds, program_scopes(program)))


def _is_compile_time_constant(scope: Scope) -> bool:
    for tensor in scope.tensors.values():
        if not (is_weight(tensor) or isinstance(tensor, Constant)):
            return False
    return True


def _ideal_seconds(scope: Scope) -> float:
    if _is_compile_time_constant(scope):
        return 0.0
    rate = IDEAL_MACHINE.library if has_reduction(scope.body) else IDEAL_MACHINE.generated
    compute, move = operations(scope) / rate, traffic(scope) / IDEAL_MACHINE.bandwidth
    return IDEAL_MACHINE.call + max(compute, move)
