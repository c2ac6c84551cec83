"""The spaces of a unit, and the candidate among all of their points that costs least."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from codegen.hardware.cpu import CpuModel
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.tuning.spaces.band import BandTiles, band_space
from codegen.tuning.spaces.contraction import Tilings, contraction_space, phases_space
from codegen.tuning.spaces.depthwise import DepthwiseSpace, depthwise_space
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.loops import LoopsSpace, TranspositionSpace, transposition_space
from codegen.tuning.spaces.slices import SlicesSpace, with_slice_reader
from codegen.tuning.spaces.space import CodeCandidate, ScheduleSpace
from codegen.tuning.spaces.stencil import StencilTiles, stencil_space
from codegen.tuning.spaces.unit import CodeUnit
from einalg.language.ir.dtypes import numpy_dtype
from einalg.runtime.clock import check_time

# Those of operators, which hold a tile of sums in registers.
OPERATOR_SPACES: Mapping[str, Callable[[CodeUnit, CpuModel], ScheduleSpace | None]] = {
    "contraction": contraction_space,
    "phases": phases_space,
    "stencil": stencil_space,
    "depthwise": depthwise_space,
    "band": band_space,
}
# What each number of a space, or of its parts, decides.
SPACE_CARDS: Mapping[str, Mapping[str, StepCard]] = {
    "contraction": Tilings.cards,
    "phases": Tilings.cards,
    SlicesSpace.name: {**Tilings.cards, **LoopsSpace.cards},
    "stencil": StencilTiles.cards,
    "depthwise": DepthwiseSpace.cards,
    "band": BandTiles.cards,
    "transposition": TranspositionSpace.cards,
    "loops": LoopsSpace.cards,
}


def operator_spaces(unit: CodeUnit, target: CpuModel) -> Iterator[ScheduleSpace]:
    """Yield the spaces of code that has the shape of an operator."""
    if not unit.is_operator:
        return
    for make in OPERATOR_SPACES.values():
        space = make(unit, target)
        if space is not None:
            yield space


def statement_spaces(unit: CodeUnit, target: CpuModel) -> Iterator[ScheduleSpace]:
    """Yield the spaces of code that any statement may have."""
    transposition = transposition_space(unit, target)
    if transposition is not None:
        yield transposition
    yield LoopsSpace(unit, target)


def unit_spaces(unit: CodeUnit, target: CpuModel) -> Iterator[ScheduleSpace]:
    """Yield every space of a unit."""
    yield from operator_spaces(unit, target)
    yield from statement_spaces(unit, target)


def starts(unit: CodeUnit, target: CpuModel) -> Iterator[CodeCandidate]:
    """Yield every space of a unit with its readers, and the point that the model thinks best."""
    for space in unit_spaces(unit, target):
        candidate = _with_readers(unit, CodeCandidate(space, space.start()))
        if candidate is not None:
            yield candidate


def cheapest(unit: CodeUnit, target: CpuModel) -> CodeCandidate | None:
    """Return the start of the space that costs least by the model, of all spaces of a unit.

    Loops are written to know what they cost, so they are where others leave a doubt. None where
    this is no one kernel with the unit's readers. Raises `OutOfTime` where the time for the work
    under way is over.
    """
    return _with_readers(unit, _cheapest(unit, target))


def _with_readers(unit: CodeUnit, candidate: CodeCandidate | None) -> CodeCandidate | None:
    """Return a candidate of a unit's statement with its readers; None where they cannot be one."""
    for reader in unit.readers:
        if candidate is None:
            return None
        candidate = candidate.with_epilogue(reader) or with_slice_reader(unit, candidate, reader)
    return candidate


def _cheapest(unit: CodeUnit, target: CpuModel) -> CodeCandidate:
    """Return the start that costs least, without readers."""
    best: CodeCandidate | None = None
    for space in operator_spaces(unit, target):
        check_time()  # each start is the best of hundreds of points
        best = _cheaper(best, CodeCandidate(space, space.start()))
    if best is not None and best.cycles <= _fewest_loop_cycles(unit, best, target):
        return best
    for space in statement_spaces(unit, target):
        check_time()
        best = _cheaper(best, CodeCandidate(space, space.start()))
    assert best is not None  # any statement has loops
    return best


def _cheaper(best: CodeCandidate | None, other: CodeCandidate) -> CodeCandidate:
    if best is None or other.cycles < best.cycles:
        return other
    return best


def _fewest_loop_cycles(unit: CodeUnit, best: CodeCandidate, target: CpuModel) -> float:
    """Return cycles below which no loops are that hold no tile in registers.

    These load both operands of each product, and so compute half of what the core can.
    """
    work = getattr(best.space, "work", 0)
    lanes = target.widths(numpy_dtype(unit.dtype).itemsize)[-1]
    return work / (lanes * CPU_COSTS.loads_per_cycle / 2)
