"""The spaces of a unit on a device, and the candidate of all of them that costs least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from codegen.hardware.gpu import H100, GpuModel
from codegen.targets.cuda.lowering.lower import usual_plan
from codegen.targets.cuda.lowering.products.contraction import blocked_product, tensor_core_dtype
from codegen.tuning.spaces.cuda.outputs import (
    MapSpace,
    ThreadRowSpace,
    thread_row_space,
)
from codegen.tuning.spaces.cuda.register_tiles import RegisterTileSpace
from codegen.tuning.spaces.cuda.rows import RowSpace, row_space
from codegen.tuning.spaces.cuda.statement import DeviceSpace, DeviceUnit
from codegen.tuning.spaces.cuda.tensor_tiles import FragmentTileSpace
from codegen.tuning.spaces.cuda.tiles import TileSpace
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.space import CodeCandidate
from einalg.runtime.clock import check_time

# Cycles by the model, as a factor and at least, that are beyond what it errs by.
LEAD, LEAD_CYCLES = 1.3, 3000.0
STATEMENT_SPACES = (row_space, thread_row_space, MapSpace)  # any statement has the last one
# What each number of a space decides.
DEVICE_CARDS: Mapping[str, Mapping[str, StepCard]] = {
    space.name: space.cards
    for space in (RegisterTileSpace, FragmentTileSpace, RowSpace, ThreadRowSpace, MapSpace)
}


def device_spaces(unit: DeviceUnit, device: GpuModel = H100) -> Iterator[DeviceSpace]:
    """Yield every space of a unit."""
    yield from tile_spaces(unit, device)
    for make in STATEMENT_SPACES:
        space = make(unit, device)
        if space is not None:
            yield space


def tile_spaces(unit: DeviceUnit, device: GpuModel) -> Iterator[TileSpace]:
    """Yield the tiles of a product, in the first coordinates in which a tile fits."""
    if not prod(unit.scope.shape):
        return
    for number, source in enumerate(unit.statement.contractions()):
        product = blocked_product(source)
        if product is None:
            continue
        spaces: list[TileSpace] = [RegisterTileSpace(unit, device, number, product)]
        dtype = tensor_core_dtype(source, product)
        if dtype is not None:
            spaces.append(FragmentTileSpace(unit, device, number, product, dtype))
        usable = [space for space in spaces if space.pays]
        if usable:
            yield from usable
            return


def device_starts(unit: DeviceUnit, device: GpuModel = H100) -> Iterator[CodeCandidate]:
    """Yield every space of a unit, and the point that the model thinks best."""
    for space in device_spaces(unit, device):
        check_time()
        yield CodeCandidate(space, space.start())


def cheapest_kernels(unit: DeviceUnit, device: GpuModel = H100) -> CodeCandidate:
    """Return the start of the space that costs least by the model, of all spaces of a unit.

    What the schedule says, whose numbers were chosen on a device, stays where the model sees no
    clear lead of another one.

    >>> import einalg as ea
    >>> from einalg.language.ir.kernel import Kernel
    >>> product = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(512, 512), B=(512, 512))
    >>> cheapest_kernels(DeviceUnit(Kernel("eop", {}, ("A", "B"), "O"), product)).space.name
    'register tiles'
    """
    candidates: list[CodeCandidate] = []
    usual, plan = None, usual_plan(unit.statement)
    for space in device_spaces(unit, device):
        check_time()
        candidates.append(CodeCandidate(space, space.start()))
        point = space.point_of(plan)
        if point is not None and space.fits(point):
            usual = CodeCandidate(space, point)
    best = min(candidates, key=lambda candidate: candidate.cycles)
    if usual is not None:
        lead = max(LEAD_CYCLES, (LEAD - 1) * best.cycles)
        if usual.cycles <= best.cycles + lead:
            return usual
    return best
