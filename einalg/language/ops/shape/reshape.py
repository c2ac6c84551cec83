"""Changes of shape that keep the elements in row-major order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine, Index, IndexLike
from einalg.language.index.convert import affine
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import axis_number, axis_numbers, integer, kept
from einalg.language.ops.definition.operands import ArrayView, operand, spans
from einalg.language.ops.definition.registry import operator

Sizes = tuple[int, ...]


@operator
def reshape(x: Any, shape: Any) -> Scope:
    """The elements of `x` in row-major order under another shape; one size may be -1, which is
    inferred.

    Raises `ShapeError` where the sizes do not hold the elements of `x`.

    >>> import einalg as ea
    >>> reshape(ea.tensor("x", (6, 4)), (2, 3, -1)), reshape(ea.tensor("x", (2, 3)), (6,))
    (L[i:2, j:3, k:4](x[3*i + j, k]), L[i:6](x[i//3, i%3]))
    """
    found = operand(x, "x", dtype="any")
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return _reshaped(found, _inferred(tuple(integer(size, "shape") for size in given), found.shape))


def _inferred(given: Sizes, old: Sizes) -> Sizes:
    """The new shape with -1 replaced, checked to hold as many elements."""
    if min(given, default=0) < -1 or given.count(-1) > 1:
        raise ShapeError(
            f"shape is {given}; its sizes must be 0 or more, and one may be -1\n"
            f"  e.g. shape=({prod(old)},)"
        )
    count, known = prod(old), prod(size for size in given if size != -1)
    if -1 in given:
        if not known or count % known:
            raise ShapeError(
                f"shape is {given}, but {known} does not divide the {count} elements of x, of "
                f"shape {old}\n"
                f"  e.g. shape=({count},)"
            )
        return tuple(count // known if size == -1 else size for size in given)
    if known != count:
        raise ShapeError(
            f"shape is {given}, which holds {known} elements, but x, of shape {old}, has "
            f"{count}\n"
            f"  e.g. shape=({count},)"
        )
    return given


def _reshaped(found: ArrayView, shape: Sizes) -> Scope:
    at = kept(len(shape))
    return L[spans(at, shape)](found[row_major(found.shape, at, shape)])


def row_major(old: Sizes, at: Sequence[Index], new: Sizes) -> tuple[Affine, ...]:
    """Subscripts of an array of sizes `old` for the element that stands at `at` when its shape is
    `new`.

    >>> i, j = kept(2)
    >>> row_major((4, 3), (i, j), (2, 6))
    (2*i + j//3, j%3)
    """
    if not prod(old):
        return (affine(0),) * len(old)
    subscripts: list[Affine] = []
    for olds, news in _groups(old, new):
        named = [
            (at[q], new[q], stride)
            for q, stride in zip(news, _strides(new[news.start : news.stop]))
            if new[q] != 1
        ]
        sizes = old[olds.start : olds.stop]
        subscripts += _by_digits(list(zip(sizes, _strides(sizes))), named) or digits(
            sum((i * s for i, _, s in named), affine(0)), sizes
        )
    return tuple(subscripts)


def _strides(shape: Sizes) -> Sizes:
    return tuple(prod(shape[position + 1 :]) for position in range(len(shape)))


def _groups(old: Sizes, new: Sizes) -> list[tuple[range, range]]:
    """Runs of axes of both shapes that hold the same elements, as short as possible."""
    groups, p, q = [], 0, 0
    while p < len(old) or q < len(new):
        start = p, q
        left = right = 1
        p, left = (p + 1, old[p]) if p < len(old) else (p, 1)
        while left != right or p == start[0]:
            if q < len(new) and (right < left or p == len(old)):
                q, right = q + 1, right * new[q]
            elif p < len(old):
                p, left = p + 1, left * old[p]
            else:
                break
        groups.append((range(start[0], p), range(start[1], q)))
    return groups


def _by_digits(wanted: list[tuple[int, int]], named: list[tuple[Index, int, int]]) -> list[Affine]:
    """Subscripts of axes `(size, stride)` from indices `(index, size, stride)` of the same
    elements, without adding indices up.

    A number in mixed radix, of which every axis of both shapes holds neighbouring digits; none
    where there is no such radix.
    """
    weights = sorted(
        {s for _, s in wanted} | {s for _, _, s in named} | {prod(size for size, _ in wanted)},
        reverse=True,
    )
    if any(above % weight for above, weight in pairwise(weights)):
        return []
    found = {}
    for index, size, stride in named:
        for above, weight in pairwise(weights):
            if stride <= weight and above <= stride * size:
                quotient = affine(index) // (weight // stride)
                found[weight] = quotient if above == stride * size else quotient % (above // weight)
    return [
        sum(
            (digit * (w // stride) for w, digit in found.items() if stride <= w < stride * size),
            affine(0),
        )
        for size, stride in wanted
    ]


def digits(position: IndexLike, sizes: Sequence[int], bounded: bool = True) -> list[Affine]:
    """The subscripts of a row-major position in an array of these sizes; taken modulo their product
    unless it is `bounded` by it.

    >>> digits(Index("i"), (4, 1, 3)), digits(Index("i"), (4, 3), bounded=False)
    ([i//3, 0, i%3], [(i//3)%4, i%3])
    """
    found = []
    for size, stride in zip(sizes, _strides(tuple(sizes))):
        quotient = affine(position) // stride if stride else affine(0)
        leading = bounded and size * stride == prod(sizes)
        found.append(affine(0) if size <= 1 else quotient if leading else quotient % size)
    return found


@operator
def flatten(x: Any, start: int = 0, end: int = -1) -> Scope:
    """The axes from `start` to `end`, both included, as one; negative numbers count from the end. A
    scalar gives one axis.

    Raises `ShapeError` for axes that `x` does not have, or `end` before `start`.

    >>> import einalg as ea
    >>> flatten(ea.tensor("x", (2, 3, 4)), 1)
    L[i:2, j:12](x[i, j//4, j%4])
    """
    found = operand(x, "x", dtype="any")
    if not found.rank:
        return _reshaped(found, (1,))
    first, last = axis_number(start, "start", found.rank), axis_number(end, "end", found.rank)
    if last < first:
        raise ShapeError(
            f"end is axis {last}, which is before start, axis {first}\n  exchange the two"
        )
    return _reshaped(
        found, (*found.shape[:first], prod(found.shape[first : last + 1]), *found.shape[last + 1 :])
    )


@operator
def squeeze(x: Any, axes: Any = None) -> Scope:
    """`x` without axes of size 1: those of `axes` (a number or several), or all of them.

    Raises `ShapeError` for an axis that `x` does not have, or whose size is not 1.

    >>> import einalg as ea
    >>> squeeze(ea.tensor("x", (1, 3, 1)), 0)
    L[i:3, j:1](x[0, i, j])
    """
    found = operand(x, "x", dtype="any")
    units = tuple(a for a, size in enumerate(found.shape) if size == 1)
    gone = units if axes is None else axis_numbers(axes, "axes", found.rank)
    large = [a for a in gone if a not in units]
    if large:
        raise ShapeError(
            f"axis {large[0]} of x has size {found.shape[large[0]]}, not 1\n  leave it out of axes"
        )
    rest = [a for a in range(found.rank) if a not in gone]
    at = dict(zip(rest, kept(len(rest))))
    return L[spans(at.values(), (found.shape[a] for a in rest))](
        found[tuple(at.get(a, 0) for a in range(found.rank))]
    )


@operator
def unsqueeze(x: Any, axes: Any) -> Scope:
    """`x` with new axes of size 1 at `axes` (a number or several) of the result.

    Raises `ShapeError` for an axis that the result does not have.

    >>> import einalg as ea
    >>> unsqueeze(ea.tensor("x", (3,)), (0, -1))
    L[i:1, j:3, k:1](x[j])
    """
    found = operand(x, "x", dtype="any")
    count = len(axes) if isinstance(axes, (tuple, list)) else 1
    new = axis_numbers(() if axes is None else axes, "axes", found.rank + count)
    at = kept(found.rank + count)
    old = tuple(i for position, i in enumerate(at) if position not in new)
    sizes = dict(zip(old, found.shape))
    return L[spans(at, (sizes.get(i, 1) for i in at))](found[old])
