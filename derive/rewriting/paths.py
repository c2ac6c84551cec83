"""Paths in a program: a statement's name, then positions among inner scopes.

`("O", 1, 0)` is the first inner scope of the second one of statement O, in order of occurrence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from einalg.errors import RuleError
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import map_accesses, rebased

Path = tuple[Any, ...]


def paths(program: Program) -> Iterator[tuple[Path, Scope]]:
    """Yield every scope with its path, outer before inner."""
    for name, scope in program.statements:
        yield from _paths_below((name,), scope)


def _paths_below(path: Path, scope: Scope) -> Iterator[tuple[Path, Scope]]:
    yield path, scope
    for position, inner in enumerate(inner_scopes(scope)):
        yield from _paths_below((*path, position), inner)


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


def replace_child(scope: Scope, old: Scope, new: Any) -> Scope:
    """Return the scope in which every read of the inner scope `old` reads `new`, padded alike."""

    def change(access: Access) -> Any:
        if isinstance(access.tensor, Scope) and access.tensor == old:
            return rebased(access, new)
        return access

    return Scope(scope.iterators, scope.where, map_accesses(scope.body, change))
