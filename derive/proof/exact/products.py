"""The coordinates of products of elements as isl relations; factors of one tensor commute
(design §9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations
from typing import Any

import islpy as isl

from derive.proof.exact.polynomial import OutsideFragment
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space

MAX_DIFFERENT_FACTORS = 3  # of one tensor in a term
MAX_TRUTH_PARTS = 16  # into which a product of truth values is cut


def union(sets: Sequence[Any]) -> Any:
    """Return the union of sets or of maps."""
    whole = sets[0]
    for other in sets[1:]:
        whole = whole.union(other)
    return whole


def product_of(maps: Sequence[isl.Map]) -> isl.Map:
    """Return `{x -> (y, z, …)}` of maps `{x -> y}`, `{x -> z}`, …"""
    whole = maps[0]
    for other in maps[1:]:
        whole = whole.flat_range_product(other)
    return whole


def sorted_product(maps: list[isl.Map]) -> isl.Map:
    """Return the coordinates of several factors of one tensor, sorted, because products commute."""
    distinct, times = _counted(maps)
    whole = product_of(distinct)
    axes = maps[0].dim(isl.dim_type.out)
    if len(maps) == 1 or axes == 0:
        return whole
    if len(distinct) > MAX_DIFFERENT_FACTORS:
        raise OutsideFragment(f"more than {MAX_DIFFERENT_FACTORS} different factors of one tensor")
    return whole.apply_range(_sorting(times, axes))


def products_of_truths(maps: Sequence[isl.Map], domain: isl.Set) -> list[tuple[int, isl.Map]]:
    """Return the coordinates of several factors that are 0 or 1, by the number of different ones:
    each counts once where it stands several times.
    """
    parts: list[tuple[list[isl.Map], isl.Set]] = [([], domain)]
    for one in maps:
        longer: list[tuple[list[isl.Map], isl.Set]] = []
        for distinct, where in parts:
            for known in distinct:
                longer.append((distinct, where.intersect(one.intersect(known).domain())))
                where = where.subtract(one.intersect(known).domain())
            longer.append(([*distinct, one], where))
        parts = [(distinct, where) for distinct, where in longer if not where.is_empty()]
        if len(parts) > MAX_TRUTH_PARTS:
            raise OutsideFragment(f"more than {MAX_TRUTH_PARTS} cases of equal truth values")
    products = []
    for distinct, where in parts:
        products.append((len(distinct), sorted_product(distinct).intersect_domain(where)))
    return products


def _counted(maps: Iterable[isl.Map]) -> tuple[list[isl.Map], list[int]]:
    """Return the distinct maps, and how often each occurs."""
    distinct: list[isl.Map] = []
    times: list[int] = []
    for one in maps:
        for place, known in enumerate(distinct):
            if known.is_equal(one):
                times[place] += 1
                break
        else:
            distinct.append(one)
            times.append(1)
    return distinct, times


def _sorting(times: Sequence[int], axes: int) -> isl.Map:
    """Return the function that sorts points of `axes` coordinates lexicographically, and repeats
    each so many times.
    """
    points = [_point(f"y{k}_", axes) for k in range(len(times))]
    space = Space([index for point in points for index in point])
    orders = []
    for order in permutations(range(len(times))):
        domain = space.universe()
        for a, b in pairwise(order):
            domain = domain.intersect(_before(space, points[a], points[b], strictly=a > b))
        coordinates: list[Affine] = []
        for k in order:
            coordinates += list(map(affine, points[k])) * times[k]
        orders.append(space.map(coordinates).intersect_domain(domain))
    return union(orders)


def _point(prefix: str, axes: int) -> list[Index]:
    return [Index(f"{prefix}{axis}") for axis in range(axes)]


def _before(space: Space, a: Sequence[Index], b: Sequence[Index], strictly: bool) -> isl.Set:
    """Return where one point is lexicographically smaller than another, or equal."""
    differences = [y - x for x, y in zip(a, b)]
    parts = []
    equal_so_far = space.universe()
    for difference in differences:
        parts.append(space.where(Constraint(difference - 1, ">=")).intersect(equal_so_far))
        equal_so_far = equal_so_far.intersect(space.where(Constraint(difference, "==")))
    if not strictly:
        parts.append(equal_so_far)
    return union(parts)
