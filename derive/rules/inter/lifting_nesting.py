"""Two spellings of one thing: an inner scope, and a statement with a name (design §2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import count
from typing import Any

from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import Path, paths, scope_at
from einalg.errors import RuleError
from einalg.language.ir.program import Program, as_stored, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import map_accesses, rebased


def find_liftable(program: Program) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Propose every inner scope that may be a statement."""
    for path, _ in paths(program):
        if len(path) > 1:
            yield path, {"name": fresh_statement(program)}


def lift(program: Program, path: Path, name: str) -> Program:
    """Make the inner scope at `path` a statement called `name`, which all its readers read."""
    target = scope_at(program, path)
    if len(path) == 1:
        raise RuleError(f"{path[0]} is a statement already")
    if name in program.names or name in program.tensors or not name.isidentifier():
        raise RuleError(f"{name!r} is not a free name for a statement")
    tensor = statement_tensor(name, target)
    statements: list[tuple[str, Scope]] = []
    is_added = False
    for reader, scope in program.statements:
        if not is_added and any(node == target for node in all_scopes(scope)):
            statements.append((name, target))
            is_added = True
        statements.append((reader, _with_reads(scope, target, tensor)))
    return Program(statements, program.outputs)


def lifted(program: Program, used: Collection[str] = ()) -> Program:
    """Return the program with every inner scope as a statement before its first reader.

    No new name is one that is `used` elsewhere.
    """
    if all(len(path) == 1 for path, _ in paths(program)):
        return program
    names = _free_names(program, used)
    known: dict[Scope, Any] = {}
    statements: list[tuple[str, Scope]] = []
    for name, scope in program.statements:
        for node in all_scopes(scope):
            new = _reading(node, known)
            if node is scope:
                statements.append((name, new))
            elif node not in known:
                statements.append((next(names), new))
                known[node] = statement_tensor(*statements[-1])
    return Program(statements, program.outputs)


def fresh_statement(program: Program) -> str:
    """Return the first of `T1`, `T2`, … that is free."""
    return next(_free_names(program))


def _free_names(program: Program, elsewhere: Collection[str] = ()) -> Iterator[str]:
    used = {*program.names, *program.tensors, *elsewhere}
    for number in count(1):
        name = f"T{number}"
        if name not in used:
            yield name


def _with_reads(scope: Scope, target: Scope, tensor: Any) -> Scope:
    """Return the scope in which every read of `target` reads a tensor; `target` as it is."""
    if scope == target:
        return scope
    replacements = {target: tensor}
    for node in all_scopes(scope):
        if node != target:
            new = _reading(node, replacements)
            if new is not node:
                replacements[node] = new
    return replacements.get(scope, scope)


def _reading(node: Scope, replacements: Mapping[Scope, Any]) -> Scope:
    """Return a scope that reads the replacements of its inner scopes; itself where it has none."""

    def change(access: Access) -> Any:
        if isinstance(access.tensor, Scope) and access.tensor in replacements:
            return rebased(access, replacements[access.tensor])
        return access

    body = map_accesses(node.body, change)
    if body is node.body:
        return node
    return Scope(node.iterators, node.where, body)


def find_inlinable(program: Program) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Propose every statement that another one reads."""
    for name, scope in program.statements:
        for producer in scope.tensors:
            if producer in program.names:
                yield (name,), {"producer": producer}


def nest(program: Program, path: Path, producer: str) -> Program:
    """Read a statement as an inner scope; it vanishes if nothing else needs it."""
    name = path[0]
    check_reads(program, name, producer)
    nested = substitute_tensors(program[name], {producer: as_stored(program[producer])})
    return without_unread(program.replaced(name, nested), producer)


def check_reads(program: Program, name: str, producer: str) -> None:
    """Raise `RuleError` unless one statement reads another one."""
    known = program.names
    if name not in known or producer not in known or producer not in program[name].tensors:
        raise RuleError(f"statement {name} does not read a statement {producer}")


def without_unread(program: Program, name: str) -> Program:
    """Return the program without a statement that nothing reads and that is no output."""
    if name in program.outputs or any(name in scope.tensors for _, scope in program.statements):
        return program
    rest = [statement for statement in program.statements if statement[0] != name]
    return Program(rest, program.outputs)


LIFTING = Rule(
    name="lifting",
    before="L[x] …{L[y] f}[e]…",
    after="T = L[y] f; L[x] …T[e]…",
    requires="",
    find=find_liftable,
    rewrite=lift,
    level="program",
    section="beyond EinNet",
    example=Example("O[i:8] = 2*(L[j:8](Max(A[j], 0)))[i]", {"A": 8}),
)
NESTING = Rule(
    name="nesting",
    before="T = L[y] f; L[x] …T[e]…",
    after="L[x] …{L[y] f}[e]…",
    requires="",
    find=find_inlinable,
    rewrite=nest,
    level="program",
    section="beyond EinNet",
    example=Example("T[i] = Max(A[i], 0)\nO[i] = 2*T[i]", {"A": 8}),
)
