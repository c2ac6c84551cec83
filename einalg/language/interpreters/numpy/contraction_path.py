"""Contraction paths: sums of products as pairs chosen greedily, each one batched `matmul`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from einalg.language.interpreters.numpy.arithmetic import Arithmetic, Array


class PairContraction(NamedTuple):
    """A step of a contraction: the operands at two positions become one, which goes to the end. It
    has the axes `remaining`; `summed` disappear.
    """

    first: int
    second: int
    remaining: frozenset[Any]
    summed: frozenset[Any]


Item = TypeVar("Item")


def plan(
    operands: Sequence[frozenset[Any]], summed: frozenset[Any], extents: Mapping[Any, int]
) -> list[PairContraction]:
    """Return the order in which operands, given by their axes, are contracted in pairs: always the
    pair that frees the most memory.

    >>> operands = [frozenset("ik"), frozenset("kj"), frozenset("j")]
    >>> plan(operands, frozenset("kj"), {"i": 2, "j": 9, "k": 9})[0][:2]
    (0, 1)
    """
    operands = list(operands)

    def growth(step: PairContraction) -> int:
        """Return by how many elements a step makes the operands larger."""
        first, second = operands[step.first], operands[step.second]
        return _size(step.remaining, extents) - _size(first, extents) - _size(second, extents)

    steps = []
    while len(operands) > 1:
        step = min(_pairs(operands, summed), key=growth)
        steps.append(step)
        operands = _after(step, operands, step.remaining)
    return steps


def _after(step: PairContraction, operands: Sequence[Item], result: Item) -> list[Item]:
    """Return the operands that are left after a step, and its result."""
    left = list(operands)
    for position in sorted(step[:2], reverse=True):
        del left[position]
    left.append(result)
    return left


def _pairs(operands: Sequence[frozenset[Any]], summed: frozenset[Any]) -> Iterable[PairContraction]:
    for second in range(1, len(operands)):
        for first in range(second):
            others = [*operands[:first], *operands[first + 1 : second], *operands[second + 1 :]]
            both = operands[first] | operands[second]
            gone = (both & summed).difference(*others)
            yield PairContraction(first, second, both - gone, gone)


def axes_of_one_operand(
    operands: Sequence[frozenset[Any]], summed: Collection[Any]
) -> list[frozenset[Any]]:
    """Return for each operand the summed axes that no other operand has.

    >>> list(map(sorted, axes_of_one_operand([frozenset("ik"), frozenset("kj")], "ik")))
    [['i'], []]
    """
    count = Counter(chain.from_iterable(operands))
    once = {axis for axis in summed if count[axis] == 1}
    return [axes & once for axes in operands]


def largest_temporary(
    operands: Sequence[frozenset[Any]], summed: Collection[Any], extents: Mapping[Any, int]
) -> int:
    """Return the number of elements of the largest array that `contract` allocates."""
    left: list[frozenset[Any]] = []
    largest = 0
    for axes, alone in zip(operands, axes_of_one_operand(operands, summed)):
        left.append(axes - alone)
        if alone:
            largest = max(largest, _size(axes - alone, extents))
    for step in plan(left, frozenset(summed), extents):
        sizes = [_size(step.remaining, extents)]
        if step.summed:
            sizes += _size(left[step.first], extents), _size(left[step.second], extents)
        largest = max(largest, *sizes)
        left = _after(step, left, step.remaining)
    return largest


def _size(axes: Iterable[Any], extents: Mapping[Any, int]) -> int:
    return prod(extents[axis] for axis in axes)


def contract(arrays: Sequence[Array], summed: Sequence[int], arithmetic: Arithmetic) -> Array:
    """Return the product of arrays that broadcast against each other, summed over axes, which keep
    extent 1.

    A summed axis that has extent 1 in every array counts once.
    """
    left = list(arrays)
    extents = dict(enumerate(common_shape(left)))
    for position, alone in enumerate(axes_of_one_operand(list(map(_axes, left)), summed)):
        if alone:
            left[position] = _sum(left[position], alone, arithmetic)
    for step in plan(list(map(_axes, left)), frozenset(summed), extents):
        pair = left[step.first], left[step.second]
        if step.summed:
            product = _pair_product(*pair, step.summed, arithmetic)
        else:
            product = arithmetic.multiply(pair)
        left = _after(step, left, product)
    return left[0]


def common_shape(arrays: Iterable[Array]) -> tuple[int, ...]:
    """Return the shape that arrays broadcast to, which may have more points than NumPy can count.

    >>> common_shape([np.ones((2, 1)), np.ones((1, 3)), np.ones(1)])
    (2, 3)
    """
    shape = []
    shapes = [array.shape[::-1] for array in arrays]
    for extents in zip_longest(*shapes, fillvalue=1):
        shape.append(next((extent for extent in extents if extent != 1), 1))
    return tuple(reversed(shape))


def _axes(array: Array) -> frozenset[int]:
    return frozenset(axis for axis, extent in enumerate(array.shape) if extent > 1)


def _sum(array: Array, axes: Collection[int], arithmetic: Arithmetic) -> Array:
    total = arithmetic.reduce("Sum", array, tuple(sorted(axes)), None)
    return np.reshape(total, _with_unit_axes(array.shape, axes))


def _with_unit_axes(shape: Iterable[int], axes: Collection[int]) -> list[int]:
    """Return a shape with extent 1 along some axes."""
    extents = list(shape)
    for axis in axes:
        extents[axis] = 1
    return extents


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
    extents = list(map(max, left.shape, right.shape))
    whole = product.reshape([extents[axis] for axis in order])
    whole = whole.transpose(sorted(range(len(order)), key=order.__getitem__))
    return whole.reshape(_with_unit_axes(extents, summed))


def _by_stride(axes: Iterable[int], array: Array) -> list[int]:
    """Return the order in which the axes lie in memory, outermost first, so that merging them
    copies as little as it can.
    """
    return sorted(axes, key=lambda axis: (-abs(array.strides[axis]), axis))


def _matrix(
    array: Array, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Array:
    """Return an array as a batch of matrices, whose other axes have extent 1."""
    order = [*batch, *rows, *columns]
    unit = [axis for axis in range(array.ndim) if axis not in order]
    shape = [_extent(array, batch), _extent(array, rows), _extent(array, columns)]
    matrix = array.transpose(order + unit).reshape(shape)
    if _suits_blas(matrix):
        return matrix
    return np.ascontiguousarray(matrix)


def _extent(array: Array, axes: Iterable[int]) -> int:
    """Return the extent of axes that are merged to one."""
    return prod(array.shape[axis] for axis in axes)


def _suits_blas(matrix: Array) -> bool:
    """Return whether one axis is contiguous and the other steps over it: NumPy multiplies anything
    else (windows that overlap) without BLAS.
    """
    _, rows, columns = matrix.shape
    _, down, across = (stride // matrix.itemsize for stride in matrix.strides)
    return (across == 1 and down >= columns) or (down == 1 and across >= rows)
