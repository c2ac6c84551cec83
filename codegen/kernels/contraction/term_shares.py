"""Which terms a tiling's cost consists of, each beside its products: what a learned model corrects.

A model that learns from other contractions finds there which of the terms is too low or too high.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.kernels.contraction.blocking import TilingPlan
from codegen.kernels.contraction.cost_terms import (
    STEP_LIMITS,
    STEP_STALLS,
    TileStep,
    compute,
    pack_right_panel,
    read_left,
    store,
)
from codegen.kernels.strided_axes import extent


def term_shares(plan: TilingPlan) -> Mapping[str, float]:
    """Return the cycles of terms, divided by those of the products of a whole tile.

    The limits and the stalls of a step have the names of their functions.
    """
    tiling = plan.tiling
    step = TileStep(plan, tiling.rows, tiling.vectors * tiling.lines)
    products = compute(step)
    limits = {limit.__name__: limit(step) for limit in STEP_LIMITS}
    busy = max(limits.values())
    shares = {name: cycles / products for name, cycles in limits.items()}
    for stall in STEP_STALLS:
        shares[stall.__name__] = stall(step, busy) / products
    tile = max(1.0, plan.used_depth * products)
    shares["store"] = store(step) / tile
    shares["right copy"] = pack_right_panel(plan, step.vectors) / (plan.row_tiles * tile)
    whole = max(1.0, plan.contraction.work / tiling.lanes * plan.passes / 2)
    shares["left copy"] = extent(plan.contraction.batch) * read_left(plan, 1) / whole
    del shares["compute"]  # the measure of all others
    return shares
