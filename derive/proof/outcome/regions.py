"""Sets of output points that a person can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from math import prod
from typing import Any

import islpy as isl
import numpy as np

from einalg.language.index.affine import Index
from einalg.language.index.isl import Space, bounded, listed_points
from einalg.language.index.iterator import LoopIndex

MAX_BOXES = 500  # of a region that evaluation gives
MAX_LISTED_POINTS = 4096  # of a region that is listed to shorten its text
MAX_SHORTENING_OPERATIONS = 200_000  # of isl, for a text that is easier to read
MAX_SHORT_CHARACTERS = 100  # of a region that needs no shortening
Mask = np.ndarray[Any, Any]
Box = tuple[tuple[int, int], ...]


def readable(region: isl.Set, names: Sequence[str]) -> isl.Set:
    """Return the same set with these names of its axes, written with few conditions."""
    region = region.coalesce().detect_equalities().remove_redundancies()
    for shorten in (_without_quotients, _of_hulls):
        if "exists" in str(region):
            region = _shorter(region, shorten)
    is_finite = not region.dim(isl.dim_type.param)  # else there are symbolic sizes
    if is_finite and len(str(region)) > MAX_SHORT_CHARACTERS:
        listed = _listed(region)
        if listed is not None:
            boxes = union_of_boxes(list(_boxes(*listed)), region.dim(isl.dim_type.set))
            region = min(region, boxes, key=lambda candidate: len(str(candidate)))
    return with_axis_names(region, names)


def _shorter(region: isl.Set, shorten: Callable[[isl.Set], isl.Set]) -> isl.Set:
    """Return the same set as another function writes it, where that is shorter, and found soon."""
    try:
        with bounded(MAX_SHORTENING_OPERATIONS):
            return min(region, shorten(region), key=lambda candidate: len(str(candidate)))
    except isl.Error:
        return region


def _without_quotients(region: isl.Set) -> isl.Set:
    """Return the same set with its unknown integers as quotients, of which few are left."""
    return region.compute_divs().coalesce()


def _of_hulls(region: isl.Set) -> isl.Set:
    """Return the same set, each part as its hull where that holds no other points: without
    quotients that only say what the bounds say.
    """
    same = isl.Set.empty(region.space)
    for part in region.get_basic_sets():
        hull = part.to_set().polyhedral_hull().to_set()
        if hull.is_subset(region):
            same = same.union(hull)
        else:
            same = same.union(part.to_set())
    return same.coalesce()


def with_axis_names(region: isl.Set, names: Sequence[str]) -> isl.Set:
    """Return a set with these names of its axes."""
    for axis, name in enumerate(names):
        region = region.set_dim_name(isl.dim_type.set, axis, name)
    return region


def from_mask(mask: Mask, names: Sequence[str], origin: Sequence[int] | None = None) -> isl.Set:
    """Return the points at which a mask is true, from `origin` on; at most `MAX_BOXES` boxes of
    them.
    """
    boxes = list(islice(_boxes(mask, origin or (0,) * mask.ndim), MAX_BOXES))
    return with_axis_names(union_of_boxes(boxes, mask.ndim), names)


def _boxes(mask: Mask, origin: Sequence[int]) -> Iterator[Box]:
    """Yield disjoint boxes of the points at which a mask is true: equal neighbouring slices
    together.
    """
    if not mask.any():
        return
    if mask.ndim == 0:
        yield ()
        return
    for low, high in pairwise(_slice_bounds(mask)):
        for rest in _boxes(mask[low], origin[1:]):
            yield ((low + origin[0], high + origin[0]), *rest)


def _slice_bounds(mask: Mask) -> list[int]:
    """Return the positions on the first axis from which on the slices of a mask are others, and
    both ends.
    """
    changed = (mask[1:] != mask[:-1]).reshape(len(mask) - 1, mask.size // len(mask)).any(axis=1)
    return [0, *(np.flatnonzero(changed) + 1).tolist(), len(mask)]


def union_of_boxes(boxes: Sequence[Box], rank: int) -> isl.Set:
    """Return the points that are in some box, given by half-open ranges of every axis."""
    indices = [Index(f"x{axis}") for axis in range(rank)]
    space = Space(indices)
    if not boxes:
        return isl.Set.empty(space.space)
    sets = []
    for box in boxes:
        ranges = [LoopIndex(index, low, high) for index, (low, high) in zip(indices, box)]
        sets.append(space.set(ranges))
    return _balanced_union(sets).coalesce()


def _balanced_union(sets: list[isl.Set]) -> isl.Set:
    """Return a union that is made pairwise, so that every set is copied a few times only."""
    while len(sets) > 1:
        unions = []
        for k in range(0, len(sets) - 1, 2):
            unions.append(sets[k].union(sets[k + 1]))
        if len(sets) % 2:
            unions.append(sets[-1])
        sets = unions
    return sets[0]


def _listed(region: isl.Set) -> tuple[Mask, list[int]] | None:
    """Return the mask of a small set over its bounding box, and the box's first point; None where
    it is large.
    """
    axes = range(region.dim(isl.dim_type.set))
    low = [int(region.dim_min_val(k).to_python()) for k in axes]
    extents = [int(region.dim_max_val(k).to_python()) + 1 - low[k] for k in axes]
    if prod(extents) > MAX_LISTED_POINTS:
        return None
    mask = np.zeros(extents, bool)
    for point in listed_points(region):
        place = [coordinate - first for coordinate, first in zip(point, low)]
        mask[tuple(place)] = True
    return mask, low
