"""Baselines: a program as it is written, by NumPy, generated loops, and each library."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.libraries import library_kernels
from codegen.program.building.generated_code import KernelCall
from codegen.program.compile import compile_program
from codegen.program.executable import Executable, FixedKernels
from codegen.targets.c.compiler import find_compiler
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program

EXECUTOR = "NumPy, by operation"
LOOPS = "generated C"
CUDA = "generated CUDA"
OURS = (EXECUTOR, LOOPS, CUDA)  # which run whatever is written


def as_written(
    program: Program, kernels: Sequence[Kernel], target: str = "cpu"
) -> dict[str, Executable]:
    """Return a flat program with these kernels in each implementation, by its name.

    A library takes part where it has every operator.

    >>> import einalg as ea
    >>> product = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3))
    >>> d = ea.derive(product, states=0, measure=False)
    >>> "numpy" in as_written(d.best.program, d.best.kernels)
    True
    """
    if target == "cuda":
        return {CUDA: compile_program(program, None, target)}
    baselines = {EXECUTOR: compile_program(program, kernels, compiler=None)}
    if find_compiler() is None:
        return baselines
    loops = compile_program(program)
    baselines[LOOPS] = loops
    for name in _libraries(program, kernels):
        baselines[name] = _by_library(name, program, kernels, loops)
    return baselines


def _libraries(program: Program, kernels: Sequence[Kernel]) -> list[str]:
    """Return the implementations that libraries have of every operator of a program."""
    common: list[str] | None = None
    for kernel in kernels:
        if not kernel.is_eop:
            available = library_kernels(kernel, program[kernel.output])
            if common is None:
                common = list(available)
            common = [name for name in common if name in available]
    return common or []


def _by_library(
    name: str, program: Program, kernels: Sequence[Kernel], loops: Executable
) -> Executable:
    """Return the operators by a library, and what is between them by generated loops."""
    steps: list[KernelCall] = []
    for kernel, step in zip(kernels, loops._steps):
        if not kernel.is_eop:
            run = library_kernels(kernel, program[kernel.output])[name]
            step = KernelCall(kernel.output, name, run)
        steps.append(step)
    return Executable(program, loops.target, steps, FixedKernels(kernels, loops.source))
