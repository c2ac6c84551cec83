"""Operators that are more than one statement: a statement together with those that only it needs
(design §7).
"""

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

MAX_STATEMENTS = 8  # of one operator


@dataclass(frozen=True)
class Group:
    """One operator that several statements compute together; the scope of its kernel has them all
    as inner scopes.
    """

    kernel: Kernel
    statements: tuple[str, ...]


def with_operator_names(
    kernels: Sequence[Kernel], among: Sequence[AnyTemplate] = PLAIN
) -> tuple[Kernel, ...]:
    """Return the kernels with the name of an operator for each eOperator that is one.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i,j] = A[j,i]", A=(3, 4))
    >>> print(*with_operator_names([Kernel("eop", {"i": 4, "j": 3}, ("A",), "O", scope=scope)]))
    O = transpose(A)  [i=4, j=3, axes=(1, 0)]
    """
    return tuple(_with_operator_name(kernel, among) for kernel in kernels)


def _with_operator_name(kernel: Kernel, among: Sequence[AnyTemplate]) -> Kernel:
    if kernel.op != EOP or kernel.scope is None:
        return kernel
    return match(kernel.scope, kernel.output, among) or kernel


def growing_groups(program: Program, name: str) -> Iterator[tuple[Scope, tuple[str, ...]]]:
    """Yield a statement with more and more of those that only it, and what is with it, reads; and
    which these are.
    """
    scope, members = program[name], [name]
    yield scope, (name,)
    order = list(program.names)
    for _ in range(MAX_STATEMENTS - 1):
        ready = [n for n in scope.tensors if n in order and _is_only_for(program, n, members)]
        if not ready:
            return
        last = max(ready, key=order.index)
        scope = substitute_tensors(scope, {last: program[last]})
        members.append(last)
        yield scope, tuple(sorted(members, key=order.index))


def _is_only_for(program: Program, name: str, members: Sequence[str]) -> bool:
    """Return whether only `members` read a statement."""
    if name in program.outputs:
        return False
    for reader, scope in program.statements:
        if name in scope.tensors and reader not in members:
            return False
    return True


def groups(program: Program, among: Sequence[AnyTemplate] = PLAIN) -> list[Group]:
    """Return the operators that several statements of a flat program compute together, the largest
    first for each last statement.

    >>> from einalg import ops, tensor
    >>> program = lifted(Program([("O", ops.softmax(tensor("x", (3, 5))))]))
    >>> [(group.kernel.op, len(group.statements)) for group in groups(program)]
    [('softmax', 3)]
    """
    from_the_end: list[Group] = []
    grouped: set[str] = set()
    for name, _ in reversed(program.statements):
        if name not in grouped:
            group = _largest_group(program, name, among)
            if group is not None:
                from_the_end.append(group)
                grouped.update(group.statements)
    return from_the_end[::-1]


def _largest_group(program: Program, name: str, among: Sequence[AnyTemplate]) -> Group | None:
    """Return the operator of most statements that ends with a statement; None where none has
    several.
    """
    _, *larger = growing_groups(program, name)
    for scope, members in reversed(larger):
        kernel = next(matches(scope, name, among), None)
        if kernel is not None:
            return Group(kernel, members)
    return None


def candidate_scopes(program: Program) -> list[Scope]:
    """Return the scopes that may be an operator: every statement and inner scope, alone and with
    what only it reads.
    """
    flat = lifted(program)
    return [scope for name in flat.names for scope, _ in growing_groups(flat, name)]
