"""Sums of sums in the order that costs least, where one of the two is a pooling.

A pooling adds neighbours and a pointwise convolution adds channels, so that either may come first.
Most networks that have both without anything between write the convolution first, which then
computes all positions for the pooling to add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from derive.cost.model import CostModel, Roofline, total
from derive.matching import kernels_of
from derive.programs.passes.normalise import nested
from derive.programs.passes.subprogram import excerpt, returned
from derive.rewriting.moves import Move, apply
from derive.rules import OF_MODELS
from derive.rules.inter.lifting_nesting import lifted
from derive.rules.intra import summation_splitting
from einalg.errors import EinalgError
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, substitute
from einalg.language.ir.program import (
    Program,
    in_order,
    statement_tensor,
    substitute_accesses,
)
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses

MIN_SAVED_SHARE = 0.2  # of the estimated time of both sums


def in_best_order(
    program: Program, rates: CostModel | None = None, is_late: Callable[[], bool] = lambda: False
) -> Program:
    """Return a flat program whose poolings come before products, or after, as costs less.

    `rates` estimate what kernels cost. None is looked at any more once it `is_late`.

    >>> import einalg as ea
    >>> text = "C[f,h] += K[f,c]*A[c,h]\\nO[f,h:225] = Sum[r:4](C[f,4*h+r])"
    >>> print(in_best_order(ea.parse(text, A=(256, 900), K=(256, 256))))
    C[c:256, h:225] = Sum[r:4](A[c, 4*h + r])
    O[f:256, h:225] = Sum[c:256](C[c, h]*K[f, c])
    """
    estimated = rates or Roofline()
    known, fixed = dict(program.statements), {*program.outputs, *compile_time_statements(program)}
    is_changed = False
    for reader in program.names:
        if is_late():
            break
        for name in _summed_statements(reader, known):
            if name in fixed or not _is_read_alone(name, known):
                continue
            pair = excerpt(known, [name, reader])
            better = _cheaper(pair, name, estimated)
            if better is not None:
                is_changed = True
                for output, scope in better.statements:
                    known[output] = returned(scope, known)
                break
    if not is_changed:
        return program
    return Program(in_order(known.items()), program.outputs)


def _summed_statements(reader: str, known: dict[str, Scope]) -> list[str]:
    """Return the sums that a sum reads, if one of the two is a pooling."""
    scope = known[reader]
    if not _is_sum(scope):
        return []
    names = [name for name in scope.tensors if name in known and _is_sum(known[name])]
    return [name for name in names if _is_pooling(scope) != _is_pooling(known[name])]


def _is_sum(scope: Scope) -> bool:
    return isinstance(scope.body, Reduce) and scope.body.op == "Sum" and not scope.where


def _is_pooling(scope: Scope) -> bool:
    """Say whether a sum adds elements of one tensor."""
    return isinstance(scope.body.body, Access)


def _is_read_alone(name: str, known: dict[str, Scope]) -> bool:
    """Say whether one statement reads a statement, and at one place."""
    reads = 0
    for scope in known.values():
        reads += sum(getattr(read.tensor, "name", "") == name for read in accesses(scope.body))
    return reads == 1


def _cheaper(pair: Program, name: str, rates: CostModel) -> Program | None:
    """Return two sums in the order that is estimated to cost least; None where they are in it."""
    best, limit = None, (1 - MIN_SAVED_SHARE) * total(rates, kernels_of(pair))
    for order in _orders(pair, name):
        seconds = total(rates, kernels_of(order), limit)
        if seconds < limit:
            best, limit = order, seconds
    return best


def _orders(pair: Program, name: str) -> Iterator[Program]:
    """Yield two sums in all orders, the first one called `name`."""
    (output,) = pair.outputs
    whole = nested(pair, name, output)
    if whole is None:
        return
    alone = Program([(output, whole)], [output])
    for arguments in summation_splitting.find(whole):
        move = Move(summation_splitting.RULE.name, (output,), arguments)
        try:
            split = lifted(apply(alone, move, OF_MODELS))
        except EinalgError:
            continue
        if len(split.statements) == 2 and _is_read_alone(split.names[0], dict(split.statements)):
            yield _arranged(split, name)


def _arranged(split: Program, name: str) -> Program:
    """Return two sums with the axes of the first one in the order of those that it reads.

    Summed axes of one element are gone.
    """
    (lifted_name, first), (output, second) = split.statements
    (read,) = [access for access in accesses(second.body) if access.tensor.name == lifted_name]
    values: dict[Index, Affine] = {}
    remaining: list[int] = []
    for axis, iterator in enumerate(first.iterators):
        if iterator.extent == 1 and read.subscripts[axis].as_index() in second.body.indices:
            values[iterator.index] = affine(iterator.low)
        else:
            remaining.append(axis)
    body = substitute(first.body, values)
    places = {axis: _place(first.indices[axis], body) for axis in remaining}
    remaining.sort(key=places.__getitem__)
    iterators = tuple(map(first.iterators.__getitem__, remaining))
    arranged = Scope(iterators, first.where, body)
    tensor = statement_tensor(name, arranged)

    def change(access: Access) -> Access:
        if access != read:
            return access
        subscripts = [access.subscripts[axis] for axis in remaining]
        return Access.of(tensor, tuple(subscripts))

    statements = [(name, arranged), (output, substitute_accesses(second, change))]
    return Program(statements, split.outputs)


def _place(index: Index, body: Any) -> int:
    """Return the axis at which an index stands in the read of most axes; 0 where in none."""
    read = max(accesses(body), key=lambda access: len(access.subscripts))
    for axis, subscript in enumerate(read.subscripts):
        if index in subscript.indices:
            return axis
    return 0
