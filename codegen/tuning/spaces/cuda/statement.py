"""A unit as the spaces of CUDA kernels see it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from codegen.hardware.gpu import H100, GpuModel, KernelResources
from codegen.ir.nodes import Function
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import MAX_THREAD_REGISTERS
from codegen.targets.cuda.lowering.lower import CudaStatement, planned_kernels
from codegen.targets.cuda.lowering.plans import KernelPlan
from codegen.targets.cuda.lowering.products.contraction import ContractionSource
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT, CudaSchedule
from codegen.targets.cuda.text.geometry import bounded_blocks
from codegen.tuning.spaces.cuda.body_cost import OF_QUOTIENT
from codegen.tuning.spaces.cuda.device_cost import (
    LAUNCH_CYCLES,
    KernelWork,
    kernel_cycles,
)
from codegen.tuning.spaces.points import Point
from codegen.tuning.spaces.space import CodeCandidate, Fields
from codegen.tuning.spaces.unit import CodeUnit, Reader

OWN_REGISTERS = 24  # of any thread, for addresses and the point that it computes


@dataclass(frozen=True, eq=False)
class DeviceUnit(CodeUnit):
    """A unit that a device computes; no buffer between its kernels has one of the `used_names`."""

    schedule: CudaSchedule = CUDA_DEFAULT
    used_names: frozenset[str] = frozenset()

    @property
    def statement(self) -> CudaStatement:
        return CudaStatement(self.name, self.scope, self.statements, self.schedule, self.used_names)


class DeviceSpace(Fields):
    """Kernels of one kind; `work` says what those of a point ask of a device."""

    name: str

    def __init__(self, unit: DeviceUnit, device: GpuModel = H100):
        self.unit, self.device = unit, device
        self._cycles: dict[Point, float] = {}

    @cached_property
    def source(self) -> ContractionSource:
        """Return the statement in which points are counted and reads are looked at."""
        return self.unit.statement.contraction()

    @abstractmethod
    def work(self, point: Point) -> KernelWork:
        """Return what the kernel of a point asks of a device, the first one where there are two."""

    @abstractmethod
    def plan(self, point: Point) -> KernelPlan:
        """Return the plan of the kernels of a point."""

    @abstractmethod
    def point_of(self, plan: KernelPlan) -> Point | None:
        """Return the point of a plan; None where it is one of another kind of kernel."""

    def added_bytes(self, point: Point) -> float:
        """Return the bytes that go from a first kernel to a second one; 0 where there is one."""
        return 0.0

    def bytes_of_parts(self, parts: int, dtype: str) -> float:
        """Return the bytes of sums of a type that are written and read once more, in parts.

        They are 0 where a sum has one part, and a second kernel does not start.
        """
        if parts == 1:
            return 0.0
        return float(2 * parts * prod(self.unit.scope.shape) * element_size(dtype))

    def cycles(self, point: Point) -> float:
        if not prod(self.unit.scope.shape):
            return 0.0  # no kernel starts
        if point not in self._cycles:
            cycles, added = kernel_cycles(self.work(point), self.device), self.added_bytes(point)
            if added:
                cycles += LAUNCH_CYCLES + added / self.device.memory
            self._cycles[point] = cycles
        return self._cycles[point]

    def build(self, point: Point) -> tuple[Function, ...]:
        return tuple(planned_kernels(self.unit.statement, self.plan(point)))

    def with_epilogue(self, point: Point, epilogue: Reader) -> CodeCandidate | None:
        return None


def bounded_registers(threads: int, private_bytes: int = 0) -> int:
    """Return the registers that a thread of a block may have, as its kernel is compiled."""
    held = threads * bounded_blocks(threads, private_bytes)
    return min(MAX_THREAD_REGISTERS, H100.registers // held // 8 * 8)


def plain_resources(threads: int, values: int, dtype: str) -> KernelResources:
    """Return the estimated resources of a kernel whose threads hold some values of a type."""
    registers = OWN_REGISTERS + values * max(1, element_size(dtype) // 4)
    return KernelResources(threads, min(bounded_registers(threads), registers), 0)


def index_instructions(levels: Sequence[object]) -> float:
    """Return what the indices of a point cost that one number counts."""
    return OF_QUOTIENT * 2 * max(0, len(levels) - 1) + 2
