"""Layouts chosen together: what convolutions sum over comes last in memory, in all that lies
between them (design §11).

The transforms, the products and the direct form of a convolution walk over neighbouring channels
then. A single layer can choose that only beside copies, which the search tries
(`derive.search.channels_last`). Every change is a move of a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from derive.programs.passes.normalise import fused, is_elementwise
from derive.programs.passes.subprogram import excerpt, returned
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.channels_last import axis_indices, convolution_channels, reorder_move
from einalg.language.analysis.compile_time import settled
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses

Axis = tuple[str, int]  # of a statement's result


def channels_last(program: Program) -> Program:
    """A shaped program with its channels last: the axes that convolutions sum over beside their
    windows, and those that they make.

    >>> import einalg as ea
    >>> p = ea.parse("T[c,h] = A[c,h]+1\\nO[f,h:6] += T[c,h+r]*K[f,c,r]\\nR[f,h] = Max(O[f,h], 0)", A=(4, 8), K=(5, 4, 3))
    >>> print(channels_last(p))
    T[h1:8, c1:4] = A[c1, h1] + 1
    O[h1:6, f1:5] = Sum[c:4, r:3](K[f1, c, r]*T[h1 + r, c])
    R[f:5, h:6] = Max(0, O[h, f])
    """
    fixed = {name for name in program.outputs if is_elementwise(program[name])}
    moved = {
        name: order
        for name, order in _orders(program).items()
        if order != sorted(order) and name not in fixed
    }
    if not moved:
        return program
    known = dict(program.statements)
    for name, order in moved.items():
        rows = excerpt(known, [name])
        known[name] = returned(apply(rows, reorder_move(program[name], name, order), ALL)[name], known)
    apart = lifted(Program(known.items(), program.outputs))
    names = {next(iter(apart[name].tensors)): name for name in moved}
    return _renamed(fused(apart, lambda _, scope: isinstance(scope.body, Access))[0], names)


def _renamed(program: Program, names: Mapping[str, str]) -> Program:
    """The program with other names for some statements, where these are free."""
    statements: list[tuple[str, Scope]] = []
    known: dict[str, Tensor] = {}
    for name, scope in program.statements:
        placed = substitute_tensors(
            scope, {read: known[read] for read in scope.tensors if read in known}
        )
        label = names.get(name, name)
        statements.append((name if label in program.names else label, placed))
        known[name] = statement_tensor(*statements[-1])
    return Program(statements, program.outputs)


def _orders(program: Program) -> dict[str, list[int]]:
    """The order of the axes of every statement whose channels are known."""
    known = settled(program)
    scopes = {name: scope for name, scope in program.statements if name not in known}
    beside: dict[Axis, set[Axis]] = {}
    for one, other in chain.from_iterable(_same(name, scope) for name, scope in scopes.items()):
        beside.setdefault(one, set()).add(other)
        beside.setdefault(other, set()).add(one)
    waiting = list(chain.from_iterable(_channels(name, scope) for name, scope in scopes.items()))
    found = set(waiting)
    while waiting:
        new = beside.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return {
        name: sorted(range(scope.rank), key=lambda k: (name, k) in found)
        for name, scope in scopes.items()
    }


def _same(name: str, scope: Scope) -> Iterator[tuple[Axis, Axis]]:
    """Axes of what a statement reads that are walked as axes of its result are."""
    own = {index: k for k, index in enumerate(scope.indices)}
    for access in accesses(scope.body):
        for k, index in enumerate(axis_indices(access)):
            if index is not None and index in own:
                yield (name, own[index]), (access.tensor.name, k)


def _channels(name: str, scope: Scope) -> Iterator[Axis]:
    """The channels of what a convolution reads by windows, and those of its result that only its
    weights have.
    """
    for found in convolution_channels(scope):
        yield from ((found.access.tensor.name, k) for k in found.summed)
        yield from ((name, k) for k in found.produced)
