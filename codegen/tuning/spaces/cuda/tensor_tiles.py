"""Tiles of a product whose warps multiply fragments by tensor cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from codegen.hardware.gpu import WARP_THREADS, GpuModel
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import FRAGMENT_SIDE
from codegen.targets.cuda.lowering.products.contraction import BlockedProduct
from codegen.targets.cuda.lowering.products.shared_staging import terms_are_adjacent
from codegen.targets.cuda.lowering.threads.schedule import TensorTile
from codegen.tuning.spaces.cuda.device_cost import LINE, SCHEDULERS
from codegen.tuning.spaces.cuda.statement import DeviceUnit
from codegen.tuning.spaces.cuda.tiles import DEPTHS, SIDES, TILE_CARDS, TileSpace
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import Choices, ladder


@dataclass(frozen=True)
class FragmentTile:
    """A tile of a product for tensor cores; `parts` blocks share the terms of one."""

    rows: int
    columns: int
    depth: int
    warps_down: int
    warps_across: int
    parts: int = 1

    @property
    def tile(self) -> TensorTile:
        return TensorTile(self.rows, self.columns, self.depth, self.warps_down, self.warps_across)


class FragmentTileSpace(TileSpace):
    """Tiles whose warps multiply fragments by tensor cores."""

    name = "tensor tiles"
    cards = {
        **TILE_CARDS,
        "warps_down": StepCard("split", "warps along rows", "each has whole fragments"),
        "warps_across": StepCard("split", "warps along columns", "each has whole fragments"),
    }
    point_type, tile_type = FragmentTile, TensorTile

    def __init__(
        self,
        unit: DeviceUnit,
        device: GpuModel,
        number: int,
        product: BlockedProduct,
        factor_dtype: str,
    ):
        super().__init__(unit, device, number, product)
        self.factor_dtype = factor_dtype

    @property
    def dtype(self) -> str:
        return self.factor_dtype

    def _fragment_bytes(self, tile: TensorTile) -> float:
        sides = tile.rows // tile.warps_down + tile.columns // tile.warps_across
        return sides * FRAGMENT_SIDE * element_size(self.dtype) / WARP_THREADS

    def _stored_bytes(self, tile: TensorTile) -> int:
        return tile.stored_bytes

    def _keeps_terms_adjacent(self, factor: Any) -> bool:
        return terms_are_adjacent(self.source, factor, self.product.depth)

    def usual_tiles(self) -> Iterator[FragmentTile]:
        """Yield the tiles of the schedule; with half the depth where registers are short."""
        for usual in self.unit.schedule.tensor_tiles:
            tile = usual.of(self.dtype)
            point = FragmentTile(*vars(tile).values())
            for depth in (tile.depth, max(FRAGMENT_SIDE, tile.depth // 2)):
                if self.fits(replace(point, depth=depth)):
                    yield replace(point, depth=depth)
                    break

    def choices(self) -> Choices:
        return {
            "rows": SIDES,
            "columns": SIDES,
            "depth": DEPTHS[2:],
            "warps_down": (1, 2, 3, 4, 6, 8),
            "warps_across": (1, 2, 3, 4, 6, 8),
            "parts": ladder(self._most_parts),
        }

    def step_work(self, point: FragmentTile) -> tuple[float, float]:
        tile, size = point.tile, element_size(self.dtype)
        warps = tile.warps_down * tile.warps_across
        products = tile.rows * tile.columns * tile.depth / warps
        by_cores = products / (self.device.tensor_products * 2 / size) * SCHEDULERS
        steps = tile.depth // FRAGMENT_SIDE
        sides = tile.rows // tile.warps_down + tile.columns // tile.warps_across
        lines = steps * sides * FRAGMENT_SIDE * size / LINE
        return by_cores + steps * sides / FRAGMENT_SIDE * 4, lines
