"""Regions of points, as lists that a test can compare."""

from __future__ import annotations

from typing import Any

import islpy as isl


def points(region: Any) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    rank = region.dim(isl.dim_type.set)
    region.foreach_point(
        lambda p: found.add(
            tuple(int(p.get_coordinate_val(isl.dim_type.set, k).to_python()) for k in range(rank))
        )
    )
    return found
