"""Layouts chosen together: what convolutions sum over comes last in memory, in all between them.

The transforms, the products and the direct form of a convolution walk over neighbouring channels
then. A single layer can choose that only beside copies, which the search tries
(`derive.search.starts.channels_last`). Every change is a move of a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.programs.passes.normalise import fused, is_elementwise
from derive.programs.passes.subprogram import excerpt, returned
from derive.rewriting.moves import apply
from derive.rules import OF_MODELS
from derive.rules.inter.lifting_nesting import lifted
from derive.search.starts.channels_last import axis_indices, convolution_channels, reorder_move
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses

Axis = tuple[str, int]  # of a statement's result


def channels_last(program: Program) -> Program:
    """Return a shaped program with its channels last.

    Channels are the axes that convolutions sum over beside their windows, and those that they make.

    >>> import einalg as ea
    >>> text = "T[c,h] = A[c,h]+1\\nO[f,h:6] += T[c,h+r]*K[f,c,r]\\nR[f,h] = Max(O[f,h], 0)"
    >>> print(channels_last(ea.parse(text, A=(4, 8), K=(5, 4, 3))))
    T[h1:8, c1:4] = A[c1, h1] + 1
    O[h1:6, f1:5] = Sum[c:4, r:3](K[f1, c, r]*T[h1 + r, c])
    R[f:5, h:6] = Max(0, O[h, f])
    """
    moved = {}
    for name, order in _orders(program).items():
        is_fixed = name in program.outputs and is_elementwise(program[name])
        if order != sorted(order) and not is_fixed:
            moved[name] = order
    if not moved:
        return program
    known = dict(program.statements)
    for name, order in moved.items():
        move = reorder_move(program[name], name, order)
        changed = apply(excerpt(known, [name]), move, OF_MODELS)
        known[name] = returned(changed[name], known)
    apart = lifted(Program(known.items(), program.outputs))
    names = {next(iter(apart[name].tensors)): name for name in moved}
    return _renamed(fused(apart, lambda _, scope: isinstance(scope.body, Access))[0], names)


def _renamed(program: Program, names: Mapping[str, str]) -> Program:
    """Return the program with other names for some statements, where these are free."""
    statements: list[tuple[str, Scope]] = []
    known: dict[str, Tensor] = {}
    for name, scope in program.statements:
        read = {tensor: known[tensor] for tensor in scope.tensors if tensor in known}
        label = names.get(name, name)
        if label in program.names:
            label = name
        statements.append((label, substitute_tensors(scope, read)))
        known[name] = statement_tensor(*statements[-1])
    return Program(statements, program.outputs)


def _orders(program: Program) -> dict[str, list[int]]:
    """Return the order of the axes of every statement whose channels are known."""
    constants = compile_time_statements(program)
    scopes = {name: scope for name, scope in program.statements if name not in constants}
    channels = _connected_channels(scopes)
    orders = {}
    for name, scope in scopes.items():
        others = [axis for axis in range(scope.rank) if (name, axis) not in channels]
        last = [axis for axis in range(scope.rank) if (name, axis) in channels]
        orders[name] = [*others, *last]
    return orders


def _connected_channels(scopes: Mapping[str, Scope]) -> set[Axis]:
    """Return the channels of convolutions, and all axes that are walked as these are."""
    neighbours: dict[Axis, set[Axis]] = {}
    waiting: list[Axis] = []
    for name, scope in scopes.items():
        for one, other in _same(name, scope):
            neighbours.setdefault(one, set()).add(other)
            neighbours.setdefault(other, set()).add(one)
        waiting += _channels(name, scope)
    channels = set(waiting)
    while waiting:
        new = neighbours.get(waiting.pop(), set()) - channels
        channels |= new
        waiting += new
    return channels


def _same(name: str, scope: Scope) -> Iterator[tuple[Axis, Axis]]:
    """Yield axes of what a statement reads that are walked as axes of its result are."""
    own = {index: k for k, index in enumerate(scope.indices)}
    for access in accesses(scope.body):
        for k, index in enumerate(axis_indices(access)):
            if index is not None and index in own:
                yield (name, own[index]), (access.tensor.name, k)


def _channels(name: str, scope: Scope) -> Iterator[Axis]:
    """Yield the channels of what a convolution reads by windows, and those of its result.

    The latter are those that only its weights have.
    """
    for convolution in convolution_channels(scope):
        for axis in convolution.summed:
            yield convolution.access.tensor.name, axis
        for axis in convolution.produced:
            yield name, axis
