"""Register tiles of depthwise convolutions over neighbouring channels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function
from codegen.kernels.depthwise.kernel import depthwise_function
from codegen.kernels.depthwise.problem import Depthwise, depthwise_of
from codegen.kernels.depthwise.tile_choice import (
    MAX_VECTORS,
    DepthwiseTile,
    choose_tile,
    depthwise_cycles,
    refusal,
    widths,
)
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import FLAGS, Choices
from codegen.tuning.spaces.space import CodeCandidate, Fields
from codegen.tuning.spaces.unit import CodeUnit, Reader
from einalg.text.wording import either_of

IN_REGISTERS = "sums, weights and data fit into the registers, and products are written out"
CARDS: Mapping[str, StepCard] = {
    "lanes": StepCard("vectorize", "channels of a vector", "no more than there are channels"),
    "vectors": StepCard("tile", "vectors of channels of the tile of sums", IN_REGISTERS),
    "positions": StepCard("tile", "positions of the tile", IN_REGISTERS),
    "taps": StepCard("tile", "taps along a line whose weights are in registers", IN_REGISTERS),
    "prefetches": StepCard("prefetch", "asks for the data of the next line ahead"),
}


class DepthwiseSpace(Fields):
    """A depthwise convolution over neighbouring channels."""

    name = "depthwise"
    cards = CARDS

    def __init__(self, unit: CodeUnit, problem: Depthwise, target: CpuModel, comment: str):
        self.unit, self.problem, self.target, self.comment = unit, problem, target, comment

    @property
    def work(self) -> int:
        """Return the number of products."""
        return self.problem.work

    @cached_property
    def _start(self) -> DepthwiseTile | None:
        choice = choose_tile(self.problem, self.target)
        if choice is None:
            return None
        return choice[0]

    @property
    def is_empty(self) -> bool:
        """Whether no vector is as short as the channels, or too much would be written out."""
        return self._start is None

    def start(self) -> DepthwiseTile:
        assert self._start is not None  # of a space that is not empty
        return self._start

    def choices(self) -> Choices:
        window = self.problem.positions.window
        registers = self.target.registers
        return {
            "lanes": sorted(widths(self.problem, self.target)),
            "vectors": range(1, MAX_VECTORS + 1),
            "positions": range(1, min(window.positions, registers) + 1),
            "taps": range(1, min(window.taps, registers) + 1),
            "prefetches": FLAGS,
        }

    def extents(self, point: DepthwiseTile) -> Mapping[str, int]:
        window = self.problem.positions.window
        return {"positions": window.positions, "taps": window.taps}

    def refusal(self, point: DepthwiseTile) -> str | None:
        lanes = widths(self.problem, self.target)
        if point.lanes not in lanes:
            return f"vectors have {either_of(lanes)} channels here"
        return refusal(self.problem, point, self.target)

    def cycles(self, point: DepthwiseTile) -> float:
        return depthwise_cycles(self.problem, point, self.target)

    def build(self, point: DepthwiseTile) -> Function:
        function = depthwise_function(self.problem, self.comment, tile=point)
        assert function is not None  # of a tile that fits
        return function

    def with_epilogue(self, point: DepthwiseTile, epilogue: Reader) -> CodeCandidate | None:
        unit = self.unit
        whole = depthwise_of(unit.kernel, unit.scope, unit.dtype, unit.constants, epilogue)
        if whole is None:
            return None
        fused = DepthwiseSpace(unit, whole, self.target, str(epilogue[1]))
        return CodeCandidate(fused, point)


def depthwise_space(unit: CodeUnit, target: CpuModel) -> DepthwiseSpace | None:
    """Return a depthwise convolution over neighbouring channels; None where it is none."""
    problem = depthwise_of(unit.kernel, unit.scope, unit.dtype, unit.constants)
    if problem is None:
        return None
    space = DepthwiseSpace(unit, problem, target, str(unit.scope))
    if space.is_empty:
        return None
    return space
