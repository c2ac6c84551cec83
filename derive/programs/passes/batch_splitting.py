"""Batch splitting: a program of many independent samples as one of a single sample.

It runs as often as there are samples. What lies between the kernels of one sample stays in caches,
and the layers of one sample are searched and measured sooner than those of all. What is shared, the
weights, is read again for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from derive.cost.model import arithmetic
from derive.rewriting.body_queries import counts_with
from einalg.language.analysis.batching import Slices
from einalg.language.analysis.compile_time import is_weight
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, rebased, reductions

MIN_SLICE_OPERATIONS = 1 << 22  # with fewer a run of its own is not worth its call
MIN_OPERATIONS_PER_WEIGHT = 160  # with fewer it counts that each slice reads the weights again


def sliced(program: Program) -> tuple[Program, Slices] | None:
    """Return the same as `one_of`; None where samples are too small to run by themselves."""
    split = one_of(program)
    if split is None or not _is_worth_it(split[0]):
        return None
    return split


def one_of(program: Program) -> tuple[Program, Slices] | None:
    """Return a flat program of many samples as one of a single sample.

    None where samples are not independent.

    >>> import einalg as ea
    >>> W = ea.tensor("W", (32, 32, 3, 3), role="weight")
    >>> text = "T[n:4,f,h:64,w:64] += A[n,c,h+r,w+s]*W[f,c,r,s]\\nO[n,f,h,w] = Max(T[n,f,h,w], 0)"
    >>> one, slices = one_of(ea.parse(text, A=(4, 32, 66, 66), W=W))
    >>> slices.count, sorted(slices.names), one["O"].shape
    (4, ['A', 'O'], (1, 32, 64, 64))
    """
    if any(inner_scopes(scope) for _, scope in program.statements):
        return None
    count = _sample_count(program)
    axes = _axes(program, count) if count > 1 else None
    if axes is None:
        return None
    inputs = {name: tensor for name, tensor in program.tensors.items() if name in axes}
    if not inputs or any(axes[name] != 0 for name in inputs):
        return None
    if any(is_weight(tensor) or isinstance(tensor, Constant) for tensor in inputs.values()):
        return None
    return _of_first(program, axes), Slices(count, frozenset((*inputs, *program.outputs)))


def _sample_count(program: Program) -> int:
    """Return the extent of the first axis of all outputs; 1 where they differ, or not from 0."""
    ranges = set()
    for name in program.outputs:
        scope = program[name]
        ranges.add(scope.box[0] if scope.rank else (0, 1))
    (low, count), *others = ranges
    return 1 if others or low != 0 else count


def _is_worth_it(program: Program) -> bool:
    """Say whether a run is much more work than calling it, and than reading the weights."""
    weights = sum(prod(tensor.shape) for tensor in program.inputs.values() if is_weight(tensor))
    return arithmetic(program) >= max(MIN_SLICE_OPERATIONS, MIN_OPERATIONS_PER_WEIGHT * weights)


def _axes(program: Program, count: int) -> dict[str, int] | None:
    """Return the axis of every tensor along which the samples lie.

    None where a sample reads another one, or where its number counts.
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
            name = access.tensor.name
            places = _places(access, along.index)
            if not places:
                whole.add(name)
            elif not _walks(access, places, along) or axes.setdefault(name, places[0]) != places[0]:
                return None
    return None if whole & axes.keys() else axes


def _places(access: Access, index: Index) -> list[int]:
    """Return the axes of an access along which an index moves."""
    return [k for k, form in enumerate(access.subscripts) if index in form.indices]


def _walks(access: Access, places: list[int], along: LoopIndex) -> bool:
    """Say whether an index walks over all of one axis, one by one."""
    place, *others = places
    if others or access.subscripts[place] != affine(along.index):
        return False
    return access.tensor.box[place] == (along.low, along.high)


def _only_reads(scope: Scope, index: Index) -> bool:
    """Say whether an index stands in subscripts alone: in no condition, and not as a number."""
    if any(index in node.indices for node in reductions(scope.body)):
        return False
    return not counts_with(scope, index)


def _of_first(program: Program, axes: Mapping[str, int]) -> Program:
    """Return the program of the first sample."""
    known: dict[str, Tensor] = {}
    for name, tensor in program.tensors.items():
        if name in axes:
            known[name] = Tensor(name, _first(tensor.axes, axes[name]), tensor.dtype, tensor.role)
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


def _first(axes: Sequence[tuple[int, int]], place: int) -> list[tuple[int, int]]:
    """Return the axes of a tensor with one sample along one of them."""
    first = list(axes)
    first[place] = (0, 1)
    return first
