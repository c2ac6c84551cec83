"""The ways to run a program as it is written, for a comparison: NumPy, generated loops, and each library that has its operators."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.libraries import library_kernels
from codegen.program.compile import compile_program
from codegen.program.executable import Executable, FixedKernels
from codegen.program.generated_code import KernelCall
from codegen.runtime.protocol import KernelFunction
from codegen.targets.c.compiler import find_compiler
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program

OURS = EXECUTOR, LOOPS, CUDA = (
    "NumPy, operation by operation",
    "generated C",
    "generated CUDA",
)  # which run whatever is written


def as_written(
    program: Program, kernels: Sequence[Kernel], target: str = "cpu"
) -> dict[str, Executable]:
    """Every way to run a flat program with these kernels, by its name; a library takes part where it has every operator.

    >>> import einalg as ea
    >>> d = ea.derive(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3)), states=0, measure=False)
    >>> "numpy" in as_written(d.best.program, d.best.kernels)
    True
    """
    if target == "cuda":
        return {CUDA: compile_program(program, None, target)}
    found = {EXECUTOR: compile_program(program, kernels, compiler=None)}
    if find_compiler() is not None:
        found[LOOPS] = loops = compile_program(program)
        found |= {name: _by(name, program, kernels, loops) for name in _libraries(program, kernels)}
    return found


def _libraries(program: Program, kernels: Sequence[Kernel]) -> list[str]:
    """The ways of libraries in which every operator of a program can be run, in the order in which they are known."""
    offers = [library_kernels(kernel, program[kernel.output]) for kernel in kernels if not kernel.is_eop]
    return [
        name for name in (offers[0] if offers else ()) if all(name in offer for offer in offers)
    ]


def _by(name: str, program: Program, kernels: Sequence[Kernel], loops: Executable) -> Executable:
    """The operators by a library, what is between them by generated loops."""

    def run(kernel: Kernel) -> KernelFunction:
        return library_kernels(kernel, program[kernel.output])[name]

    steps = [
        step if kernel.is_eop else KernelCall(kernel.output, name, run(kernel))
        for kernel, step in zip(kernels, loops._steps)
    ]
    return Executable(program, loops.target, steps, FixedKernels(kernels, loops.source))
