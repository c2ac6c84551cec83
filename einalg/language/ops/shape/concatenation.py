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
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L
from einalg.language.ops.definition.axes import axis_number, entries, integer, kept, replaced
from einalg.language.ops.definition.operands import ArrayView, Pair, operand, spans, whole
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.definition.scalars import number


def joined(parts: Sequence[ArrayView], axis: int, at: Sequence[Index]) -> Any:
    """The element at `at` of parts that follow one another along an axis."""
    total, before, elements = sum(part.shape[axis] for part in parts), 0, []
    for part in parts:
        size = part.shape[axis]
        around = replaced(((0, 0),) * part.rank, {axis: (before, total - before - size)})
        elements.append(part.padded(around)[replaced(at, {axis: at[axis] - before})])
        before += size
    if len(parts) > 1 and all(part.dtype == "bool" for part in parts):
        present: list[Any] = [
            sympy.Ne(element, 0) for element in elements
        ]  # a sum of truth values would be a number
        return sympy.Or(*present)
    return sympy.Add(*elements)


def _operands(tensors: Any, least: int) -> list[ArrayView]:
    if not isinstance(tensors, (tuple, list)) or not tensors:
        raise ShapeError(
            "tensors must be a list of tensors or scopes, and not an empty one, not "
            f"{tensors!r}\n"
            "  e.g. [A, B]"
        )
    return [
        operand(tensor, f"tensors[{position}]", least=least, dtype="any")
        for position, tensor in enumerate(tensors)
    ]


def _same_shapes(parts: Sequence[ArrayView], besides: int | None) -> None:
    """Require equal shapes, one axis left out."""
    first = parts[0]
    for part in parts[1:]:
        if part.rank != first.rank:
            raise ShapeError(
                f"{part.name} has {part.rank} axes, but {first.name} has {first.rank}\n"
                "  give all of them equally many"
            )
        for a, (size, known) in enumerate(zip(part.shape, first.shape)):
            if size != known and a != besides:
                raise ShapeError(
                    f"axis {a} of {part.name} has size {size}, but that of {first.name} has "
                    f"size {known}\n"
                    "  make the two equal"
                )


@operator
def concat(tensors: Any, axis: int = 0) -> Scope:
    """Tensors after one another along an axis; their other sizes are equal.

    Raises `ShapeError` for no tensors, sizes that differ, or an axis that they do not have.

    >>> import einalg as ea
    >>> concat([ea.tensor("A", (2, 3)), ea.tensor("B", (2, 1))], 1)
    L[i:2, j:4](A.pad(0, (0, 1))[i, j] + B.pad(0, (3, 0))[i, j - 3])
    """
    parts = _operands(tensors, 1)
    position = axis_number(axis, "axis", parts[0].rank)
    _same_shapes(parts, position)
    at = kept(parts[0].rank)
    shape = replaced(parts[0].shape, {position: sum(part.shape[position] for part in parts)})
    return L[spans(at, shape)](joined(parts, position, at))


@operator
def stack(tensors: Any, axis: int = 0) -> Scope:
    """Tensors of one shape along a new axis, which is `axis` of the result.

    Raises `ShapeError` for no tensors, shapes that differ, or an axis that the result does not
    have.

    >>> import einalg as ea
    >>> stack([ea.tensor("A", (3,)), ea.tensor("B", (3,))])
    L[i:2, j:3]((L[i:1, j:3](A[j])).pad((0, 1), 0)[i, j] + (L[i:1, j:3](B[j])).pad((1, 0), 0)[i - 1,
    j])
    """
    parts = _operands(tensors, 0)
    _same_shapes(parts, None)
    position = axis_number(axis, "axis", parts[0].rank + 1)
    at = kept(parts[0].rank + 1)
    old = at[:position] + at[position + 1 :]
    shape = (*parts[0].shape[:position], 1, *parts[0].shape[position:])
    layers = [operand(L[spans(at, shape)](part[old]), part.name, dtype="any") for part in parts]
    return L[spans(at, replaced(shape, {position: len(parts)}))](joined(layers, position, at))


@operator
def split(x: Any, parts: Any, axis: int = 0) -> tuple[Scope, ...]:
    """Pieces of `x` along an axis: `parts` is their number, if they are to be equal, or their
    sizes.

    Raises `ShapeError` for an axis that `x` does not have, a number that does not divide its size,
    or sizes that do not add up to it.

    >>> import einalg as ea
    >>> split(ea.tensor("x", (5,)), (3, 2))
    (L[i:3](x[i]), L[i:2](x[i + 3]))
    """
    found = operand(x, "x", least=1, dtype="any")
    position = axis_number(axis, "axis", found.rank)
    sizes = _pieces(parts, found.shape[position], position)
    at = kept(found.rank)
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    return tuple(
        L[spans(at, replaced(found.shape, {position: size}))](
            found[replaced(at, {position: at[position] + start})]
        )
        for start, size in zip(starts, sizes)
    )


def _pieces(parts: Any, size: int, axis: int) -> tuple[int, ...]:
    if isinstance(parts, (tuple, list)):
        sizes = tuple(whole(part, "parts", 0) for part in parts)
        if sum(sizes) != size or not sizes:
            raise ShapeError(
                f"parts is {parts!r}, which adds up to {sum(sizes)}, but axis {axis} of x has "
                f"size {size}\n"
                f"  e.g. parts=({size},)"
            )
        return sizes
    count = whole(parts, "parts", 1)
    if size % count:
        raise ShapeError(
            f"parts is {count}, which does not divide size {size} of axis {axis} of x\n"
            f"  give the sizes instead, e.g. parts=({size},)"
        )
    return (size // count,) * count


MODES = {
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
    """`x` with elements added around it: `amounts` has for each axis a number (both sides) or
    `(before, after)`.

    `mode` is `"constant"` (`value`, any number; a negative amount takes elements away), `"reflect"`
    (mirrored, the edge not repeated), `"symmetric"` (mirrored, the edge repeated), `"edge"` or
    `"replicate"`, `"circular"` or `"wrap"`. Raises `ShapeError` for another word, amounts that do
    not fit the axes, or more of them than the mode can take from `x`.

    >>> import einalg as ea
    >>> pad(ea.tensor("x", (5,)), [(1, 2)]), pad(ea.tensor("x", (5,)), [(1, 2)], "circular")
    (L[i:8](x.pad((1, 2))[i - 1]), L[i:8](x[(i + 4)%5]))
    """
    found = operand(x, "x", dtype="any")
    pairs = tuple(_amounts(entry) for entry in entries(amounts, "amounts", found.rank, "axes"))
    if not isinstance(mode, str) or mode not in MODES:
        raise ShapeError(f"mode is {mode!r}\n  use one of: {', '.join(MODES)}")
    at = kept(found.rank)
    if MODES[mode] == "constant":
        return _constant(found, pairs, number(value, "value", infinite=True), at)
    for axis, pair in enumerate(pairs):
        _check_amounts(MODES[mode], pair, axis, found.shape[axis])
    if MODES[mode] == "circular":
        sizes = [size + a + b for size, (a, b) in zip(found.shape, pairs)]
        return L[spans(at, sizes)](
            found[
                tuple((i - a) % n if a or b else i for i, n, (a, b) in zip(at, found.shape, pairs))
            ]
        )
    result = None
    for axis, pair in enumerate(pairs):
        if any(pair):
            result = _with_strips(
                found if result is None else operand(result, "x", dtype="any"),
                axis,
                pair,
                MODES[mode],
            )
    return L[spans(at, found.shape)](found[at]) if result is None else result


def _amounts(entry: Any) -> Pair:
    pair = tuple(entry) if isinstance(entry, (tuple, list)) else (entry, entry)
    if len(pair) != 2:
        raise ShapeError(
            f"amounts takes for an axis a number or (before, after), not {entry!r}\n  e.g. (1, 0)"
        )
    return integer(pair[0], "amounts"), integer(pair[1], "amounts")


def _constant(
    found: ArrayView, pairs: tuple[Pair, ...], value: Any, at: tuple[Index, ...]
) -> Scope:
    sizes = [size + before + after for size, (before, after) in zip(found.shape, pairs)]
    for axis, size in enumerate(sizes):
        if size < 0:
            raise ShapeError(
                f"amounts takes {pairs[axis]} from axis {axis} of x, of size "
                f"{found.shape[axis]}\n"
                f"  take at most {found.shape[axis]} away"
            )
    around = found.padded([(max(before, 0), max(after, 0)) for before, after in pairs], value)
    return L[spans(at, sizes)](around[tuple(i - before for i, (before, _) in zip(at, pairs))])


def _check_amounts(mode: str, pair: Pair, axis: int, size: int) -> None:
    if min(pair) < 0:
        raise ShapeError(
            f"amounts has {pair} for axis {axis}; mode {mode!r} takes no element away\n"
            "  use slice for that"
        )
    most = {"reflect": max(size - 1, 0), "symmetric": size}.get(mode, max(pair) if size else 0)
    if max(pair) > most:
        raise ShapeError(
            f"amounts has {pair} for axis {axis} of x, of size {size}; mode {mode!r} has at "
            f"most {most} elements there\n"
            f"  pad by at most {most}"
        )


def _with_strips(found: ArrayView, axis: int, pair: Pair, mode: str) -> Scope:
    """One axis padded: the strip before it, the operand, the strip after it."""
    before, after = pair
    last = found.shape[axis] - 1
    at = kept(found.rank)
    i = affine(at[axis])
    sources = {
        "edge": (affine(0), affine(last)),
        "reflect": (before - i, last - 1 - i),
        "symmetric": (before - 1 - i, last - i),
    }[mode]
    strips = [_strip(found, axis, size, source, at) for size, source in zip(pair, sources)]
    parts = [part for part in (strips[0], found, strips[1]) if part is not None]
    return L[spans(at, replaced(found.shape, {axis: before + last + 1 + after}))](
        joined(parts, axis, at)
    )


def _strip(
    found: ArrayView, axis: int, size: int, source: Any, at: tuple[Index, ...]
) -> ArrayView | None:
    """`size` elements along an axis, read where `source` says."""
    if not size:
        return None
    return operand(
        L[spans(at, replaced(found.shape, {axis: size}))](found[replaced(at, {axis: source})]),
        found.name,
        dtype="any",
    )
