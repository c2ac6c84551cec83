"""Register tiles of convolutions as stencils."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function
from codegen.kernels.cache_costs import touched_lines
from codegen.kernels.stencil import tile_choice
from codegen.kernels.stencil.kernel import tiled_stencils
from codegen.kernels.stencil.problem import Stencil, stencils_of
from codegen.kernels.stencil.tile_choice import (
    StencilTile,
    choose_tile,
    even_shares,
    stencil_cycles,
)
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import Choices, Features, ladder, logarithm
from codegen.tuning.spaces.space import CodeCandidate, Fields, Joint, JointPoint
from codegen.tuning.spaces.unit import CodeUnit, Reader
from einalg.language.ir.dtypes import numpy_dtype
from einalg.text.wording import either_of

IN_REGISTERS = "the sums fit into the registers, and their products are written out"
EVEN = f"even shares; {IN_REGISTERS}"
CARDS: Mapping[str, StepCard] = {
    "lanes": StepCard("vectorize", "positions of a vector", "a register or half of one"),
    "phases": StepCard("tile", "phases of neighbouring positions of the tile of sums", EVEN),
    "filters": StepCard("tile", "filters of the tile", EVEN),
    "lines": StepCard("tile", "lines of positions of the tile", IN_REGISTERS),
    "vectors": StepCard("tile", "vectors of positions of each line of the tile", IN_REGISTERS),
    "block": StepCard("split", "tiles whose lines of data are copied together"),
}


class StencilTiles(Fields):
    """The register tiles of one stencil."""

    cards = CARDS

    def __init__(self, stencil: Stencil, target: CpuModel):
        self.stencil, self.target = stencil, target

    def start(self) -> StencilTile:
        return self._start

    @cached_property
    def _start(self) -> StencilTile:
        return choose_tile(self.stencil, self.target)[0]

    def choices(self) -> Choices:
        return self._choices

    @cached_property
    def _choices(self) -> Choices:
        stencil, registers = self.stencil, self.target.registers
        return {
            "lanes": sorted(self.target.widths(numpy_dtype(stencil.dtype).itemsize)),
            "phases": even_shares(len(stencil.along), registers),
            "filters": even_shares(stencil.filters.extent, registers),
            "lines": range(1, min(stencil.lines.extent, registers) + 1),
            "vectors": range(1, registers + 1),
            "block": ladder(stencil.lines.extent),
        }

    def extents(self, point: StencilTile) -> Mapping[str, int]:
        stencil = self.stencil
        return {
            "filters": stencil.filters.extent,
            "lines": stencil.lines.extent,
            "vectors": -(-stencil.positions.extent // point.lanes),
            "block": -(-stencil.lines.extent // point.lines),
        }

    def features(self, point: StencilTile) -> Features:
        """Return features of a tile, with the sums of a vector of data and of a line of weights."""
        features, stencil = super().features(point), self.stencil
        vectors = min(point.vectors, -(-stencil.positions.extent // point.lanes))
        weights = touched_lines(point.filters, stencil.filters.right, 4)
        features["sums"] = logarithm(point.filters * point.lines * vectors * point.phases)
        features["loads"] = features["sums"] - logarithm(vectors * point.lines + point.filters)
        features["weight lines"] = features["sums"] - logarithm(max(1.0, weights))
        features["used vectors"] = logarithm(vectors)
        return features

    def refusal(self, point: StencilTile) -> str | None:
        for name in ("lanes", "phases", "filters", "lines"):
            choices = self._choices[name]
            if getattr(point, name) not in choices:
                return f"{name} is {either_of(choices)} here"
        if min(point.vectors, point.block) < 1:
            return "each number is at least 1"
        return tile_choice.refusal(self.stencil, point, self.target)

    def cycles(self, point: StencilTile) -> float:
        return stencil_cycles(self.stencil, point, self.target)


class StencilSpace(Joint):
    """A convolution as stencils, each with its register tile."""

    name = "stencil"

    def __init__(self, unit: CodeUnit, stencils: Sequence[Stencil], target: CpuModel, comment: str):
        self.unit, self.target, self.comment = unit, target, comment
        self._parts = tuple(StencilTiles(stencil, target) for stencil in stencils)

    @property
    def parts(self) -> tuple[StencilTiles, ...]:
        return self._parts

    @property
    def work(self) -> int:
        """Return the number of products."""
        return sum(part.stencil.work for part in self.parts)

    def build(self, point: JointPoint) -> Function:
        stencils = [part.stencil for part in self.parts]
        return tiled_stencils(stencils, point.parts, self.comment)

    def with_epilogue(self, point: JointPoint, epilogue: Reader) -> CodeCandidate | None:
        unit = self.unit
        stencils = stencils_of(unit.kernel, unit.scope, unit.dtype, epilogue)
        if not stencils:
            return None
        fused = StencilSpace(unit, stencils, self.target, str(epilogue[1]))
        if len(fused.parts) == len(self.parts) and fused.fits(point):
            return CodeCandidate(fused, point)
        return CodeCandidate(fused, fused.start())


def stencil_space(unit: CodeUnit, target: CpuModel) -> StencilSpace | None:
    """Return a convolution as stencils; None where it is none."""
    stencils = stencils_of(unit.kernel, unit.scope, unit.dtype)
    if not stencils:
        return None
    return StencilSpace(unit, stencils, target, str(unit.scope))
