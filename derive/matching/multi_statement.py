"""Operators that are more than one statement: a statement together with those that only it needs (design §7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from derive.matching.arrays.match import matches
from derive.matching.match import match
from derive.rules.inter.lifting_nesting import lifted
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ops.templates import PLAIN, AnyTemplate

MOST = 8  # statements of one operator


@dataclass(frozen=True)
class Group:
    """One operator that several statements compute together; the scope of its kernel has them all as inner scopes."""

    kernel: Kernel
    statements: tuple[str, ...]


def named(kernels: Sequence[Kernel], among: Sequence[AnyTemplate] = PLAIN) -> tuple[Kernel, ...]:
    """The kernels with the name of an operator for each eOperator that is one.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i,j] = A[j,i]", A=(3, 4))
    >>> print(*named([Kernel("eop", {"i": 4, "j": 3}, ("A",), "O", scope=scope)]))
    O = transpose(A)  [i=4, j=3, axes=(1, 0)]
    """
    return tuple(_named(kernel, among) for kernel in kernels)


def _named(kernel: Kernel, among: Sequence[AnyTemplate]) -> Kernel:
    if kernel.op != EOP or kernel.scope is None:
        return kernel
    return match(kernel.scope, kernel.output, among) or kernel


def grown(program: Program, name: str) -> Iterator[tuple[Scope, tuple[str, ...]]]:
    """A statement with more and more of those that only it, and what is with it, reads; and which these are."""
    scope, members = program[name], [name]
    yield scope, (name,)
    order = list(program.names)
    for _ in range(MOST - 1):
        ready = [n for n in scope.tensors if n in program.names and _only_for(program, n, members)]
        if not ready:
            return
        last = max(ready, key=order.index)
        scope = substitute_tensors(scope, {last: program[last]})
        members.append(last)
        yield scope, tuple(sorted(members, key=order.index))


def _only_for(program: Program, name: str, members: Sequence[str]) -> bool:
    return name not in program.outputs and all(
        reader in members for reader, scope in program.statements if name in scope.tensors
    )


def groups(program: Program, among: Sequence[AnyTemplate] = PLAIN) -> list[Group]:
    """The operators that several statements of a flat program compute together, the largest first for each last statement.

    >>> from einalg import ops, tensor
    >>> [(group.kernel.op, len(group.statements)) for group in groups(lifted(Program([("O", ops.softmax(tensor("x", (3, 5))))])))]
    [('softmax', 3)]
    """
    found: list[Group] = []
    for name, _ in reversed(program.statements):
        if any(name in group.statements for group in found):
            continue
        for scope, members in reversed(list(grown(program, name))[1:]):
            kernel = next(matches(scope, name, among), None)
            if kernel is not None:
                found.append(Group(kernel, members))
                break
    return found[::-1]


def spellings(program: Program) -> list[Scope]:
    """The scopes that may be an operator: every statement and inner scope, alone and with what only it reads."""
    flat = lifted(program)
    return [scope for name in flat.names for scope, _ in grown(flat, name)]
