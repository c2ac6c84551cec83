"""Schedules of whole programs: their units are searched together, equal ones once (design §16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from codegen.hardware.cpu import machine
from codegen.hardware.gpu import GpuModel, gpu_model
from codegen.lowering.schedule import DEFAULT
from codegen.program.building.problem import BuildProblem, with_filled_gaps
from codegen.program.building.tunable_units import tunable_units
from codegen.program.compile import checked_kernels
from codegen.program.device_units import device_units
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, Compiler, find_compiler
from codegen.targets.cuda.device.find import find_driver
from codegen.targets.cuda.device.nvcc import require_nvcc
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT, CudaSchedule
from codegen.tuning.measuring.compilation import CandidateCompiler
from codegen.tuning.measuring.device_task import KernelCompiler
from codegen.tuning.records.log import TuningLog
from codegen.tuning.records.provenance import Provenance
from codegen.tuning.search.measured_unit import statement_text
from codegen.tuning.search.program_tuner import TuningPlan, tune_units
from codegen.tuning.search.strategies import ABLATIONS
from codegen.tuning.search.targets import DeviceTarget, ProcessorTarget, SearchTarget
from codegen.tuning.search.task_scheduler import Scheduler, by_gradient
from codegen.tuning.search.tuner import UnitTuning, UntunedUnit
from codegen.tuning.spaces.cuda.statement import DeviceUnit
from codegen.tuning.spaces.cuda.unit_spaces import cheapest_kernels
from codegen.tuning.spaces.unit import RepeatedUnit
from codegen.tuning.spaces.unit_spaces import cheapest
from einalg.errors import CodegenError
from einalg.language.analysis.compile_time import compile_time_constants
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.runtime.clock import Clock
from einalg.text.wording import counted, milliseconds

CANDIDATE_SECONDS = 60.0  # for compiling a file of candidates


@dataclass(frozen=True)
class RepeatedProgram:
    """A flat program with its kernels, and how often a run of the whole runs it."""

    program: Program
    kernels: Sequence[Kernel]
    count: int = 1


@dataclass(frozen=True)
class TuningOptions:
    """The options of a search; those of `einalg.tune`.

    The `strategy` may also be one of `ABLATIONS`, which `bench.ablation` compares, and units may be
    searched in turns, with which `bench.scheduler` compares the gradient.
    """

    trials: int = 64
    executor: Any = None
    strategy: str = "evolution"
    seed: int = 0
    latency: float = 0.0
    target: str = "cpu"
    scheduler: Scheduler = by_gradient


@dataclass(frozen=True)
class ProgramTuning:
    """What came of the units of programs; `log` is the file with all measurements."""

    units: Sequence[UnitTuning]
    untuned: Sequence[UntunedUnit]
    log: Path

    @classmethod
    def of(cls, results: Iterable[UnitTuning | UntunedUnit], log: Path) -> ProgramTuning:
        """Return what came of units, those apart that stayed untuned."""
        units: list[UnitTuning] = []
        untuned: list[UntunedUnit] = []
        for result in results:
            if isinstance(result, UnitTuning):
                units.append(result)
            else:
                untuned.append(result)
        return cls(tuple(units), tuple(untuned), log)

    def gain_in_words(self) -> str | None:
        """Return what was gained in words; None where each kernel keeps the start of its search."""
        changed = [unit for unit in self.units if unit.is_stored and unit.winner != unit.start]
        if not changed:
            return None
        before = sum(unit.share.count * unit.start_seconds for unit in self.units)
        after = sum(unit.share.count * unit.seconds for unit in self.units)
        kernels, trials = counted(len(changed), "kernel"), sum(unit.trials for unit in self.units)
        return (
            f"{kernels} with a schedule that was found by {counted(trials, 'trial')}: "
            f"{milliseconds(before)} -> {milliseconds(after)}, each kernel by itself"
        )


def tune_programs(
    programs: Iterable[RepeatedProgram], options: TuningOptions, clock: Clock
) -> ProgramTuning:
    """Search for the fastest schedules of all units of some programs.

    Raises `CodegenError` where there is no C compiler, and `DeviceError` where there is no device.
    """
    if options.target == "cuda":
        return _tuned_on_device(programs, options, clock)
    compiler = measuring_compiler()
    log = TuningLog.here(Provenance.here(compiler))
    units: list[RepeatedUnit] = []
    with TemporaryDirectory(prefix="einalg-") as folder:
        target = ProcessorTarget(
            CandidateCompiler(compiler, Path(folder), CANDIDATE_SECONDS, options.executor)
        )
        with clock.bounding():
            units = repeated_units(programs, compiler)
        return _tuned(units, target, log, options, clock)


def _tuned_on_device(
    programs: Iterable[RepeatedProgram], options: TuningOptions, clock: Clock
) -> ProgramTuning:
    """Search for the fastest kernels on the device of this machine."""
    device, nvcc, schedule = find_driver(), require_nvcc(), CUDA_DEFAULT
    log = TuningLog.here(Provenance.on_device(device, nvcc))
    compiler = KernelCompiler(nvcc, device.sm, schedule.grid, CANDIDATE_SECONDS)
    target = DeviceTarget(compiler, gpu_model(device.sm))
    units: list[RepeatedUnit] = []
    with clock.bounding():
        units = repeated_device_units(programs, schedule, target.model)
    return _tuned(units, target, log, options, clock)


def _tuned(
    units: Sequence[RepeatedUnit],
    target: SearchTarget,
    log: TuningLog,
    options: TuningOptions,
    clock: Clock,
) -> ProgramTuning:
    strategy = ABLATIONS[options.strategy]()
    plan = TuningPlan(
        target,
        log,
        strategy,
        options.trials,
        options.seed,
        options.latency,
        options.scheduler,
    )
    tuned = ProgramTuning.of(tune_units(units, plan, clock), log.path)
    for tuning in tuned.units:
        clock.course.tell_result(f"{tuning.gain:.2f}x for {tuning.statement}")
    return tuned


def measuring_compiler() -> Compiler:
    """Return the compiler of this machine; `CodegenError` where there is none."""
    compiler = find_compiler()
    if compiler is None:
        raise CodegenError(
            "schedules are compiled to be measured\n  install gcc or clang, or set CC"
        )
    return compiler


def repeated_units(programs: Iterable[RepeatedProgram], compiler: Compiler) -> list[RepeatedUnit]:
    """Return the units of programs, those that are estimated to take longest first."""
    units: dict[str, RepeatedUnit] = {}
    for own in programs:
        kernels = checked_kernels(own.program, own.kernels)
        timeout = COMPILE_TIMEOUT_SECONDS
        problem = BuildProblem.of(own.program, kernels, compiler, DEFAULT, timeout)
        for one in tunable_units(problem):
            _add(units, one, own.count)
    return sorted(units.values(), key=_cycles, reverse=True)


def repeated_device_units(
    programs: Iterable[RepeatedProgram], schedule: CudaSchedule, device: GpuModel
) -> list[RepeatedUnit]:
    """Return the units of programs on a device, those that are estimated to take longest first."""

    def cycles(own: RepeatedUnit) -> float:
        assert isinstance(own.unit, DeviceUnit)
        return own.count * cheapest_kernels(own.unit, device).cycles

    units: dict[str, RepeatedUnit] = {}
    for own in programs:
        kernels = with_filled_gaps(own.program, checked_kernels(own.program, own.kernels))
        known = compile_time_constants(own.program)
        for unit in device_units(own.program, kernels, schedule):
            if unit.name not in known and prod(unit.scope.shape):
                _add(units, RepeatedUnit(unit), own.count)
    return sorted(units.values(), key=cycles, reverse=True)


def _add(units: dict[str, RepeatedUnit], one: RepeatedUnit, count: int) -> None:
    """Add a unit that each of so many runs computes."""
    known = units.setdefault(one.unit.digest, replace(one, count=0))
    stays_warm = known.stays_warm and one.stays_warm
    number = known.count + count * one.count
    units[one.unit.digest] = replace(known, count=number, stays_warm=stays_warm)


def _cycles(own: RepeatedUnit) -> float:
    """Return the cycles of a run that a unit is expected to take."""
    best = cheapest(own.unit, machine())
    if best is None:
        raise CodegenError(
            f"{statement_text(own.unit)} is no one kernel with what follows it\n"
            "  please report the program"
        )
    return own.count * best.cycles
