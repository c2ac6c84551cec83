"""Sets of output points that a person can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import islpy as isl
import numpy as np

from einalg.language.index.affine import Index
from einalg.language.index.isl import Space
from einalg.language.index.iterator import LoopIndex

MOST_BOXES = 500  # of a region that is found by evaluation
MOST_POINTS = 4096  # of a region that is listed to shorten its text
SHORT = 100  # characters
Box = tuple[tuple[int, int], ...]


def readable(region: isl.Set, names: Sequence[str]) -> isl.Set:
    """The same set with these names of its axes, written with few conditions."""
    region = region.coalesce().detect_equalities().remove_redundancies()
    if len(str(region)) > SHORT:
        listed = _listed(region)
        if listed is not None:
            boxes = _of_boxes(list(_boxes(*listed)), region.dim(isl.dim_type.set))
            region = min(region, boxes, key=lambda r: len(str(r)))
    return named(region, names)


def named(region: isl.Set, names: Sequence[str]) -> isl.Set:
    for axis, name in enumerate(names):
        region = region.set_dim_name(isl.dim_type.set, axis, name)
    return region


def from_mask(
    mask: np.ndarray[Any, Any], names: Sequence[str], origin: Sequence[int] | None = None
) -> isl.Set:
    """The points at which a mask is true, from `origin` on; at most `MOST_BOXES` boxes of them."""
    boxes = [box for box, _ in zip(_boxes(mask, origin or (0,) * mask.ndim), range(MOST_BOXES))]
    return named(_of_boxes(boxes, mask.ndim), names)


def _boxes(mask: np.ndarray[Any, Any], origin: Sequence[int]) -> Iterator[Box]:
    """Disjoint boxes of the points at which a mask is true: equal neighbouring slices together."""
    if not mask.any():
        return
    if mask.ndim == 0:
        yield ()
        return
    changes = (
        np.flatnonzero(
            (mask[1:] != mask[:-1]).reshape(len(mask) - 1, mask.size // len(mask)).any(axis=1)
        )
        + 1
    )
    bounds = [0, *changes.tolist(), len(mask)]
    for low, high in pairwise(bounds):
        for rest in _boxes(mask[low], origin[1:]):
            yield ((low + origin[0], high + origin[0]), *rest)


def _of_boxes(boxes: Sequence[Box], rank: int) -> isl.Set:
    indices = [Index(f"x{axis}") for axis in range(rank)]
    space = Space(indices)
    found = [
        space.set([LoopIndex(i, low, high) for i, (low, high) in zip(indices, box)])
        for box in boxes
    ]
    while len(found) > 1:  # pairwise, so that every set is copied a few times only
        found = [
            found[k].union(found[k + 1]) if k + 1 < len(found) else found[k]
            for k in range(0, len(found), 2)
        ]
    return found[0].coalesce() if found else isl.Set.empty(space.space)


def _listed(region: isl.Set) -> tuple[np.ndarray[Any, Any], list[int]] | None:
    """The mask of a small set over its bounding box, and the box's first point; None where it is large."""
    axes = range(region.dim(isl.dim_type.set))
    low = [int(region.dim_min_val(k).to_python()) for k in axes]
    high = [int(region.dim_max_val(k).to_python()) + 1 for k in axes]
    if np.prod([b - a for a, b in zip(low, high)], dtype=float) > MOST_POINTS:
        return None
    mask = np.zeros([b - a for a, b in zip(low, high)], bool)

    def mark(point: Any) -> None:
        mask[
            tuple(
                int(point.get_coordinate_val(isl.dim_type.set, k).to_python()) - low[k]
                for k in axes
            )
        ] = True

    region.foreach_point(mark)
    return mask, low
