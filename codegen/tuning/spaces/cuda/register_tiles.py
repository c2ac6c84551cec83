"""Tiles of a product whose threads sum blocks in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.hardware.gpu import WARP_THREADS
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import VECTOR_BYTES
from codegen.targets.cuda.lowering.threads.schedule import REGISTER_BYTES, BlockTile
from codegen.tuning.spaces.cuda.body_cost import rate
from codegen.tuning.spaces.cuda.device_cost import LINE
from codegen.tuning.spaces.cuda.tiles import DEPTHS, SIDES, TILE_CARDS, TileSpace
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import Choices, ladder


@dataclass(frozen=True)
class RegisterTile:
    """A tile of a product with the sums of a thread; `parts` blocks share the terms of one."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    parts: int = 1

    @property
    def tile(self) -> BlockTile:
        return BlockTile(self.rows, self.columns, self.depth, self.thread_rows, self.thread_columns)


class RegisterTileSpace(TileSpace):
    """Tiles whose threads sum blocks in registers."""

    name = "register tiles"
    cards = {
        **TILE_CARDS,
        "thread_rows": StepCard("vectorize", "rows of a thread", "its registers hold the sums"),
        "thread_columns": StepCard("vectorize", "columns of a thread", "as for rows"),
    }
    point_type, tile_type = RegisterTile, BlockTile

    @property
    def dtype(self) -> str:
        return self._accumulated

    def _fragment_bytes(self, tile: BlockTile) -> float:
        size = max(REGISTER_BYTES, element_size(self.dtype))
        return (tile.thread_rows + tile.thread_columns) * size

    def usual_tiles(self) -> Iterator[RegisterTile]:
        for tile in self.unit.schedule.tiles:
            point = RegisterTile(*vars(tile).values())
            if self.fits(point):
                yield point

    def choices(self) -> Choices:
        return {
            "rows": SIDES,
            "columns": SIDES,
            "depth": DEPTHS[:-1],
            "thread_rows": (1, 2, 4, 8, 16),
            "thread_columns": (1, 2, 4, 8, 16),
            "parts": ladder(self._most_parts),
        }

    def step_work(self, point: RegisterTile) -> tuple[float, float]:
        tile, size = point.tile, element_size(self.dtype)
        across = min(WARP_THREADS, tile.columns // tile.thread_columns)
        down = -(-WARP_THREADS // across)
        loads = (tile.thread_rows + tile.thread_columns) * size / VECTOR_BYTES
        lines = 0.0
        for threads, elements in ((down, tile.thread_rows), (across, tile.thread_columns)):
            lines += max(elements * size / VECTOR_BYTES, threads * elements * size / LINE)
        issued = tile.depth * (tile.sums * rate(self.dtype) + max(2.0, loads))
        return issued, tile.depth * lines
