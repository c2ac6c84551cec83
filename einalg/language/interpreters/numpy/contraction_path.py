"""Sums of products as a sequence of matrix products: pairs chosen greedily, each through one
batched `matmul`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from einalg.language.interpreters.numpy.arithmetic import Arithmetic, Array


class PairContraction(NamedTuple):
    """Contract the operands at two positions; the result, with axes `kept`, goes to the end.
    `summed` is what disappears.
    """

    first: int
    second: int
    kept: frozenset[Any]
    summed: frozenset[Any]


def plan(
    operands: Sequence[frozenset[Any]], summed: frozenset[Any], extents: Mapping[Any, int]
) -> list[PairContraction]:
    """The order in which operands, given by their axes, are contracted in pairs: always the pair
    that frees the most memory.

    >>> plan([frozenset("ik"), frozenset("kj"), frozenset("j")], frozenset("kj"), {"i": 2, "j": 9, "k": 9})[0][:2]
    (0, 1)
    """
    left = list(operands)
    steps = []
    while len(left) > 1:
        step = min(
            _pairs(left, summed),
            key=lambda s: (
                _size(s.kept, extents)
                - _size(left[s.first], extents)
                - _size(left[s.second], extents)
            ),
        )
        steps.append(step)
        left = [axes for position, axes in enumerate(left) if position not in step[:2]] + [
            step.kept
        ]
    return steps


def _pairs(operands: Sequence[frozenset[Any]], summed: frozenset[Any]) -> Iterable[PairContraction]:
    for second in range(1, len(operands)):
        for first in range(second):
            others = frozenset().union(
                *(axes for position, axes in enumerate(operands) if position not in (first, second))
            )
            both = operands[first] | operands[second]
            gone = (both & summed) - others
            yield PairContraction(first, second, both - gone, gone)


def own_axes(operands: Sequence[frozenset[Any]], summed: Collection[Any]) -> list[frozenset[Any]]:
    """For each operand the summed axes that no other operand has."""
    count: dict[Hashable, int] = {}
    for axes in operands:
        for axis in axes:
            count[axis] = count.get(axis, 0) + 1
    return [frozenset(a for a in axes if a in summed and count[a] == 1) for axes in operands]


def largest_temporary(
    operands: Sequence[frozenset[Any]], summed: Collection[Any], extents: Mapping[Any, int]
) -> int:
    """Elements of the largest array that `contract` allocates."""
    left = [axes - own for axes, own in zip(operands, own_axes(operands, summed))]
    largest = max(
        (_size(axes, extents) for axes, whole in zip(left, operands) if axes != whole), default=0
    )
    for step in plan(left, frozenset(summed), extents):
        pair = left[step.first], left[step.second]
        copies = [_size(axes, extents) for axes in pair] if step.summed else []
        largest = max(largest, _size(step.kept, extents), *copies)
        left = [axes for position, axes in enumerate(left) if position not in step[:2]] + [
            step.kept
        ]
    return largest


def _size(axes: Iterable[Any], extents: Mapping[Any, int]) -> int:
    return prod(extents[a] for a in axes)


def contract(arrays: Sequence[Array], summed: Sequence[int], arithmetic: Arithmetic) -> Array:
    """The product of arrays that broadcast against each other, summed over axes, which keep extent
    1.

    A summed axis that has extent 1 in every array counts once.
    """
    left = list(arrays)
    extents = dict(enumerate(np.broadcast_shapes(*(a.shape for a in left))))
    for position, own in enumerate(own_axes([_axes(a) for a in left], summed)):
        if own:
            left[position] = _sum(left[position], own, arithmetic)
    for step in plan([_axes(a) for a in left], frozenset(summed), extents):
        pair = left[step.first], left[step.second]
        product = (
            _pair_product(*pair, step.summed, arithmetic)
            if step.summed
            else arithmetic.multiply(pair)
        )
        left = [a for position, a in enumerate(left) if position not in step[:2]] + [product]
    return left[0]


def _axes(array: Array) -> frozenset[int]:
    return frozenset(axis for axis, extent in enumerate(array.shape) if extent > 1)


def _sum(array: Array, axes: Collection[int], arithmetic: Arithmetic) -> Array:
    total = arithmetic.reduce("Sum", array, tuple(sorted(axes)), None)
    return np.reshape(
        total, tuple(1 if axis in axes else extent for axis, extent in enumerate(array.shape))
    )


def _pair_product(
    left: Array, right: Array, summed: frozenset[int], arithmetic: Arithmetic
) -> Array:
    if max(_axes(left) - _axes(right), default=-1) > max(_axes(right) - _axes(left), default=-1):
        left, right = right, left  # the result then has its last axis last, as it is stored
    larger = left if left.size >= right.size else right
    shared = _axes(left) & _axes(right)
    batch = _by_stride(shared - summed, larger)
    inner = _by_stride(summed, larger)
    rows, columns = _by_stride(_axes(left) - shared, left), _by_stride(_axes(right) - shared, right)
    product = arithmetic.matmul(
        _matrix(left, batch, rows, inner), _matrix(right, batch, inner, columns)
    )
    order = [*batch, *rows, *columns]
    extents = [max(left.shape[axis], right.shape[axis]) for axis in order]
    whole = product.reshape(extents).transpose(sorted(range(len(order)), key=lambda k: order[k]))
    return whole.reshape(
        tuple(
            1 if axis in summed else max(a, b)
            for axis, (a, b) in enumerate(zip(left.shape, right.shape))
        )
    )


def _by_stride(axes: Iterable[int], array: Array) -> list[int]:
    """The order in which the axes lie in memory, outermost first, so that merging them copies as
    little as it can.
    """
    return sorted(axes, key=lambda axis: (-abs(array.strides[axis]), axis))


def _matrix(
    array: Array, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Array:
    order = [*batch, *rows, *columns]
    shape = [prod(array.shape[axis] for axis in group) for group in (batch, rows, columns)]
    squeezed = array.transpose(order + [axis for axis in range(array.ndim) if axis not in order])
    matrix = squeezed.reshape(shape)
    return matrix if _suits_blas(matrix) else np.ascontiguousarray(matrix)


def _suits_blas(matrix: Array) -> bool:
    """One axis is contiguous and the other steps over it: NumPy multiplies anything else (windows
    that overlap) without BLAS.
    """
    _, rows, columns = matrix.shape
    _, down, across = (stride // matrix.itemsize for stride in matrix.strides)
    return (across == 1 and down >= columns) or (down == 1 and across >= rows)
