"""Places in a program: a statement's name, then positions among inner scopes in order of first occurrence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from einalg.errors import RuleError
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.traversal import map_accesses, rebased

Path = tuple[Any, ...]


def paths(program: Program) -> Iterator[tuple[Path, Scope]]:
    """Every scope with its path, outer before inner."""
    for name, scope in program.statements:
        yield from _places((name,), scope)


def _places(path: Path, scope: Scope) -> Iterator[tuple[Path, Scope]]:
    yield path, scope
    for position, inner in enumerate(inner_scopes(scope)):
        yield from _places((*path, position), inner)


def scope_at(program: Program, path: Path) -> Scope:
    """The scope at a path; `RuleError` where there is none."""
    if not path or path[0] not in program.names:
        raise RuleError(
            f"there is no statement {path[0] if path else ''!r}\n  the statements are {', '.join(program.names)}"
        )
    scope = program[path[0]]
    for position in path[1:]:
        scope = child(scope, position)
    return scope


def child(scope: Scope, position: Any) -> Scope:
    """The inner scope at a position."""
    inner = inner_scopes(scope)
    if not isinstance(position, int) or not 0 <= position < len(inner):
        raise RuleError(f"there is no inner scope number {position}: there are {len(inner)}")
    return inner[position]


def replace_at(program: Program, path: Path, new: Scope) -> Program:
    """The program with the scope at a path replaced by one with the same box."""
    return program.replaced(path[0], _replaced(program[path[0]], path[1:], new))


def _replaced(scope: Scope, path: Path, new: Scope) -> Scope:
    if not path:
        return new
    old = child(scope, path[0])
    return replace_child(scope, old, _replaced(old, path[1:], new))


def replace_child(scope: Scope, old: Scope, new: Any) -> Scope:
    """Every read of the inner scope `old` reads `new` instead, under the same padding."""
    body = map_accesses(
        scope.body,
        lambda a: rebased(a, new) if isinstance(a.tensor, Scope) and a.tensor == old else a,
    )
    return Scope(scope.iterators, scope.where, body)
