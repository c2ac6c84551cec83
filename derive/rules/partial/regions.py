"""Covers of a region: boxes, and boxes that repeat, which hold all its points and few others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import islpy as isl
import sympy

from derive.rewriting.body_queries import index_ranges, with_padded_reads
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope, with_padding
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space, listed_points
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import fresh_index, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

MAX_COVERS = 16  # parts that are computed again
MAX_SLICES = 8  # of one part of a region
MAX_WASTE = 1.25  # times the points of a part, which a cover may have without being sliced
MAX_VALUES = 1 << 16  # of one axis, which are listed


class Blocks(NamedTuple):
    """The values `low + step*t + u` for `0 <= t < count` and `0 <= u < size`."""

    low: int
    step: int
    count: int
    size: int

    @property
    def points(self) -> int:
        """The number of values."""
        return self.count * self.size

    @property
    def end(self) -> int:
        """The first value after all blocks."""
        return self.low + self.step * (self.count - 1) + self.size

    def values(self) -> Iterator[int]:
        """Yield all values in order."""
        for block in range(self.count):
            for offset in range(self.size):
                yield self.low + self.step * block + offset


Cover = tuple[Blocks, ...]


def covers_of(region: isl.Set, shape: Sequence[int]) -> list[Cover]:
    """Return covers of a region of an output, one for each of its parts: on every axis, blocks that
    repeat. They are as long as the region is, so that few conditions tell them from the rest.

    Raises `RuleError` where there are too many parts.
    """
    covers: dict[Cover, None] = {}
    for part in region.coalesce().get_basic_sets():
        for cover in _covers_of_part(part.to_set(), len(shape)):
            covers.setdefault(_grown(cover, region, shape))
        if len(covers) > MAX_COVERS:
            raise RuleError("the region falls into too many parts to compute them again")
    return _merged(_without_contained(list(covers)))


def _covers_of_part(part: isl.Set, rank: int) -> list[Cover]:
    """Return one cover of a set, or of each of its slices along an axis where that holds far fewer
    other points: the points of a diagonal are no box.
    """
    cover = tuple(_blocks(part, axis) for axis in range(rank))
    points = _number(part.count_val())
    axes = [axis for axis in range(rank) if 1 < cover[axis].points <= MAX_SLICES]
    if points_in(cover) <= MAX_WASTE * points or not axes:
        return [cover]
    axis = min(axes, key=lambda axis: cover[axis].points)
    slices: list[Cover] = []
    for value in cover[axis].values():
        line = part.fix_val(isl.dim_type.set, axis, isl.Val(value))
        if not line.is_empty():
            slices.append(tuple(_blocks(line, other) for other in range(rank)))
    return slices if sum(map(points_in, slices)) * MAX_WASTE <= points_in(cover) else [cover]


def _grown(cover: Cover, region: isl.Set, shape: Sequence[int]) -> Cover:
    """Return a cover that is longer along the axes on which it then still holds no other points."""
    for axis, extent in enumerate(shape):
        whole = Blocks(0, extent, 1, extent)
        longer = (*cover[:axis], whole, *cover[axis + 1 :])
        if cover[axis] != whole and _points(longer).is_subset(region):
            cover = longer
    return cover


def _without_contained(covers: list[Cover]) -> list[Cover]:
    """Return the covers without those whose points the others hold."""
    needed = list(covers)
    for cover in reversed(covers):
        others = [_points(other) for other in needed if other != cover]
        if others and _points(cover).is_subset(reduce(isl.Set.union, others)):
            needed.remove(cover)
    return needed


def _points(cover: Cover) -> isl.Set:
    """Return the points of a cover as an isl set."""
    iterators: list[LoopIndex] = []
    conditions: list[Constraint] = []
    for axis, blocks in enumerate(cover):
        index = Index(f"x{axis}")
        iterators.append(LoopIndex(index, blocks.low, blocks.end))
        if blocks.count > 1:
            within = (affine(index) - blocks.low) % blocks.step
            conditions.append(Constraint(-within + blocks.size - 1, ">="))
    return Space([it.index for it in iterators]).set(iterators, conditions)


def _merged(covers: list[Cover]) -> list[Cover]:
    """Return covers of the same points, those that differ on one axis as one where that has no more
    points: rows 1 and 12 are blocks that repeat.
    """
    merged: list[Cover] = []
    for cover in covers:
        for place, other in enumerate(merged):
            union = _union(cover, other)
            if union is not None:
                merged[place] = union
                break
        else:
            merged.append(cover)
    return merged if len(merged) == len(covers) else _merged(merged)


def _union(one: Cover, two: Cover) -> Cover | None:
    """Return the cover that holds exactly the points of two; None where there is none."""
    axes = [axis for axis, (a, b) in enumerate(zip(one, two)) if a != b]
    if len(axes) != 1 or max(one[axes[0]].points, two[axes[0]].points) > MAX_VALUES:
        return None
    values = {*one[axes[0]].values(), *two[axes[0]].values()}
    blocks = _repeated(sorted(values))
    if blocks is None:
        return None
    return (*one[: axes[0]], blocks, *one[axes[0] + 1 :])


def points_in(cover: Cover) -> int:
    """Return the number of points of a cover."""
    return prod(blocks.points for blocks in cover)


def _blocks(part: isl.Set, axis: int) -> Blocks:
    """Return blocks that hold every value of an axis that occurs in a set."""
    rank = part.dim(isl.dim_type.set)
    line = part.project_out(isl.dim_type.set, axis + 1, rank - axis - 1)
    line = line.project_out(isl.dim_type.set, 0, axis)
    low, last = _number(line.dim_min_val(0)), _number(line.dim_max_val(0))
    whole = Blocks(low, last - low + 1, 1, last - low + 1)
    if last - low >= MAX_VALUES or _number(line.count_val()) == last - low + 1:
        return whole
    values = [value for (value,) in listed_points(line)]
    return _repeated(sorted(values)) or whole


def _number(value: Any) -> int:
    return int(value.to_python())


def _repeated(values: Sequence[int]) -> Blocks | None:
    """Return equal blocks at equal distances that hold exactly these values; None where they are
    not such.

    >>> _repeated([2, 3, 12, 13, 22, 23])
    Blocks(low=2, step=10, count=3, size=2)
    """
    starts, sizes = [values[0]], [1]
    for before, value in pairwise(values):
        if value == before + 1:
            sizes[-1] += 1
        else:
            starts.append(value)
            sizes.append(1)
    steps = {after - before for before, after in pairwise(starts)}
    if len(set(sizes)) > 1 or len(steps) > 1:
        return None
    step = steps.pop() if steps else sizes[0]
    return Blocks(values[0], step, len(starts), sizes[0])


def part_of(scope: Scope, cover: Cover) -> tuple[Access, Any]:
    """Return the read of a scope at the points of a cover, computed for them alone, and the
    condition under which a point of the scope is one of them.

    The cover counts its points from 0 on every axis.
    """
    used = set(scope.indices)
    iterators: list[LoopIndex] = []
    at: list[Affine] = []
    forms: dict[Index, Affine] = {}
    conditions: list[Any] = []
    for it, blocks in zip(scope.iterators, cover):
        low, index = it.low + blocks.low, affine(it.index)
        conditions += _bounds(it, low, it.low + blocks.end)
        if blocks.count == 1:
            iterators.append(LoopIndex(it.index, low, low + blocks.size))
            at.append(index)
            continue
        block = fresh_index(it.index.name, used)
        used.add(block)
        iterators.append(LoopIndex(block, 0, blocks.count))
        at.append((index - low) // blocks.step)
        forms[it.index] = affine(block) * blocks.step + low
        within = (index - low) % blocks.step
        if blocks.size == 1:
            conditions.append(within <= 0)
            continue
        offset = fresh_index(it.index.name, used)
        used.add(offset)
        iterators.append(LoopIndex(offset, 0, blocks.size))
        at.append(within)
        forms[it.index] = forms[it.index] + offset
        conditions.append(within <= blocks.size - 1)
    body = with_padded_reads(substitute(scope.body, forms), iterators)
    part = simplify_scope(Scope(iterators, (), body))
    read = with_padding(Access.of(part, tuple(at)), index_ranges(scope.iterators))
    return read, sympy.And(*conditions)


def _bounds(it: LoopIndex, low: int, high: int) -> list[Any]:
    """Return the conditions that keep an index in a range, without those that always hold."""
    bounds = []
    if low > it.low:
        bounds.append(affine(it.index) >= low)
    if high < it.high:
        bounds.append(affine(it.index) <= high - 1)
    return bounds
