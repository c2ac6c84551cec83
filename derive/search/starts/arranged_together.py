"""Sums of several statements on other axes at once: what moves between them moves nothing any more
(PET's groups, design §15).

Each sum over windows is computed on other axes, with room between the parts, so that it is equal.
The movement back of one and the movement of the next one are inverse. They are one map after the
other, of which simplification leaves nothing but the gaps between the parts, which are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from derive.rewriting.body_queries import has_reduction
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import Path, child, paths
from derive.rules.inter.lifting_nesting import LIFTING, NESTING, fresh_statement
from derive.rules.intra import traversal_merging
from derive.rules.partial.partial_substitution import RULE
from einalg.errors import EinalgError
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.traversal import reductions

Mutations = Sequence[Mapping[str, Any]]
Rules = Mapping[str, Rule]
Steps = tuple[Program, list[Move]]


def arranged_together(program: Program, at: Mapping[Path, Mutations], rules: Rules) -> Steps:
    """Return a program after partial substitutions at several sums, without movements between
    these, and the moves.

    What lies between two of the sums element by element is computed in the order of the second
    one. Raises `RuleError` where a sum has no such mutations.

    >>> import einalg as ea
    >>> from derive.rules import ALL
    >>> program = ea.parse(
    ...     "S[h:8] = Sum[r](A.pad(2)[h+2*r-2]*K[r])\\nT[h] = Max(S[h], 0)\\n"
    ...     "O[h:8] = Sum[r](T.pad(2)[h+2*r-2]*L[r])",
    ...     A=(8,), K=(3,), L=(3,),
    ... )
    >>> phases = {"kind": "interleave", "index": "h", "phases": 2, "pitch": 5}
    >>> after, moves = arranged_together(program, {("S",): [phases], ("O",): [phases]}, ALL)
    >>> [name for name, scope in after.statements if "%" in str(scope)]
    ['T2', 'T4', 'O']
    >>> print(after["T4"])
    L[d:9](Sum[()](Max(0, T1[d]), where=d//5 + 2*(d%5) <= 7))
    """
    steps: list[Move] = []
    for path, mutations in at.items():
        steps.append(Move(RULE.name, path, {"mutations": list(mutations)}))
        program = apply(program, steps[-1], rules)
    names = {path[0] for path in at}
    program, merging = _repeated(lambda now: _merging(now, names, rules), program, rules)
    program, lifting = with_sums_apart(program, rules)
    steps += [*merging, *lifting]
    for name in [move.args["name"] for move in lifting]:
        program, composing = _repeated(partial(_composition, name, rules), program, rules)
        steps += composing
    return program, steps


def with_sums_apart(program: Program, rules: Rules) -> Steps:
    """Return a program in which each sum, and what sums read, is a statement, and the moves; what
    no statement can hold stays.
    """
    return _repeated(lambda now: _lifting(now, rules), program, rules)


def _repeated(propose: Callable[[Program], Move | None], program: Program, rules: Rules) -> Steps:
    """Return a program after all moves that are proposed, one after the other, and these."""
    steps: list[Move] = []
    while (move := propose(program)) is not None:
        program = apply(program, move, rules)
        steps.append(move)
    return program, steps


def _sums(scope: Scope) -> bool:
    """Tell whether a scope sums, or reduces otherwise, more than itself."""
    return any(node.iterators for node in reductions(scope.body))


def _below(program: Program, names: Iterable[str]) -> Iterator[tuple[Path, Scope]]:
    """Yield the scopes of some statements, with their paths."""
    for path, scope in paths(program):
        if path[0] in names:
            yield path, scope


def _merging(program: Program, names: Iterable[str], rules: Rules) -> Move | None:
    """Return a merging of two movements, one of which reads the other; None where there is none."""
    for path, scope in _below(program, names):
        if _sums(scope):
            continue
        for position, inner in enumerate(inner_scopes(scope)):
            move = Move(traversal_merging.RULE.name, path, {"inner": position})
            if not _sums(inner) and _applies(program, move, rules):
                return move
    return None


def _lifting(program: Program, rules: Rules) -> Move | None:
    """Return a lifting of a sum, or of what a sum reads, to a statement; None where all are."""
    for path, scope in paths(program):
        if len(path) > 1 and (_sums(scope) or _sums(_parent(program, path))):
            move = Move(LIFTING.name, path, {"name": fresh_statement(program)})
            if _applies(program, move, rules):
                return move
    return None


def _parent(program: Program, path: Path) -> Scope:
    """Return the scope that reads the one at a path."""
    scope = program[path[0]]
    for position in path[1:-1]:
        scope = child(scope, position)
    return scope


def _composition(name: str, rules: Rules, program: Program) -> Move | None:
    """Return the next move that makes one map of a movement and of what it reads; None where it
    reads sums and inputs alone.
    """
    if _sums(program[name]):
        return None
    merging = _merging(program, [name], rules)
    if merging is not None:
        return merging
    for producer in sorted(program[name].tensors):
        if producer in program.names and not has_reduction(program[producer].body):
            return Move(NESTING.name, (name,), {"producer": producer})
    return None


def _applies(program: Program, move: Move, rules: Rules) -> bool:
    try:
        apply(program, move, rules)
    except EinalgError:
        return False
    return True
