"""Loops of the generic lowering, and transposed squares: what writes any statement's code.

Their cycles are those of the loop nest (`codegen.kernels.loop_cost`), so a point that is priced is
written; the functions of the last ones are at hand when they are built.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function, Transpose, walk
from codegen.kernels.expensive_values.rewriting import with_cheaper_values
from codegen.kernels.expensive_values.row_prefetch import with_row_prefetch
from codegen.kernels.loop_cost.cycles import function_terms
from codegen.kernels.loop_cost.nest_numbers import nest_numbers
from codegen.kernels.transpose import transpose_kernel
from codegen.lowering.lower import lower
from codegen.lowering.partial_sums import with_partial_sums
from codegen.lowering.rows_together import with_rows_together
from codegen.lowering.schedule import Schedule
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import Choices, Features, logarithm
from codegen.tuning.spaces.space import NEVER, NO_CODE, CodeCandidate, Fields
from codegen.tuning.spaces.unit import CodeUnit, Reader
from einalg.text.wording import either_of

WRITTEN_FUNCTIONS = 64  # of a space, that are at hand
CHOICES: Choices = {
    "unroll": (1, 4, 16, 64, 256),
    "written_calls": (1, 4, 16),
    "row": (8, 16, 32, 64, 128, 256, 512),
    "long_row_bytes": (1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16),
    "memory_bytes": (1 << 17, 1 << 19, 1 << 21, 1 << 23),
    "regions": (1, 4, 16, 64, 256),
    "tile": (8, 16, 32, 64, 128),
    "constant_terms": (1, 64, 512, 2048),
    "hoisted_points": (1, 4, 16, 64, 1 << 20),
}
THREAD_CHOICES: Choices = {
    "long_row_parts": (1, 2, 4, 8, 16, 32, 64),
    "parallel": (1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 30),
    "chunks": (4, 16, 64, 256),
}


CARDS: Mapping[str, StepCard] = {
    "unroll": StepCard("unroll", "most points of a reduction that are written out one by one"),
    "written_calls": StepCard("unroll", "most of them where each calls a function"),
    "row": StepCard("tile", "elements of a row of sums that are kept side by side"),
    "long_row_bytes": StepCard("tile", "bytes of such a row where its terms come from memory"),
    "memory_bytes": StepCard("tile", "bytes of the terms of a row that come from memory"),
    "regions": StepCard("split", "most parts of the output, of which inner ones need no guards"),
    "tile": StepCard("tile", "edge of the tiles in which a transposed read is walked"),
    "constant_terms": StepCard("unroll", "most terms with constants written out in one place"),
    "hoisted_points": StepCard(
        "hoist", "least points of a reduction that is moved out of loops it does not depend on"
    ),
    "long_row_parts": StepCard("parallel", "fewest parts of such rows"),
    "parallel": StepCard("parallel", "scalar operations from which on threads share the work"),
    "chunks": StepCard("parallel", "pieces of work that the threads should find"),
}
SQUARE_CARDS = {"size": StepCard("tile", "rows of a square", "a power of two, one vector at most")}


class WrittenFields(Fields):
    """Points whose cycles are those of the loop nest that is written."""

    def __init__(self, unit: CodeUnit, target: CpuModel):
        self.unit, self.target = unit, target
        self.loops = lru_cache(WRITTEN_FUNCTIONS)(self.written)
        self.terms = lru_cache(WRITTEN_FUNCTIONS)(self._terms)
        self.known_cycles: dict[object, float] = {}

    @abstractmethod
    def written(self, point: object) -> Function:
        """Return the loop nest of a point."""

    def build(self, point: object) -> Function:
        """Return the code of a point."""
        return self.loops(point)

    def cycles(self, point: object) -> float:
        if point not in self.known_cycles:
            self.known_cycles[point] = self._priced(point)
        return self.known_cycles[point]

    def features(self, point: object) -> Features:
        """Return the fields of a point, and what the loop nest is like."""
        features = super().features(point)
        try:
            numbers = nest_numbers(self.loops(point), *self.terms(point))
        except NO_CODE:
            return features
        for name, number in numbers.items():
            features[f"nest {name}"] = logarithm(1 + number)
        return features

    def _priced(self, point: object) -> float:
        try:
            return sum(self.terms(point))
        except NO_CODE:
            return NEVER

    def _terms(self, point: object) -> tuple[float, float]:
        return function_terms(self.loops(point), self.target)

    def with_epilogue(self, point: object, epilogue: Reader) -> CodeCandidate | None:
        return None


class LoopsSpace(WrittenFields):
    """The loops of the generic lowering."""

    name = "loops"
    cards = CARDS

    def start(self) -> Schedule:
        return replace(self.unit.schedule, long_row_parts=self.target.cores)

    def choices(self) -> Choices:
        if self.target.cores > 1:
            return {**CHOICES, **THREAD_CHOICES}
        return CHOICES

    def refusal(self, point: Schedule) -> str | None:
        return None

    def written(self, point: Schedule) -> Function:  # type: ignore[override]
        unit = self.unit
        loops = lower(unit.name, unit.scope, unit.statements, point, unit.leaves_gaps)
        return with_partial_sums(with_cheaper_values(loops, self.target))

    def build(self, point: object) -> Function:
        """Return the code of a point, with rows together and prefetches, of which its price knows
        nothing.
        """
        return with_rows_together(with_row_prefetch(self.loops(point), self.target))


@dataclass(frozen=True)
class SquareSize:
    """The rows of a square of elements that changes its order in registers."""

    size: int


class TranspositionSpace(WrittenFields):
    """Squares of elements that change their order in registers."""

    name = "transposition"
    cards = SQUARE_CARDS

    def __init__(self, unit: CodeUnit, target: CpuModel, largest: int):
        super().__init__(unit, target)
        self.largest = largest

    def start(self) -> SquareSize:
        return SquareSize(self.largest)

    def choices(self) -> Choices:
        sizes = [self.largest]
        while sizes[0] > 2:
            sizes.insert(0, sizes[0] // 2)
        return {"size": sizes}

    def refusal(self, point: SquareSize) -> str | None:
        sizes = self.choices()["size"]
        if point.size in sizes:
            return None
        return f"squares have {either_of(sizes)} rows here"

    def written(self, point: SquareSize) -> Function:  # type: ignore[override]
        unit = self.unit
        function = transpose_kernel(unit.name, unit.scope, self.target, size=point.size)
        assert function is not None  # of squares that are no larger than the largest
        return function


def transposition_space(unit: CodeUnit, target: CpuModel) -> TranspositionSpace | None:
    """Return a statement that reads elements in another order; None where it is none."""
    function = transpose_kernel(unit.name, unit.scope, target)
    if function is None:
        return None
    squares = [node for node in walk(function) if isinstance(node, Transpose)]
    return TranspositionSpace(unit, target, squares[0].size)
