"""What kernels are searched for: this processor, or the device of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from codegen.hardware.cpu import machine
from codegen.hardware.gpu import GpuModel
from codegen.tuning.cost_model.knowledge import UnitKnowledge
from codegen.tuning.kernel_choice import inputs_of
from codegen.tuning.measuring.batch import BatchRunner
from codegen.tuning.measuring.compilation import CandidateCompiler
from codegen.tuning.measuring.device_task import DeviceTask, KernelCompiler
from codegen.tuning.records.log import TuningLog
from codegen.tuning.search.measured_unit import (
    FIRST_SECONDS,
    MeasuredUnit,
    expected_values,
)
from codegen.tuning.spaces.cuda.statement import DeviceUnit
from codegen.tuning.spaces.cuda.unit_spaces import cheapest_kernels, device_starts
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import RepeatedUnit
from codegen.tuning.spaces.unit_spaces import cheapest, starts


class SearchTarget(Protocol):
    """Where the candidates of units run.

    `cache_bytes` are those of memory near by, by which a model measures the bytes of a unit.
    """

    @property
    def cache_bytes(self) -> int: ...

    def starts(self, unit: Any) -> list[CodeCandidate]:
        """Return a candidate of each space: that first which is used without a search."""
        ...

    def measured(self, own: RepeatedUnit, log: TuningLog, knowledge: UnitKnowledge) -> MeasuredUnit:
        """Return a unit whose candidates are measured there."""
        ...


@dataclass(frozen=True)
class ProcessorTarget:
    """The processor of this machine; `compiler` makes shared objects."""

    compiler: CandidateCompiler

    @property
    def cache_bytes(self) -> int:
        return machine().level2

    def starts(self, unit: Any) -> list[CodeCandidate]:
        usual = cheapest(unit, machine())

        def rank(start: CodeCandidate) -> tuple[bool, float]:
            is_other = usual is None or start.space.name != usual.space.name
            return is_other, start.cycles

        return sorted(starts(unit, machine()), key=rank)

    def measured(self, own: RepeatedUnit, log: TuningLog, knowledge: UnitKnowledge) -> MeasuredUnit:
        return MeasuredUnit.of(own.unit, self.compiler, log, knowledge, own.stays_warm)


@dataclass(frozen=True)
class DeviceTarget:
    """The CUDA device of this machine; `compiler` makes machine code for it, `model` prices it."""

    compiler: KernelCompiler
    model: GpuModel

    @property
    def cache_bytes(self) -> int:
        return self.model.multiprocessors * self.model.shared

    def starts(self, unit: DeviceUnit) -> list[CodeCandidate]:
        usual = cheapest_kernels(unit, self.model)
        starts = device_starts(unit, self.model)
        others = [one for one in starts if one.space.name != usual.space.name]
        return [usual, *sorted(others, key=lambda start: start.cycles)]

    def measured(self, own: RepeatedUnit, log: TuningLog, knowledge: UnitKnowledge) -> MeasuredUnit:
        unit = own.unit
        assert isinstance(unit, DeviceUnit)
        return MeasuredUnit(unit, self.compiler, log, BatchRunner(device_task(unit)), knowledge)


def device_task(unit: DeviceUnit) -> DeviceTask:
    """Return what the kernels of a unit are asked to do; they are added later."""
    program = unit.program
    arrays = inputs_of(program.tensors)
    (output,) = program.outputs
    return DeviceTask(
        candidates=(),
        arrays=arrays,
        output=output,
        dtype=program[output].dtype,
        expected=expected_values(unit, arrays),
        first_seconds=FIRST_SECONDS,
    )
