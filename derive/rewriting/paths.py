"""Paths in a program: a statement's name, then positions among inner scopes.

`("O", 1, 0)` is the first inner scope of the second one of statement O, in order of occurrence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from einalg.errors import RuleError
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes, inner_scopes
from einalg.language.ir.tensor import Access, Padded, padded_box
from einalg.language.ir.traversal import map_accesses

Path = tuple[Any, ...]


def paths(program: Program) -> Iterator[tuple[Path, Scope]]:
    """Yield every scope with its path, outer before inner."""
    for name, scope in program.statements:
        yield from _paths_below((name,), scope)


def _paths_below(path: Path, scope: Scope) -> Iterator[tuple[Path, Scope]]:
    yield path, scope
    for position, inner in enumerate(inner_scopes(scope)):
        yield from _paths_below((*path, position), inner)


def place_count(program: Program) -> int:
    """Return the number of paths in a program, without a walk over them.

    >>> import einalg as ea
    >>> lines = "S[i] = a[i]+1", "T[i] = S[i]*S[i]", "O[i] = T[i]+S[i]"
    >>> place_count(ea.parse("\\n".join(lines), a=4))
    3
    """
    counts: dict[int, int] = {}  # by the identity of a scope: the paths to it and all below it
    for _, scope in program.statements:
        for inner in all_scopes(scope):
            below = [counts[id(one)] for one in inner_scopes(inner)]
            counts[id(inner)] = 1 + sum(below)
    return sum(counts[id(scope)] for _, scope in program.statements)


def program_scopes(program: Program) -> Iterator[Scope]:
    """Yield every scope of a program, outer before inner."""
    for _, scope in paths(program):
        yield scope


def scope_at(program: Program, path: Path) -> Scope:
    """Return the scope at a path; `RuleError` where there is none."""
    name = path[0] if path else ""
    if name not in program.names:
        known = ", ".join(program.names)
        raise RuleError(f"there is no statement {name!r}\n  the statements are {known}")
    scope = program[name]
    for position in path[1:]:
        scope = child(scope, position)
    return scope


def child(scope: Scope, position: Any) -> Scope:
    """Return the inner scope at a position."""
    inner = inner_scopes(scope)
    if not isinstance(position, int) or not 0 <= position < len(inner):
        raise RuleError(f"there is no inner scope number {position}: there are {len(inner)}")
    return inner[position]


def replace_at(program: Program, path: Path, new: Scope) -> Program:
    """Return the program with the scope at a path replaced by one with the same box."""
    return program.replaced(path[0], _replaced(program[path[0]], path[1:], new))


def _replaced(scope: Scope, path: Path, new: Scope) -> Scope:
    if not path:
        return new
    old = child(scope, path[0])
    return replace_child(scope, old, _replaced(old, path[1:], new))


def replace_child(scope: Scope, old: Scope, new: Scope) -> Scope:
    """Return the scope in which every read of the inner scope `old` reads `new`, through padding
    that holds each fill where it was, but where `new` has a point.
    """

    def change(access: Access) -> Any:
        if isinstance(access.tensor, Scope) and access.tensor == old:
            return Access.of(_padded_as_far(access.base, new), access.subscripts)
        return access

    return Scope(scope.iterators, scope.where, map_accesses(scope.body, change))


def _padded_as_far(view: Any, base: Scope) -> Any:
    """Return `base` under paddings that reach to where those of `view` do; without those that
    hold nothing.

    >>> import einalg as ea
    >>> A, i = ea.tensor("A", (5,)), ea.indices("i")
    >>> small, large = ea.L[i:1](A[i]), ea.L[i:3](A[i])
    >>> _padded_as_far(small.pad((2, 4), fill=3).pad(1, fill=5), large)
    (L[i:3](A[i])).pad(2, fill=3).pad(1, fill=5)
    """
    if not isinstance(view, Padded):
        return base
    inner = _padded_as_far(view.base, base)
    amounts = []
    for (low, high), (first, last) in zip(padded_box(inner), padded_box(view)):
        amounts.append((max(low - first, 0), max(last - high, 0)))
    has_gaps = inner is base and base.where
    if not has_gaps and not any(map(any, amounts)):
        return inner
    return Padded(inner, amounts, view.fill)
