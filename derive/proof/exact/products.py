"""The coordinates of products of elements as isl relations; factors of one tensor commute (design §9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Any

import islpy as isl

from derive.proof.exact.polynomial import OutsideFragment
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space

MOST_REPEATED = 3  # different factors of one tensor in a term


def union(sets: Sequence[Any]) -> Any:
    """The union of sets or of maps."""
    whole = sets[0]
    for other in sets[1:]:
        whole = whole.union(other)
    return whole


def product_of(maps: Sequence[isl.Map]) -> isl.Map:
    """`{x -> (y, z, …)}` of maps `{x -> y}`, `{x -> z}`, …"""
    whole = maps[0]
    for other in maps[1:]:
        whole = whole.flat_range_product(other)
    return whole


def sorted_product(maps: list[isl.Map]) -> isl.Map:
    """The coordinates of several factors of one tensor, sorted, because products commute."""
    distinct: list[tuple[isl.Map, int]] = []
    for one in maps:
        place = next((k for k, (known, _) in enumerate(distinct) if known.is_equal(one)), None)
        if place is None:
            distinct.append((one, 1))
        else:
            distinct[place] = (one, distinct[place][1] + 1)
    whole = product_of([known for known, _ in distinct])
    axes = maps[0].dim(isl.dim_type.out)
    if len(maps) == 1 or axes == 0:
        return whole
    if len(distinct) > MOST_REPEATED:
        raise OutsideFragment(f"more than {MOST_REPEATED} different factors of one tensor")
    return whole.apply_range(_sorting([times for _, times in distinct], axes))


def _sorting(times: Sequence[int], axes: int) -> isl.Map:
    """The function that sorts points of `axes` coordinates lexicographically, and repeats each so many times."""
    points = [[Index(f"y{k}_{axis}") for axis in range(axes)] for k in range(len(times))]
    space = Space([i for p in points for i in p])
    orders = []
    for order in permutations(range(len(times))):
        domain = space.universe()
        for a, b in pairwise(order):
            domain = domain.intersect(_before(space, points[a], points[b], strictly=a > b))
        orders.append(
            space.map([affine(i) for k in order for i in points[k] * times[k]]).intersect_domain(
                domain
            )
        )
    return union(orders)


def _before(space: Space, a: Sequence[Index], b: Sequence[Index], strictly: bool) -> isl.Set:
    differences = [y - x for x, y in zip(a, b)]
    parts = []
    for k, difference in enumerate(differences):
        part = space.where(Constraint(difference - 1, ">="))
        for equal in differences[:k]:
            part = part.intersect(space.where(Constraint(equal, "==")))
        parts.append(part)
    if not strictly:
        same = space.universe()
        for equal in differences:
            same = same.intersect(space.where(Constraint(equal, "==")))
        parts.append(same)
    return union(parts)
