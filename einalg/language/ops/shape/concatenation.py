"""Operators that put arrays together or take them apart: concatenation, stacking, splitting,
padding.

A joined array is a sum of its parts, each padded with 0 over the places of the others; of truth
values, where any part is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.size import (
    Extent,
    as_axis_extent,
    as_extent,
    is_number,
    largest,
    settled,
)
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import (
    axis_number,
    entries,
    integer,
    result_indices,
    with_entries,
)
from einalg.language.ops.definition.operands import (
    ArrayView,
    Pair,
    is_multiple,
    operand,
    spans,
    whole,
)
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.scalars import exact_number


def joined(parts: Sequence[ArrayView], axis: int, at: Sequence[Index]) -> Any:
    """Return the element at `at` of parts that follow one another along an axis."""
    total = sum(part.shape[axis] for part in parts)
    before, elements = 0, []
    for part in parts:
        size = part.shape[axis]
        around = with_entries(((0, 0),) * part.rank, {axis: (before, total - before - size)})
        elements.append(part.padded(around)[with_entries(at, {axis: at[axis] - before})])
        before += size
    if len(parts) > 1 and all(part.dtype == "bool" for part in parts):
        # A sum of truth values would be a number.
        present: list[Any] = [sympy.Ne(element, 0) for element in elements]
        return sympy.Or(*present)
    return sympy.Add(*elements)


def _operands(tensors: Any, least: int) -> list[ArrayView]:
    if not isinstance(tensors, (tuple, list)) or not tensors:
        raise ShapeError(
            "tensors must be a list of tensors or scopes, and not an empty one, not "
            f"{tensors!r}\n"
            "  e.g. [A, B]"
        )
    views = []
    for position, tensor in enumerate(tensors):
        views.append(operand(tensor, f"tensors[{position}]", least=least, dtype="any"))
    return views


def _check_shapes(parts: Sequence[ArrayView], except_axis: int | None) -> None:
    """Require equal shapes, one axis left out."""
    first = parts[0]
    for part in parts[1:]:
        if part.rank != first.rank:
            raise ShapeError(
                f"{part.name} has {part.rank} axes, but {first.name} has {first.rank}\n"
                "  give all of them equally many"
            )
        for a, (size, known) in enumerate(zip(part.shape, first.shape)):
            if size != known and a != except_axis:
                raise ShapeError(
                    f"axis {a} of {part.name} has size {size}, but that of {first.name} has "
                    f"size {known}\n"
                    "  make the two equal"
                )


@operator
def concat(tensors: Any, axis: int = 0) -> Scope:
    """Return tensors after one another along an axis; their other sizes are equal.

    Raises `ShapeError` for no tensors, sizes that differ, or an axis that they do not have.

    >>> import einalg as ea
    >>> concat([ea.tensor("A", (2, 3)), ea.tensor("B", (2, 1))], 1)
    L[i:2, j:4](A.pad(0, (0, 1))[i, j] + B.pad(0, (3, 0))[i, j - 3])
    """
    parts = _operands(tensors, 1)
    position = axis_number(axis, "axis", parts[0].rank)
    _check_shapes(parts, position)
    at = result_indices(parts[0].rank)
    total = sum(part.shape[position] for part in parts)
    shape = with_entries(parts[0].shape, {position: total})
    return L[spans(at, shape)](joined(parts, position, at))


@operator
def stack(tensors: Any, axis: int = 0) -> Scope:
    """Return tensors of one shape along a new axis, which is `axis` of the result.

    Raises `ShapeError` for no tensors, shapes that differ, or an axis that the result does not
    have.

    >>> import einalg as ea
    >>> stack([ea.tensor("A", (3,)), ea.tensor("B", (3,))])
    L[i:2, j:3]((L[i:1, j:3](A[j])).pad((0, 1), 0)[i, j] + (L[i:1, j:3](B[j])).pad((1, 0), 0)[i - 1,
    j])
    """
    parts = _operands(tensors, 0)
    _check_shapes(parts, None)
    position = axis_number(axis, "axis", parts[0].rank + 1)
    at = result_indices(parts[0].rank + 1)
    old = at[:position] + at[position + 1 :]
    shape = (*parts[0].shape[:position], 1, *parts[0].shape[position:])
    layers = [operand(L[spans(at, shape)](part[old]), part.name, dtype="any") for part in parts]
    return L[spans(at, with_entries(shape, {position: len(parts)}))](joined(layers, position, at))


@operator
def split(x: Any, parts: Any, axis: int = 0) -> tuple[Scope, ...]:
    """Return pieces of `x` along an axis: `parts` is their number, if they are to be equal, or
    their sizes.

    Raises `ShapeError` for an axis that `x` does not have, a number that does not divide its size,
    or sizes that do not add up to it.

    >>> import einalg as ea
    >>> split(ea.tensor("x", (5,)), (3, 2))
    (L[i:3](x[i]), L[i:2](x[i + 3]))
    """
    view = operand(x, "x", least=1, dtype="any")
    position = axis_number(axis, "axis", view.rank)
    sizes = _pieces(parts, view.shape[position], position)
    at = result_indices(view.rank)
    start, pieces = 0, []
    for size in sizes:
        shape = with_entries(view.shape, {position: size})
        pieces.append(L[spans(at, shape)](view[with_entries(at, {position: at[position] + start})]))
        start += size
    return tuple(pieces)


def _pieces(parts: Any, size: Extent, axis: int) -> tuple[Extent, ...]:
    if isinstance(parts, (tuple, list)):
        sizes = tuple(_piece(part) for part in parts)
        if sum(sizes) != size or not sizes:
            raise ShapeError(
                f"parts is {parts!r}, which adds up to {sum(sizes)}, but axis {axis} of x has "
                f"size {size}\n"
                f"  e.g. parts=({size},)"
            )
        return sizes
    count = whole(parts, "parts", 1)
    if not is_multiple(size, count):
        raise ShapeError(
            f"parts is {count}, which does not divide size {size} of axis {axis} of x\n"
            f"  give the sizes instead, e.g. parts=({size},)"
        )
    return (settled(size // count),) * count


def _piece(part: Any) -> Extent:
    extent = as_axis_extent(part)
    if extent is None or is_number(extent):
        return whole(part, "parts", 0)
    return extent


PADDING_MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "edge": "edge",
    "replicate": "edge",
    "circular": "circular",
    "wrap": "circular",
}


@operator
def pad(x: Any, amounts: Any, mode: str = "constant", value: Any = 0) -> Scope:
    """Return `x` with elements added around it: `amounts` has for each axis a number (both sides)
    or `(before, after)`.

    `mode` is `"constant"` (`value`, any number; a negative amount takes elements away), `"reflect"`
    (mirrored, the edge not repeated), `"symmetric"` (mirrored, the edge repeated), `"edge"` or
    `"replicate"`, `"circular"` or `"wrap"`. Raises `ShapeError` for another word, amounts that do
    not fit the axes, or more of them than the mode can take from `x`.

    >>> import einalg as ea
    >>> pad(ea.tensor("x", (5,)), [(1, 2)]), pad(ea.tensor("x", (5,)), [(1, 2)], "circular")
    (L[i:8](x.pad((1, 2))[i - 1]), L[i:8](x[(i + 4)%5]))
    """
    view = operand(x, "x", dtype="any")
    pairs = tuple(map(_amounts, entries(amounts, "amounts", view.rank, "axes")))
    if not isinstance(mode, str) or mode not in PADDING_MODES:
        raise ShapeError(f"mode is {mode!r}\n  use one of: {', '.join(PADDING_MODES)}")
    kind = PADDING_MODES[mode]
    if kind == "constant":
        return _constant(view, pairs, exact_number(value, "value", infinite=True))
    for axis, pair in enumerate(pairs):
        _check_amounts(kind, pair, axis, view.shape[axis])
    if kind == "circular":
        return _circular(view, pairs)
    if not any(map(any, pairs)):
        at = result_indices(view.rank)
        return L[spans(at, view.shape)](view[at])
    result: Any = None
    for axis, pair in enumerate(pairs):
        if any(pair):
            result = _with_strips(view, axis, pair, kind)
            view = operand(result, "x", dtype="any")
    return result


def _amounts(entry: Any) -> Pair:
    pair = tuple(entry) if isinstance(entry, (tuple, list)) else (entry, entry)
    if len(pair) != 2:
        raise ShapeError(
            f"amounts takes for an axis a number or (before, after), not {entry!r}\n  e.g. (1, 0)"
        )
    before, after = map(as_extent, pair)
    if before is None or after is None:
        return integer(pair[0], "amounts"), integer(pair[1], "amounts")
    return before, after


def _circular(view: ArrayView, pairs: tuple[Pair, ...]) -> Scope:
    at = result_indices(view.rank)
    shape, subscripts = [], []
    for index, size, (before, after) in zip(at, view.shape, pairs):
        shape.append(size + before + after)
        subscripts.append((index - before) % size if before or after else index)
    return L[spans(at, shape)](view[tuple(subscripts)])


def _constant(view: ArrayView, pairs: tuple[Pair, ...], value: Any) -> Scope:
    at = result_indices(view.rank)
    shape, around, subscripts = [], [], []
    for axis, (before, after) in enumerate(pairs):
        size = view.shape[axis] + before + after
        if largest(size) < 0:
            raise ShapeError(
                f"amounts takes {pairs[axis]} from axis {axis} of x, of size "
                f"{view.shape[axis]}\n"
                f"  take at most {view.shape[axis]} away"
            )
        shape.append(size)
        around.append((max(before, 0), max(after, 0)))
        subscripts.append(at[axis] - before)
    return L[spans(at, shape)](view.padded(around, value)[tuple(subscripts)])


def _check_amounts(mode: str, pair: Pair, axis: int, size: int) -> None:
    if min(pair) < 0:
        raise ShapeError(
            f"amounts has {pair} for axis {axis}; mode {mode!r} takes no element away\n"
            "  use slice for that"
        )
    most = max(pair) if size else 0
    if mode == "reflect":
        most = max(size - 1, 0)
    elif mode == "symmetric":
        most = size
    if max(pair) > most:
        raise ShapeError(
            f"amounts has {pair} for axis {axis} of x, of size {size}; mode {mode!r} has at "
            f"most {most} elements there\n"
            f"  pad by at most {most}"
        )


def _with_strips(view: ArrayView, axis: int, pair: Pair, mode: str) -> Scope:
    """Return an operand with one axis padded: the strip before it, the operand, the strip after
    it.
    """
    before, after = pair
    last = view.shape[axis] - 1
    at = result_indices(view.rank)
    i = affine(at[axis])
    sources = {
        "edge": (affine(0), affine(last)),
        "reflect": (before - i, last - 1 - i),
        "symmetric": (before - 1 - i, last - i),
    }[mode]
    parts = [view]
    if before:
        parts.insert(0, _strip(view, axis, before, sources[0], at))
    if after:
        parts.append(_strip(view, axis, after, sources[1], at))
    shape = with_entries(view.shape, {axis: before + last + 1 + after})
    return L[spans(at, shape)](joined(parts, axis, at))


def _strip(view: ArrayView, axis: int, size: int, source: Any, at: tuple[Index, ...]) -> ArrayView:
    """Return `size` elements along an axis, read where `source` says."""
    shape = with_entries(view.shape, {axis: size})
    strip = L[spans(at, shape)](view[with_entries(at, {axis: source})])
    return operand(strip, view.name, dtype="any")
