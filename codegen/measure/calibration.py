"""Measure what this machine does in a second: kernels, and the rates of a roofline (design §8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.program.compile import compile_separately
from codegen.program.executable import Executable
from codegen.runtime.array_arguments import sample
from codegen.targets.c.compiler import find_compiler
from codegen.targets.c.object_store import BackgroundCompiler
from codegen.targets.cuda.device.find import find_driver
from codegen.targets.cuda.device.nvcc import require_nvcc
from codegen.targets.cuda.lowering.threads.schedule import schedule_for_accuracy
from codegen.tuning.fingerprint import device_fingerprint, host_fingerprint
from einalg.language.analysis.compile_time import is_weight
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program, as_program, substitute_tensors
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.parser import parse
from einalg.runtime.clock import check_time
from einalg.runtime.measurement import Measurement
from einalg.runtime.timing import (
    MeasuringPolicy,
    Stopwatch,
    device_watch,
    measure,
    processor_watch,
)
from einalg.storage.fingerprint import COST_CODE

SECONDS = 0.02  # that one kernel is repeated for
KERNEL_POLICY = MeasuringPolicy(SECONDS, min_turns=3, max_turns=50)
RATE_POLICY = MeasuringPolicy(0.15, max_turns=100)  # a quiet machine needs a tenth of it
SIZE = 384  # of the matrices whose product is timed
STREAM = 1 << 22  # elements that do not fit into a core's caches
PRODUCT = "O[i,j] += A[i,k]*B[k,j]"  # what a device has for a library
SHORT, TAPS = 1 << 17, 32  # elements that do, and products for each of them
FILTER = f"O[i:{SHORT}] += A[i+r]*K[r]"
INCREMENT = "O[i] = A[i]+1"


def identity(target: str, accuracy: float | None = None) -> str:
    """Return everything that a measurement depends on but the kernel, as a text.

    That is the machine, its threads, the compiler, libraries and einalg's own code. The `accuracy`
    that is asked for counts by what it allows a device.
    """
    if target == "cuda":
        precision = "tf32" if schedule_for_accuracy(accuracy).tf32 else "f32"
        device = device_fingerprint(COST_CODE, find_driver(), require_nvcc())
        return "\n".join((target, precision, device.text()))
    return "\n".join((target, host_fingerprint(COST_CODE, find_compiler()).text()))


def kernel_timers(
    kernels: Sequence[Kernel],
    target: str = "cpu",
    accuracy: float | None = None,
    background: BackgroundCompiler | None = None,
) -> list[Callable[[], Measurement]]:
    """Return functions that measure kernels: one statement, compiled by itself and run on random
    inputs, weights given ahead.

    What they need is compiled now, at once; with a `background` that only begins. They raise
    `CodegenError` where that fails. Values may differ by `accuracy`, as those of
    `codegen.program.compile.compile_program`.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] += A[i,j]", A=(2, 3))
    >>> (timer,) = kernel_timers([Kernel("eop", {}, ("A",), "O", scope=scope)])
    >>> 0 < timer().seconds < 1
    True
    """
    return [
        partial(_measured, make, target)
        for make in compile_separately(
            [(_alone(kernel), [kernel]) for kernel in kernels], target, accuracy, background
        )
    ]


def _alone(kernel: Kernel) -> Program:
    assert kernel.scope is not None
    inputs: dict[str, Tensor] = {}
    for name, tensor in kernel.scope.tensors.items():
        if tensor.role == "intermediate":
            inputs[name] = Tensor(name, tensor.axes, tensor.dtype)
    return Program([(kernel.output, substitute_tensors(kernel.scope, inputs))])


def _measured(make: Callable[[], Executable], target: str) -> Measurement:
    run = make()
    arrays = sample(run.program.inputs)
    weights = [name for name, tensor in run.program.inputs.items() if is_weight(tensor)]
    run = run.bind(**{name: arrays.pop(name) for name in weights})
    calls = {"kernel": run.repeated(**arrays)}
    return measure(calls, KERNEL_POLICY, watch=stopwatch(target))["kernel"]


def stopwatch(target: str) -> Stopwatch:
    """Return the stopwatch for `Executable.repeated` on a target."""
    return device_watch if target == "cuda" else processor_watch


def rates(target: str = "cpu", accuracy: float | None = None) -> dict[str, float]:
    """Return what the machine does in a second, as the fields of a `Roofline`.

    Operations per second of the library and of generated code, bytes per second of memory, and
    seconds of an empty call: by the shortest of some turns. A busy moment of the machine is not
    what it can do. Raises `OutOfTime` where the time for it is over.
    """
    calls = _generated_calls(target, accuracy)
    if target == "cpu":
        calls["library"] = _library_call()
    measured = measure(calls, RATE_POLICY, watch=stopwatch(target))
    check_time()  # where it is over, there were few turns: no rates to keep
    seconds = {name: measurement.minimum for name, measurement in measured.items()}
    return {
        "library": 2 * SIZE**3 / seconds["library"],
        "generated": 2 * TAPS * SHORT / seconds["generated"],
        "bandwidth": 8 * STREAM / seconds["bandwidth"],
        "call": seconds["call"],
    }


def _generated_calls(target: str, accuracy: float | None) -> dict[str, Callable[[], Any]]:
    """Return calls of generated code by the rates that they tell; they are compiled at once."""
    scopes = {
        "generated": parse(FILTER, A=(SHORT + TAPS,), K=(TAPS,)),
        "bandwidth": parse(INCREMENT, A=(STREAM,)),
        "call": parse(INCREMENT, A=(1,)),
    }
    if target != "cpu":
        scopes["library"] = parse(PRODUCT, A=(SIZE, SIZE), B=(SIZE, SIZE))
    programs: list[tuple[Program, list[Kernel]]] = []
    for scope in scopes.values():
        kernel = Kernel(EOP, {}, tuple(scope.tensors), "O", scope=scope)
        programs.append((as_program(scope), [kernel]))
    calls: dict[str, Callable[[], Any]] = {}
    for name, make in zip(scopes, compile_separately(programs, target, accuracy), strict=True):
        check_time()
        calls[name] = make().repeated()
    return calls


def _library_call() -> Callable[[], Any]:
    left, right = (np.ones((SIZE, SIZE), np.float32) for _ in range(2))
    return partial(np.matmul, left, right, out=np.empty_like(left))
