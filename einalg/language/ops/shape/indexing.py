"""Operators that read elements elsewhere: permutations, slices, repetitions, diagonals,
triangles.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from einalg.errors import ShapeError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import (
    aligned,
    axis_number,
    axis_numbers,
    entries,
    integer,
    kept,
    replaced,
    without,
)
from einalg.language.ops.definition.operands import ArrayView, operand, spans, whole
from einalg.language.ops.definition.registry import operator


def _moved(
    found: ArrayView, sizes: dict[int, int], subscripts: Callable[[int, Index], Any]
) -> Scope:
    """`O[…, i, …] = x[…, subscripts(axis, i), …]` on the axes that have an entry in `sizes`, which
    says their new sizes.
    """
    at = kept(found.rank)
    shape = replaced(found.shape, sizes)
    return L[spans(at, shape)](found[replaced(at, {a: subscripts(a, at[a]) for a in sizes})])


@operator
def transpose(x: Any, axes: Any = None) -> Scope:
    """`x` with its axes in another order: axis `k` of the result is axis `axes[k]` of `x`; None
    reverses them.

    Raises `ShapeError` where `axes` does not name every axis of `x` once.

    >>> import einalg as ea
    >>> transpose(ea.tensor("x", (2, 3, 4)), (0, 2, 1))
    L[i:2, j:4, k:3](x[i, k, j])
    """
    found = operand(x, "x", dtype="any")
    order = (
        tuple(range(found.rank))[::-1] if axes is None else axis_numbers(axes, "axes", found.rank)
    )
    if len(order) != found.rank:
        raise ShapeError(
            f"axes is {axes!r}, but x has {found.rank} axes\n"
            f"  name every axis once, e.g. axes={tuple(range(found.rank))[::-1]}"
        )
    at = kept(found.rank)
    of_axis = dict(zip(order, at))
    return L[spans(at, (found.shape[a] for a in order))](
        found[tuple(of_axis[a] for a in range(found.rank))]
    )


@operator
def slice(x: Any, starts: Any, stops: Any, steps: Any = None, axes: Any = None) -> Scope:
    """`x[start:stop:step]` on `axes` (by default the first ones), as Python and NumPy read it:
    negative numbers and None included.

    `starts`, `stops` and `steps` are a number or None for one axis, or one entry for each axis.
    Raises `ShapeError` for a step of 0, an axis that `x` does not have, or entries that do not fit
    the axes.

    >>> import einalg as ea
    >>> slice(ea.tensor("x", (7, 3)), 1, -1, 2), slice(ea.tensor("x", (7,)), None, None, -1)
    (L[i:3, j:3](x[2*i + 1, j]), L[i:7](x[-i + 6]))
    """
    found = operand(x, "x", dtype="any")
    given = next((len(v) for v in (starts, stops, steps) if isinstance(v, (tuple, list))), 1)
    over = axis_numbers(tuple(range(given)) if axes is None else axes, "axes", found.rank)
    columns = (
        entries(value, name, len(over), "axes")
        for name, value in (("starts", starts), ("stops", stops), ("steps", steps))
    )
    reads = {a: _positions(found.shape[a], *row) for a, *row in zip(over, *columns)}
    return _moved(
        found,
        {a: len(r) for a, r in reads.items()},
        lambda a, i: reads[a].start + reads[a].step * i,
    )


def _positions(size: int, start: Any, stop: Any, step: Any) -> range:
    named = (("starts", start), ("stops", stop), ("steps", step))
    parts = [None if value is None else integer(value, name) for name, value in named]
    if parts[2] == 0:
        raise ShapeError(
            "steps is 0, with which no slice ends\n"
            "  give 1 or another step, negative to go backwards"
        )
    return range(*builtins.slice(*parts).indices(size))


@operator
def flip(x: Any, axes: Any = None) -> Scope:
    """`x` in reverse order along `axes` (a number, several, or None for all). Raises `ShapeError`
    for an axis that `x` does not have.

    >>> import einalg as ea
    >>> flip(ea.tensor("x", (2, 3)), 1)
    L[i:2, j:3](x[i, -j + 2])
    """
    found = operand(x, "x", dtype="any")
    over = axis_numbers(axes, "axes", found.rank)
    return _moved(found, {a: found.shape[a] for a in over}, lambda a, i: found.shape[a] - 1 - i)


@operator
def roll(x: Any, shifts: Any, axes: Any) -> Scope:
    """`x` moved towards higher subscripts by `shifts` (of either sign) along `axes`; what leaves at
    one end enters at the other.

    Raises `ShapeError` for an axis that `x` does not have, or shifts that do not fit the axes.

    >>> import einalg as ea
    >>> roll(ea.tensor("x", (5,)), 2, 0)
    L[i:5](x[(i + 3)%5])
    """
    found = operand(x, "x", dtype="any")
    over = axis_numbers(axes, "axes", found.rank)
    by = {
        a: integer(shift, "shifts")
        for a, shift in zip(over, entries(shifts, "shifts", len(over), "axes"))
    }
    return _moved(
        found, {a: found.shape[a] for a in over}, lambda a, i: _around(i - by[a], found.shape[a])
    )


def _around(form: Affine, size: int) -> Affine:
    """A position modulo the size of its axis; an empty axis is never read."""
    return form % size if size else affine(0)


@operator
def repeat(x: Any, repeats: int, axis: int) -> Scope:
    """Every element `repeats` times in a row along an axis, as `numpy.repeat` does.

    Raises `ShapeError` for an axis that `x` does not have, or negative repeats.

    >>> import einalg as ea
    >>> repeat(ea.tensor("x", (2, 3)), 2, 1)
    L[i:2, j:6](x[i, j//2])
    """
    found, times = operand(x, "x", dtype="any"), whole(repeats, "repeats", 0)
    position = axis_number(axis, "axis", found.rank)
    return _moved(
        found,
        {position: found.shape[position] * times},
        lambda _, i: affine(i) // times if times else affine(0),
    )


@operator
def tile(x: Any, repeats: Any) -> Scope:
    """`x` put side by side `repeats` times: a number for each axis, aligned at the end as in
    `numpy.tile`.

    Fewer repeats than axes leave the first axes as they are; more make new axes in front. Raises
    `ShapeError` for negative repeats.

    >>> import einalg as ea
    >>> tile(ea.tensor("x", (3,)), (2, 4))
    L[i:2, j:12](x[j%3])
    """
    found = operand(x, "x", dtype="any")
    given = tuple(repeats) if isinstance(repeats, (tuple, list)) else (repeats,)
    counts = tuple(whole(count, "repeats", 0) for count in given)
    counts = (1,) * (found.rank - len(counts)) + counts
    old = (1,) * (len(counts) - found.rank) + found.shape
    at = kept(len(counts))
    read = tuple(
        i if count == 1 else _around(affine(i), size) for i, count, size in zip(at, counts, old)
    )
    return L[spans(at, (size * count for size, count in zip(old, counts)))](
        found[read[len(counts) - found.rank :]]
    )


@operator
def broadcast_to(x: Any, shape: Any) -> Scope:
    """`x` with its axes of size 1 repeated to a shape, aligned at the end; -1 keeps a size of `x`,
    as in `torch.expand`.

    Raises `ShapeError` where `x` does not broadcast to the shape.

    >>> import einalg as ea
    >>> broadcast_to(ea.tensor("x", (3, 1)), (2, -1, 4))
    L[i:2, j:3, k:4](x[j, 0])
    """
    found = operand(x, "x", dtype="any")
    given = tuple(
        integer(size, "shape") for size in (shape if isinstance(shape, (tuple, list)) else (shape,))
    )
    front = len(given) - found.rank
    if front < 0 or min(given[:front], default=0) < 0:
        raise ShapeError(
            f"shape is {given}, but x has shape {found.shape}\n"
            "  give one size an axis, and sizes of 0 or more for new axes in front"
        )
    full = given[:front] + tuple(
        old if new == -1 else new for old, new in zip(found.shape, given[front:])
    )
    wrong = [
        p
        for p, (old, new) in enumerate(zip(found.shape, full[front:]))
        if old != new and (old != 1 or new < 0)
    ]
    if wrong:
        old, new = found.shape[wrong[0]], full[front + wrong[0]]
        raise ShapeError(
            f"axis {wrong[0]} of x has size {old}, which does not broadcast to {new}\n"
            "  only an axis of size 1 is repeated"
        )
    at = kept(len(full))
    return L[spans(at, full)](aligned(found, at, full))


@operator
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Scope:
    """The elements at which the subscript of `axis2` is that of `axis1` plus `offset`; they become
    the last axis, as in NumPy.

    Raises `ShapeError` for an axis that `x` does not have, or two axes that are one.

    >>> import einalg as ea
    >>> diagonal(ea.tensor("x", (3, 4, 5)), 1)
    L[i:5, j:3](x[j, j + 1, i])
    """
    found, shift = operand(x, "x", least=2, dtype="any"), integer(offset, "offset")
    pair = axis_number(axis1, "axis1", found.rank), axis_number(axis2, "axis2", found.rank)
    if pair[0] == pair[1]:
        raise ShapeError(f"axis1 and axis2 are both axis {pair[0]}\n  give two axes")
    first, second = max(0, -shift), max(0, shift)
    length = max(0, min(found.shape[pair[0]] - first, found.shape[pair[1]] - second))
    *rest, d = kept(found.rank - 1)
    remaining = iter(rest)
    reads = {pair[0]: d + first, pair[1]: d + second}
    subscripts = tuple(reads[a] if a in reads else next(remaining) for a in range(found.rank))
    return L[spans((*rest, d), (*without(found.shape, pair), length))](found[subscripts])


def _triangle(x: Any, inside: Callable[[Index, Index], Any]) -> Scope:
    found = operand(x, "x", least=2, dtype="any")
    at = kept(found.rank)
    return L[spans(at, found.shape)](found[at], where=inside(at[-2], at[-1]))


@operator
def tril(x: Any, k: int = 0) -> Scope:
    """The last two axes on and below the `k`-th diagonal; 0 elsewhere, where the scope has no value
    and other operators read 0.

    `x` is `(…, M, N)`. Raises `ShapeError` for fewer than two axes.

    >>> import einalg as ea
    >>> tril(ea.tensor("x", (3, 4)))
    L[i:3, j:4](x[i, j], where=i >= j)
    """
    shift = integer(k, "k")
    return _triangle(x, lambda i, j: i + shift >= j)


@operator
def triu(x: Any, k: int = 0) -> Scope:
    """The last two axes on and above the `k`-th diagonal; 0 elsewhere, where the scope has no value
    and other operators read 0.

    `x` is `(…, M, N)`. Raises `ShapeError` for fewer than two axes.

    >>> import einalg as ea
    >>> triu(ea.tensor("x", (3, 4)), 1)
    L[i:3, j:4](x[i, j], where=j >= i + 1)
    """
    shift = integer(k, "k")
    return _triangle(x, lambda i, j: j >= i + shift)
