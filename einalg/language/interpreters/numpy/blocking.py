"""Blocking: how large the temporaries of an evaluation are, and the blocks with which they fit in
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any

from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.interpreters.numpy.arrays import gathered_elements
from einalg.language.interpreters.numpy.contraction_path import largest_temporary
from einalg.language.interpreters.numpy.loops import Range, volume
from einalg.language.interpreters.numpy.terms import (
    addends,
    axes_of,
    flattened,
    indices_of,
    product_of,
    where_indices,
)
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access, padded_box
from einalg.language.ir.traversal import accesses, reductions

Ranges = Mapping[Index, Range]


def most_elements(body: Any, ranges: Ranges) -> int:
    """Return a number of elements that no array is larger than which evaluating `body` over
    `ranges` allocates: the points of all loops, at each of which a whole tensor may be gathered.
    """
    points, whole = _points(ranges.values()), 1
    for reduction in reductions(body):
        points *= _points((it.low, it.high) for it in reduction.iterators)
    for access in accesses(body):
        whole = max(whole, _points(padded_box(access.base)))
    return points * whole


def _points(box: Iterable[Range]) -> int:
    """Return the number of points of a box, whose empty ranges count as one."""
    return prod(max(1, high - low) for low, high in box)


def largest(body: Any, ranges: Ranges) -> int:
    """Return the elements of the largest array that evaluating `body` over `ranges` allocates."""
    if isinstance(body, Access):
        return gathered_elements(body, ranges)
    if isinstance(body, Reduce):
        return largest_of_reduction(flattened(body), ranges)
    if isinstance(body, IndexArithmetic):
        return volume(affine(body).indices, extents_of(ranges))
    if not body.args:
        return 1
    operands = [largest(operand, ranges) for operand in body.args]
    return max(volume(indices_of(body), extents_of(ranges)), *operands)


def largest_of_reduction(reduction: Reduce, ranges: Ranges, dense: bool = False) -> int:
    """Return the same for a reduction; `dense` for a sum that is not evaluated as a contraction."""
    inner = {it.index: (it.low, it.high) for it in reduction.iterators}
    inner.update(ranges)
    extents = extents_of(inner)
    sizes = [volume(indices_of(reduction), extents)]
    condition = where_indices(reduction)
    if reduction.op == "Sum" and not dense:
        sizes.append(volume(condition, extents))
        for term in addends(reduction.body, extents):
            sizes.append(_largest_of_product(term, reduction, condition, inner))
    else:
        sizes.append(_largest_dense(reduction.body, condition, inner))
    return max(sizes)


def _largest_of_product(
    term: Any, reduction: Reduce, condition: frozenset[Index], ranges: Ranges
) -> int:
    extents = extents_of(ranges)
    factors = product_of(term).factors
    if condition and len(factors) < 2:
        return _largest_dense(term, condition, ranges)
    operands = [axes_of(factor, extents) for factor in factors]
    if condition:
        operands.append(condition)
    factor_size = max((largest(factor, ranges) for factor in factors), default=1)
    return max(factor_size, largest_temporary(operands, set(reduction.indices), extents))


def _largest_dense(body: Any, condition: frozenset[Index], ranges: Ranges) -> int:
    """Return the same where the body is evaluated at every point."""
    size = largest(body, ranges)
    if condition or not isinstance(body, Access):
        size = max(size, volume(indices_of(body) | condition, extents_of(ranges)))
    return max(size, 1)


def extents_of(ranges: Ranges) -> dict[Index, int]:
    return {index: high - low for index, (low, high) in ranges.items()}


def fitting(
    ranges: Ranges,
    indices: Iterable[Index],
    limit: int,
    body: Any,
    elements: Callable[[Ranges], int],
) -> dict[Index, int]:
    """Return extents of blocks of `indices` for which `elements(ranges of the first block) <=
    limit`, as far as cutting them helps; `elements` is not asked where `body` is small.

    Indices are cut in their order, by halves, each until it is 1 or cutting it helps no more.
    """
    block = dict(ranges)
    order = list(indices)
    needed = most_elements(body, block)
    if needed > limit:
        needed = elements(block)
    while needed > limit:
        halved = _halved(block, order, needed, elements)
        if halved is None:
            break
        block, needed = halved
    extents = extents_of(block)
    return {index: max(1, extents[index]) for index in order}


def _halved(
    block: dict[Index, Range],
    order: Iterable[Index],
    needed: int,
    elements: Callable[[Ranges], int],
) -> tuple[dict[Index, Range], int] | None:
    """Return a block with the first index halved that makes it need fewer elements, and these."""
    for index in order:
        low, high = block[index]
        if high - low <= 1:
            continue
        trial = {**block, index: (low, low + (high - low + 1) // 2)}
        fewer = elements(trial)
        if fewer < needed:
            return trial, fewer
    return None
