"""Layouts chosen together: what convolutions sum over comes last in memory, in all between them.

The transforms, the products and the direct form of a convolution walk over neighbouring channels
then. A single layer can choose that only beside copies, which the search tries
(`derive.search.starts.channels_last`). Every change is a move of a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from derive.programs.passes.normalise import fused, is_elementwise
from derive.programs.passes.subprogram import excerpt, returned
from derive.rewriting.moves import apply
from derive.rules import OF_MODELS
from derive.rules.inter.lifting_nesting import lifted
from derive.search.starts.channels_last import axis_indices, convolution_channels, reorder_move
from einalg.frontends.graph import unique_name
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.index.convert import affine
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses

Axis = tuple[str, int]  # of a statement's result


def channels_last(program: Program, chosen: Collection[str] | None = None) -> Program:
    """Return a shaped program with its channels last.

    Channels are the axes that convolutions sum over beside their windows, and those that they make.
    With `chosen`, only these statements have and read channels last; what statements of both kinds
    share is copied where they meet, once for each.

    >>> import einalg as ea
    >>> text = "T[c,h] = A[c,h]+1\\nO[f,h:6] += T[c,h+r]*K[f,c,r]\\nR[f,h] = Max(O[f,h], 0)"
    >>> program = ea.parse(text, A=(4, 8), K=(5, 4, 3))
    >>> print(channels_last(program))
    T[h1:8, c1:4] = A[c1, h1] + 1
    O[h1:6, f1:5] = Sum[c:4, r:3](K[f1, c, r]*T[h1 + r, c])
    R[f:5, h:6] = Max(0, O[h, f])
    >>> print(channels_last(program, ["O", "R"]))
    T[c:4, h:8] = A[c, h] + 1
    T_last[h1:8, c1:4] = T[c1, h1]
    O[h1:6, f1:5] = Sum[c:4, r:3](K[f1, c, r]*T_last[h1 + r, c])
    R[f:5, h:6] = Max(0, O[h, f])
    """
    moved = movable_orders(program)
    copies: frozenset[str] = frozenset()
    if chosen is not None:
        program, moved, copies = _with_copies(program, moved, chosen)
    if not moved:
        return program
    known = dict(program.statements)
    for name, order in moved.items():
        move = reorder_move(program[name], name, order)
        changed = apply(excerpt(known, [name]), move, OF_MODELS)
        known[name] = returned(changed[name], known)
    apart = lifted(Program(known.items(), program.outputs))
    names = {next(iter(apart[name].tensors)): name for name in moved}
    copying = {name for name in copies if name not in moved}
    copying |= {inner for inner, name in names.items() if name in copies}

    def is_view(name: str, scope: Scope) -> bool:
        return isinstance(scope.body, Access) and name not in copying

    return _renamed(fused(apart, is_view)[0], names)


def movable_orders(program: Program) -> dict[str, list[int]]:
    """Return the statements whose results change where channels come last, with their axes then."""
    moved: dict[str, list[int]] = {}
    for name, order in _orders(program).items():
        is_fixed = name in program.outputs and is_elementwise(program[name])
        if order != sorted(order) and not is_fixed:
            moved[name] = order
    return moved


def _with_copies(
    program: Program, moved: Mapping[str, list[int]], chosen: Collection[str]
) -> tuple[Program, dict[str, list[int]], frozenset[str]]:
    """Return a program with copies between chosen statements and others, and their names.

    The second value are those statements and copies that come to have channels last.
    """
    used_names = {*program.names, *program.tensors}
    statements: list[tuple[str, Scope]] = []
    orders: dict[str, list[int]] = {}
    copies: dict[str, Tensor] = {}  # by the statement that is copied
    names: set[str] = set()
    for name, scope in program.statements:
        is_last = name in chosen
        layout = "last" if is_last else "first"
        read: dict[str, Tensor] = {}
        for tensor in scope.tensors:
            if tensor not in moved or (tensor in chosen) == is_last:
                continue
            if tensor not in copies:
                label = unique_name(f"{tensor}_{layout}", used_names)
                used_names.add(label)
                names.add(label)
                statements.append((label, _copy(tensor, program[tensor])))
                copies[tensor] = statement_tensor(*statements[-1])
                if is_last:
                    orders[label] = moved[tensor]
            read[tensor] = copies[tensor]
        if is_last and name in moved:
            orders[name] = moved[name]
        statements.append((name, substitute_tensors(scope, read)))
    return Program(statements, program.outputs), orders, frozenset(names)


def _copy(name: str, scope: Scope) -> Scope:
    """Return a copy of a statement's result."""
    subscripts = tuple(affine(index) for index in scope.indices)
    return Scope(scope.iterators, scope.where, Access.of(statement_tensor(name, scope), subscripts))


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
