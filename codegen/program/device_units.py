"""The units of a program for a device, and the kernels that each is computed with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.hardware.gpu import GpuModel, gpu_model
from codegen.program.building.deduplicate import kernel_signature
from codegen.targets.cuda.device.driver import Driver
from codegen.targets.cuda.device.nvcc import find_nvcc
from codegen.targets.cuda.lowering.threads.schedule import CudaSchedule
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.records.winners import has_winners, winner_of
from codegen.tuning.spaces.cuda.statement import DeviceUnit
from codegen.tuning.spaces.cuda.unit_spaces import cheapest_kernels, device_starts
from codegen.tuning.spaces.space import CodeCandidate
from einalg.errors import DeviceError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.storage.fingerprint import text_digest


def device_units(
    program: Program, kernels: Sequence[Kernel], schedule: CudaSchedule
) -> list[DeviceUnit]:
    """Return the statements of a flat program, one unit each, in order."""
    scopes = dict(program.statements)
    used_names = frozenset({*program.tensors, *program.names})
    units: list[DeviceUnit] = []
    for kernel in kernels:
        signature = kernel_signature(kernel, scopes, ())
        digest = text_digest("device unit", repr(signature.key), repr(schedule))
        units.append(
            DeviceUnit(
                kernel,
                scopes[kernel.output],
                statements=scopes,
                schedule=schedule,
                digest=digest,
                used_names=used_names,
            )
        )
    return units


@dataclass(frozen=True)
class TunedDevice:
    """The device of this machine, on which kernels may have been tuned."""

    provenance: Provenance
    model: GpuModel


def best_kernels(unit: DeviceUnit, device: TunedDevice | None = None) -> CodeCandidate:
    """Return the space and the point with which a unit is computed on a device.

    They are the fastest that were measured there, else the cheapest by the model of the device; of
    an H100, where none is known.

    >>> import einalg as ea
    >>> unit = DeviceUnit(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,)))
    >>> best_kernels(unit).space.name
    'map'
    """
    if device is None:
        return cheapest_kernels(unit)
    tuned = winner_of(unit.digest, device_starts(unit, device.model), device.provenance)
    return tuned or cheapest_kernels(unit, device.model)


def tuned_device(find: Callable[[], Driver]) -> TunedDevice | None:
    """Return the device of this machine, on which kernels may have been tuned.

    None where there is no device, or nothing was tuned; then no device is looked for.
    """
    nvcc = None
    if has_winners():
        nvcc = find_nvcc()
    if nvcc is None:
        return None
    try:
        device = find()
        return TunedDevice(Provenance.on_device(device, nvcc), gpu_model(device.sm))
    except DeviceError:
        return None
