"""Register tiles of band products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function
from codegen.kernels.band import g2bmm_loop_nest, gbmm_loop_nest
from codegen.kernels.band.g2bmm_loop_nest import G2bmmTile
from codegen.kernels.band.kernel import BandTile, choose_band_tile, tiled_bands
from codegen.kernels.band.problem import BandProduct, band_products_of
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import Choices, ladder
from codegen.tuning.spaces.space import CodeCandidate, Fields, Joint, JointPoint
from codegen.tuning.spaces.unit import CodeUnit, Reader
from einalg.language.ir.dtypes import numpy_dtype

IN_REGISTERS = "the sums, and a row of operands, fit into the registers"
CARDS: Mapping[str, StepCard] = {
    "rows": StepCard("tile", "rows of the tile of sums in registers", IN_REGISTERS),
    "vectors": StepCard("tile", "vectors of each row of the tile", IN_REGISTERS),
    "block": StepCard("split", "groups of rows whose right operand is copied together"),
    "lanes": StepCard("vectorize", "elements of a vector", "a register or half of one"),
}


class BandTiles(Fields):
    """The register tiles of one band product."""

    cards = CARDS

    def __init__(self, band: BandProduct, target: CpuModel):
        self.band, self.target = band, target

    @cached_property
    def _start(self) -> BandTile:
        return choose_band_tile(self.band, self.target)

    def start(self) -> BandTile:
        return self._start

    def choices(self) -> Choices:
        registers = self.target.registers
        choices: dict[str, Sequence[int]] = {
            "rows": range(1, min(self.band.rows.extent, registers) + 1),
            "vectors": range(1, registers + 1),
        }
        if isinstance(self._start, G2bmmTile):
            choices["block"] = ladder(max(1, self.band.rows.extent // self._start.lanes))
        else:
            choices["lanes"] = sorted(self.target.widths(numpy_dtype(self.band.dtype).itemsize))
        return choices

    def extents(self, point: BandTile) -> Mapping[str, int]:
        return {"rows": self.band.rows.extent}

    def refusal(self, point: BandTile) -> str | None:
        if isinstance(point, G2bmmTile):
            return g2bmm_loop_nest.refusal(self.band, point, self.target)
        return gbmm_loop_nest.refusal(self.band, point, self.target)

    def cycles(self, point: BandTile) -> float:
        if isinstance(point, G2bmmTile):
            return g2bmm_loop_nest.g2bmm_cycles(self.band, point, self.target)
        return gbmm_loop_nest.gbmm_cycles(self.band, point, self.target)


class BandSpace(Joint):
    """A band product: that of each class of rows that a dilation keeps apart."""

    name = "band"

    def __init__(self, bands: Sequence[BandProduct], target: CpuModel, comment: str):
        self.target, self.comment = target, comment
        self._parts = tuple(BandTiles(band, target) for band in bands)

    @property
    def parts(self) -> tuple[BandTiles, ...]:
        return self._parts

    @property
    def work(self) -> int:
        """Return the number of products."""
        return sum(part.band.work for part in self.parts)

    def build(self, point: JointPoint) -> Function:
        bands = [part.band for part in self.parts]
        return tiled_bands(bands, point.parts, self.comment, self.target)

    def with_epilogue(self, point: JointPoint, epilogue: Reader) -> CodeCandidate | None:
        return None


def band_space(unit: CodeUnit, target: CpuModel) -> BandSpace | None:
    """Return a unit as band products; None where it is none."""
    bands = band_products_of(unit.kernel, unit.scope, unit.dtype)
    if not bands:
        return None
    return BandSpace(bands, target, str(unit.scope))
