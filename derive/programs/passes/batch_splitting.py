"""A program of many independent samples as one of a single sample, which runs as often (design
§11).

What lies between the kernels of one sample stays in caches, and the layers of one sample are
searched and measured sooner than those of all. What is shared, the weights, is read again for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from derive.cost.model import arithmetic
from einalg.language.analysis.batching import Slices
from einalg.language.analysis.compile_time import is_weight
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, rebased, reductions

LEAST = 1 << 22  # operations of a slice, from which on a run of its own is worth its call
REUSED = 160  # operations for each element that is known ahead, with which reading it again hardly counts


def sliced(program: Program) -> tuple[Program, Slices] | None:
    """As `one_of`; None where samples are too small to run by themselves."""
    found = one_of(program)
    return found if found and _is_worth_it(found[0]) else None


def one_of(program: Program) -> tuple[Program, Slices] | None:
    """A flat program of many samples as one of a single sample; None where these are not
    independent.

    >>> import einalg as ea
    >>> W = ea.tensor("W", (32, 32, 3, 3), role="weight")
    >>> p = ea.parse("T[n:4,f,h:64,w:64] += A[n,c,h+r,w+s]*W[f,c,r,s]\\nO[n,f,h,w] = Max(T[n,f,h,w], 0)", A=(4, 32, 66, 66), W=W)
    >>> one, slices = one_of(p)
    >>> slices.count, sorted(slices.names), one["O"].shape
    (4, ['A', 'O'], (1, 32, 64, 64))
    """
    if any(inner_scopes(scope) for _, scope in program.statements):
        return None
    ranges = {program[name].box[0] if program[name].rank else (0, 1) for name in program.outputs}
    (low, count), *others = ranges
    axes = _axes(program, count) if not others and low == 0 and count > 1 else None
    given = {name: tensor for name, tensor in program.tensors.items() if axes and name in axes}
    if (
        not axes
        or not given
        or any(
            axes[name] != 0 or is_weight(tensor) or isinstance(tensor, Constant)
            for name, tensor in given.items()
        )
    ):
        return None
    return _of_first(program, axes), Slices(count, frozenset((*given, *program.outputs)))


def _is_worth_it(program: Program) -> bool:
    """Whether a run of the program is much more work than calling it, and than reading what it
    knows ahead.
    """
    weights = sum(prod(tensor.shape) for tensor in program.inputs.values() if is_weight(tensor))
    return arithmetic(program) >= max(LEAST, REUSED * weights)


def _axes(program: Program, count: int) -> dict[str, int] | None:
    """The axis of every tensor along which the samples lie; None where a sample reads another one,
    or where its number counts.
    """
    axes, whole = dict.fromkeys(program.outputs, 0), set[str]()
    for name, scope in reversed(program.statements):
        if name not in axes:
            whole |= scope.tensors.keys()
            continue
        along = scope.iterators[axes[name]]
        if (along.low, along.high) != (0, count) or not _only_reads(scope, along.index):
            return None
        for access in accesses(scope.body):
            places = [
                k
                for k, subscript in enumerate(access.subscripts)
                if along.index in subscript.indices
            ]
            if not places:
                whole.add(access.tensor.name)
            elif (
                not _walks(access, places, along)
                or axes.setdefault(access.tensor.name, places[0]) != places[0]
            ):
                return None
    return None if whole & axes.keys() else axes


def _walks(access: Access, places: list[int], along: LoopIndex) -> bool:
    """Whether an index walks over all of one axis, one by one."""
    (place, *others) = places
    return (
        not others
        and access.subscripts[place] == affine(along.index)
        and access.tensor.box[place] == (along.low, along.high)
    )


def _only_reads(scope: Scope, index: Index) -> bool:
    """Whether an index stands in subscripts alone: in no condition, and not as a number."""
    bound = any(index in node.indices for node in reductions(scope.body))
    left = map_accesses(
        scope.body, lambda access: Access.of(access.tensor, (affine(0),) * len(access.subscripts))
    )
    return (
        not bound
        and index not in left.free_symbols
        and not any(index in condition.indices for condition in scope.where)
    )


def _of_first(program: Program, axes: Mapping[str, int]) -> Program:
    """The program of the first sample."""
    known = {
        name: Tensor(name, _first(t.axes, axes[name]), t.dtype, t.role)
        for name, t in program.tensors.items()
        if name in axes
    }
    statements: list[tuple[str, Scope]] = []
    for name, scope in program.statements:
        iterators = list(scope.iterators)
        if name in axes:
            iterators[axes[name]] = LoopIndex(iterators[axes[name]].index, 0, 1)
        body = map_accesses(
            scope.body, lambda access: rebased(access, known.get(access.tensor.name, access.tensor))
        )
        statements.append((name, Scope(iterators, scope.where, body)))
        known[name] = statement_tensor(*statements[-1])
    return Program(statements, program.outputs)


def _first(axes: tuple[tuple[int, int], ...], place: int) -> list[tuple[int, int]]:
    return [(0, 1) if k == place else axis for k, axis in enumerate(axes)]
