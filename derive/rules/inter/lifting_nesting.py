"""Two spellings of one thing: an inner scope as a named statement, and a statement as an inner scope (design §2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from derive.rewriting.body_queries import reads
from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import Path, paths, scope_at
from einalg.errors import RuleError
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Padded
from einalg.language.ir.traversal import map_accesses, rebased


def find_liftable(program: Program) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path, scope in paths(program):
        if len(path) > 1 and _liftable(program, scope):
            yield path, {"name": fresh_statement(program)}


def lift(program: Program, path: Path, name: str) -> Program:
    """Make the inner scope at `path` a statement called `name`; every read of it, anywhere, reads the statement."""
    target = scope_at(program, path)
    if len(path) == 1:
        raise RuleError(f"{path[0]} is a statement already")
    if name in program.names or name in program.tensors or not name.isidentifier():
        raise RuleError(f"{name!r} is not a free name for a statement")
    if not _liftable(program, target):
        raise RuleError(
            "an inner scope with conditions that is read through padding with another fill than 0 cannot be a statement"
        )
    tensor = statement_tensor(name, target)
    first = next(
        k
        for k, (_, scope) in enumerate(program.statements)
        if any(node == target for node in all_scopes(scope))
    )
    rest = [(n, _with_reads(scope, target, tensor)) for n, scope in program.statements]
    return Program([*rest[:first], (name, target), *rest[first:]], program.outputs)


def lifted(program: Program) -> Program:
    """The program with every inner scope as a statement before its first reader."""
    inner = {scope for path, scope in paths(program) if len(path) > 1}
    if not inner:
        return program
    free = _fresh_names(program)
    liftable = {scope for scope in inner if _liftable(program, scope)}
    known: dict[Scope, Any] = {}
    statements: list[tuple[str, Scope]] = []
    for name, scope in program.statements:
        for node in all_scopes(scope):
            new = _reading(node, known)
            if node is scope:
                statements.append((name, new))
            elif node not in known:
                if node in liftable:
                    statements.append((next(free), new))
                    known[node] = statement_tensor(*statements[-1])
                else:
                    known[node] = new
    return Program(statements, program.outputs)


def fresh_statement(program: Program) -> str:
    """`T1`, `T2`, …: the first name that is free."""
    return next(_fresh_names(program))


def _fresh_names(program: Program) -> Iterator[str]:
    taken = {*program.names, *program.tensors}
    return (name for name in (f"T{k}" for k in count(1)) if name not in taken)


def _with_reads(scope: Scope, target: Scope, tensor: Any) -> Scope:
    """The scope in which every read of `target` reads a tensor."""
    known = {target: tensor}
    for node in all_scopes(scope):
        if node != target and (new := _reading(node, known)) is not node:
            known[node] = new
    return known.get(scope, scope)


def _reading(node: Scope, known: Mapping[Scope, Any]) -> Scope:
    """A scope that reads, for its inner scopes, what is known for them; the same object where nothing is."""
    body = map_accesses(
        node.body,
        lambda a: (
            rebased(a, known[a.tensor]) if isinstance(a.tensor, Scope) and a.tensor in known else a
        ),
    )
    return node if body is node.body else Scope(node.iterators, node.where, body)


def _liftable(program: Program, target: Scope) -> bool:
    if not target.where:
        return True
    every = (
        read
        for _, scope in program.statements
        for node in all_scopes(scope)
        for read in reads(node)
        if read.access.tensor == target
    )
    return all(not isinstance(r.access.base, Padded) or r.access.base.fill == 0 for r in every)


def find_inlinable(program: Program) -> Iterator[tuple[Path, dict[str, Any]]]:
    for name, scope in program.statements:
        for producer in scope.tensors:
            if producer in program.names:
                yield (name,), {"producer": producer}


def nest(program: Program, path: Path, producer: str) -> Program:
    """Read a statement as an inner scope; it vanishes if nothing else needs it."""
    name = path[0]
    if (
        name not in program.names
        or producer not in program.names
        or producer not in program[name].tensors
    ):
        raise RuleError(f"statement {name} does not read a statement {producer}")
    nested = program.replaced(
        name, substitute_tensors(program[name], {producer: program[producer]})
    )
    still = producer in nested.outputs or any(producer in s.tensors for _, s in nested.statements)
    return (
        nested
        if still
        else Program([(n, s) for n, s in nested.statements if n != producer], nested.outputs)
    )


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
