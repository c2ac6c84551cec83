"""How large the temporaries of an evaluation are, and into which blocks it is cut so that they fit
in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.interpreters.numpy.arrays import gathered_elements
from einalg.language.interpreters.numpy.contraction_path import largest_temporary
from einalg.language.interpreters.numpy.loops import Range, volume
from einalg.language.interpreters.numpy.terms import (
    addends,
    flattened,
    indices_of,
    product_of,
    where_indices,
)
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access

Ranges = Mapping[Index, Range]


def largest(body: Any, ranges: Ranges) -> int:
    """Elements of the largest array that evaluating `body` over `ranges` allocates."""
    if isinstance(body, Access):
        return gathered_elements(body, ranges)
    if isinstance(body, Reduce):
        return largest_of_reduction(flattened(body), ranges)
    if isinstance(body, IndexArithmetic):
        return volume(affine(body).indices, extents_of(ranges))
    if not body.args:
        return 1
    return max(
        volume(indices_of(body), extents_of(ranges)), *(largest(a, ranges) for a in body.args)
    )


def largest_of_reduction(reduction: Reduce, ranges: Ranges, dense: bool = False) -> int:
    """The same for a reduction; `dense` for a sum that is not to be taken as a contraction."""
    inner = {
        **ranges,
        **{it.index: (it.low, it.high) for it in reduction.iterators if it.index not in ranges},
    }
    extents = extents_of(inner)
    result = volume(indices_of(reduction), extents)
    condition = where_indices(reduction)
    if reduction.op == "Sum" and not dense:
        parts = (
            _largest_of_product(term, reduction, condition, inner)
            for term in addends(reduction.body, extents)
        )
        return max(result, volume(condition, extents), *parts)
    return max(result, _dense(reduction.body, condition, inner))


def _largest_of_product(
    term: Any, reduction: Reduce, condition: frozenset[Index], ranges: Ranges
) -> int:
    extents = extents_of(ranges)
    factors = product_of(term).factors
    if condition and len(factors) < 2:
        return _dense(term, condition, ranges)
    operands = [frozenset(i for i in indices_of(f) if extents[i] > 1) for f in factors] + [
        condition
    ] * bool(condition)
    whole = max((largest(f, ranges) for f in factors), default=1)
    return max(whole, largest_temporary(operands, set(reduction.indices), extents))


def _dense(body: Any, condition: frozenset[Index], ranges: Ranges) -> int:
    everywhere = (
        volume(indices_of(body) | condition, extents_of(ranges))
        if condition or not isinstance(body, Access)
        else 1
    )
    return max(everywhere, largest(body, ranges))


def extents_of(ranges: Ranges) -> dict[Index, int]:
    return {index: high - low for index, (low, high) in ranges.items()}


def fitting(
    ranges: Ranges, indices: Iterable[Index], limit: int, elements: Callable[[Ranges], int]
) -> dict[Index, int]:
    """Extents of blocks of `indices` for which `elements(ranges of the first block) <= limit`, as
    far as cutting them helps.

    Indices are cut in their order, by halves, each until it is 1 or cutting it helps no more.
    """
    block = dict(ranges)
    order = list(indices)
    needed = elements(block)
    while needed > limit:
        for index in order:
            low, high = block[index]
            trial = {**block, index: (low, low + (high - low + 1) // 2)}
            if high - low > 1 and (less := elements(trial)) < needed:
                block, needed = trial, less
                break
        else:
            break
    return {index: max(1, block[index][1] - block[index][0]) for index in order}
