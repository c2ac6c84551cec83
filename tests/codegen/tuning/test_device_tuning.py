"""Kernels of a device are searched as those of a processor are: on a fake device, whose clock
depends on the threads of a block.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.export.cuda.launch_plan import launch_plan
from codegen.hardware.gpu import A100
from codegen.program.compile import checked_kernels
from codegen.program.cuda_executable import compile_cuda
from codegen.program.tune import RepeatedProgram, TuningOptions, tune_programs
from codegen.targets.cuda.device.nvcc import Cubin, Nvcc, Usage
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT
from codegen.targets.cuda.text.printer import cuda_source
from codegen.tuning.measuring.batch import BatchRunner
from codegen.tuning.measuring.device_child import DeviceChild
from codegen.tuning.measuring.device_task import SPILLS, KernelCompiler
from codegen.tuning.measuring.task import OUTCOMES, Outcome
from codegen.tuning.search.targets import device_task
from codegen.tuning.spaces.cuda.statement import DeviceSpace, DeviceUnit
from codegen.tuning.spaces.cuda.unit_spaces import device_starts
from einalg.errors import DeviceError
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import as_program
from einalg.runtime.clock import Clock
from tests.helpers.fake_device import FakeDevice, assemble

FIRST_LAUNCH = 32  # threads of a block, with which the clock below runs slowest
GRID = (2**31 - 1, 65535, 65535)


class TimedDevice(FakeDevice):
    """A device that is the faster the fewer threads a block has."""

    def elapsed(self, run: Any) -> float:
        run()
        return 1e-2 * self.threads

    def run(self, kernel: Any, how: Any, addresses: Any) -> None:
        self.threads = how.threads
        super().run(kernel, how, addresses)


class TextCompiler(Nvcc):
    """In place of nvcc: the text is the machine code."""

    def compile_anew(self, source: str, sm: int, timeout: float) -> Cubin:
        spilled = 8 * ("expf" in source)
        return Cubin(assemble(source, sm), sm, {"kernel_0": Usage(32, spilled, 0)})


def unit(text: str, **shapes: Any) -> DeviceUnit:
    scope = ea.parse(text, **shapes)
    return DeviceUnit(Kernel(EOP, {}, tuple(scope.tensors), "O"), scope)


def in_this_process(device: FakeDevice) -> Any:
    def run(own: BatchRunner, folder: Path, count: int) -> None:
        with (folder / OUTCOMES).open("a", encoding="utf-8") as outcomes:
            DeviceChild.of(device, folder, outcomes).run()

    return run


def compiler() -> KernelCompiler:
    return KernelCompiler(TextCompiler("nvcc", "release 1"), 80, GRID, 1.0)


def test_each_candidate_has_its_time_or_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    one = unit("O[i] += A[i,j]", A=(3, 40))
    monkeypatch.setattr(BatchRunner, "_run", in_this_process(TimedDevice()))
    codes = {number: start.build() for number, start in enumerate(device_starts(one))}
    compiled = compiler().compiled(codes)
    wrong = device_task(unit("O[i] += A[i,j] + 1", A=(3, 40)))
    for task, is_right in ((device_task(one), True), (wrong, False)):
        outcomes = BatchRunner(task).outcomes(compiled)
        assert outcomes.keys() == codes.keys()
        for outcome in outcomes.values():
            assert (outcome.score is not None) == is_right
            assert outcome.reason == (None if is_right else "wrong values")


def test_what_spills_is_refused() -> None:
    kernels = next(device_starts(unit("O[i] = exp(A[i])", A=(4,)))).build()
    (outcome,) = compiler().compiled({0: kernels}).values()
    assert isinstance(outcome, Outcome) and outcome.reason == SPILLS


def test_later_programs_use_the_fastest_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    device, nvcc = TimedDevice(), TextCompiler("nvcc", "release 1")
    monkeypatch.setattr(BatchRunner, "_run", in_this_process(device))
    monkeypatch.setattr("codegen.program.tune.find_driver", lambda: device)
    monkeypatch.setattr("codegen.program.tune.require_nvcc", lambda: nvcc)
    monkeypatch.setattr("codegen.program.device_units.find_nvcc", lambda: nvcc)
    monkeypatch.setattr("codegen.export.cuda.launch_plan.find_driver", lambda: device)
    monkeypatch.setattr("codegen.tuning.search.measured_unit.machine", pytest.fail)
    program = as_program(ea.parse("O[i,j] = A[i,j]*B[j]", A=(96, 16), B=(16,)))
    kernels = checked_kernels(program, None)

    def text() -> str:
        made = compile_cuda(program, kernels, driver=lambda: device, assemble=assemble)
        a, b = np.arange(96 * 16.0).reshape(96, 16), np.arange(16.0)
        assert np.array_equal(made(A=a, B=b), a * b)
        return made.source()

    def exported() -> str:
        inputs = list(program.inputs.items())
        plan = launch_plan("f", inputs, [("O", "O")], {}, [(program, kernels, None)], CUDA_DEFAULT)
        return cuda_source([start.kernel for start in plan.starts])

    before, exported_before = text(), exported()
    options = TuningOptions(trials=4, target="cuda")
    (tuned,) = tune_programs([RepeatedProgram(program, kernels)], options, Clock.of(60.0)).units
    assert tuned.is_stored and tuned.seconds < tuned.start_seconds
    assert tuned.winner.point.threads < tuned.start.point.threads
    assert isinstance(tuned.start.space, DeviceSpace)
    assert tuned.start.space.device is A100, "that is the device of this compute capability"
    assert text() != before and exported() != exported_before


def test_without_a_device_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise DeviceError("there is no CUDA device here")

    monkeypatch.setattr("einalg.api.backend.find_driver", none)
    with pytest.raises(DeviceError, match="no CUDA device"):
        ea.tune("O[i] = A[i]", A=(4,), target="cuda")
