"""Reads of a program that are those of a pattern, with the axes in any order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from derive.programs.forms.rewriting.match import Match
from einalg.language.index.affine import Affine, Index
from einalg.language.ir.tensor import Access, Padded, Tensor, paddings

Axes = tuple[int, ...]  # of what the program reads, for each axis of what the pattern reads
Indices = Mapping[Index, Affine]  # of a pattern, as indices of the program


def alike(
    pattern: Access, read: Any, indices: Indices, match: Match
) -> Iterator[tuple[Axes, Match]]:
    """Yield the axes of a read of the program for those of one of a pattern, where both have equal
    ranges, subscripts and paddings; no other axis is padded.
    """
    if not may_be_alike(pattern, read):
        return
    layers = list(zip(paddings(pattern.base), paddings(read.base)))
    if any(layer.fill != other.fill for layer, other in layers):
        return
    wanted = [subscript.substitute(indices) for subscript in pattern.subscripts]

    def extended(axes: Axes, match: Match) -> Iterator[tuple[Axes, Match]]:
        axis = len(axes)
        if axis == len(wanted):
            yield axes, match
            return
        for place in range(read.tensor.rank):
            if place in axes:
                continue
            equal = [(wanted[axis], read.subscripts[place])]
            equal += _of_ranges(pattern, axis, read, place)
            required = match.requiring(*equal)
            if required is not None:
                yield from extended((*axes, place), required)

    for axes, matched in extended((), match):
        if not any(_is_padded(other, axes) for _, other in layers):
            yield axes, matched


def _of_ranges(pattern: Access, axis: int, read: Access, place: int) -> Iterator[tuple[Any, Any]]:
    """Yield bounds and paddings of an axis of a pattern with those of one of the program."""
    yield from zip(pattern.tensor.box[axis], read.tensor.box[place])
    for layer, other in zip(paddings(pattern.base), paddings(read.base)):
        yield from zip(layer.amounts[axis], other.amounts[place])


def may_be_alike(pattern: Access, read: Any) -> bool:
    """Say whether a part of a program reads a tensor through as many paddings as a pattern."""
    if not isinstance(read, Access) or not isinstance(read.tensor, Tensor):
        return False
    return len(list(paddings(pattern.base))) == len(list(paddings(read.base)))


def _is_padded(layer: Padded, axes: Sequence[int]) -> bool:
    """Say whether a padding has elements beside some axes."""
    return any(any(amounts) for place, amounts in enumerate(layer.amounts) if place not in axes)
