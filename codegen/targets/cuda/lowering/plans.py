"""Kinds of kernels that a statement may become, each with the numbers that it is written with."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from codegen.ir.nodes import Buf, Function
from codegen.targets.cuda.lowering.map import MapDivision, map_kernel
from codegen.targets.cuda.lowering.products.contraction import BlockedProduct, TileChoice
from codegen.targets.cuda.lowering.products.register_tiles import register_tiles
from codegen.targets.cuda.lowering.products.tensor_cores import tensor_tiles
from codegen.targets.cuda.lowering.reduction import partial_kernel, reduction_kernel
from codegen.targets.cuda.lowering.row_reductions import Division, RowReductions
from codegen.targets.cuda.lowering.thread_rows import ThreadRows, thread_row_kernel
from codegen.targets.cuda.lowering.threads.points import CudaSource
from codegen.targets.cuda.lowering.threads.schedule import TensorTile
from einalg.language.ir.body import Reduce


@dataclass(frozen=True)
class TiledPlan:
    """A product in tiles; `dtype` is the type of its factors where tensor cores multiply them."""

    source: CudaSource
    product: BlockedProduct
    choice: TileChoice
    dtype: str = ""

    @property
    def parts(self) -> int:
        """Return how many blocks share one sum."""
        return self.choice.parts

    @property
    def reduce(self) -> Reduce:
        return self.product.reduce

    def kernel(self, partial: Buf | None = None) -> Function:
        tile = self.choice.tile
        if isinstance(tile, TensorTile):
            return tensor_tiles(self.source, self.product, tile, self.dtype, partial)
        return register_tiles(self.source, self.product, tile, partial)


@dataclass(frozen=True)
class RowPlan:
    """Rows of outputs, whose reductions threads share."""

    source: CudaSource
    rows: RowReductions
    division: Division

    @property
    def parts(self) -> int:
        """Return how many groups of blocks share one sum."""
        return self.division.parts

    @property
    def reduce(self) -> Reduce:
        return self.rows.reduces[0]

    def kernel(self, partial: Buf | None = None) -> Function:
        if partial is None:
            return reduction_kernel(self.source, self.rows, self.division)
        return partial_kernel(self.source, self.rows, self.division, partial)


@dataclass(frozen=True)
class ThreadRowPlan:
    """Rows of outputs, each of which a thread computes by itself."""

    source: CudaSource
    rows: ThreadRows
    threads: int

    def kernel(self) -> Function:
        return thread_row_kernel(self.source, self.rows, self.threads)


@dataclass(frozen=True)
class MapPlan:
    """Outputs that threads compute by themselves; there are none at all where these are empty."""

    source: CudaSource
    division: MapDivision

    def kernel(self) -> Function:
        if not prod(self.source.output.shape):
            return self.source.function(())
        return map_kernel(self.source, self.division)


KernelPlan = TiledPlan | RowPlan | ThreadRowPlan | MapPlan
