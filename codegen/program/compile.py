"""Compile a program: for the CPU, for a CUDA device, or to be run by NumPy (design §10, §12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from codegen.lowering.schedule import DEFAULT, Schedule
from codegen.program.build import KernelBuilder, KernelCall, compile_together
from codegen.program.cuda_executable import compile_cuda
from codegen.program.executable import LOG, NUMPY, Executable, FixedKernels
from codegen.program.restore import KernelOf, RestoredProgram
from codegen.runtime.protocol import Buffers
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, Compiler, find_compiler
from codegen.targets.cuda.lowering.schedule import schedule_for_accuracy
from einalg.errors import CodegenError, EinalgError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope, inner_scopes

FIND = "find"  # the compiler of this machine


def compile_program(
    program: Program | Scope,
    kernels: Sequence[Kernel] | None = None,
    target: str = "cpu",
    compiler: Compiler | str | None = FIND,
    schedule: Schedule = DEFAULT,
    timeout: float = COMPILE_TIMEOUT_SECONDS,
    accuracy: float | None = None,
) -> Executable:
    """A flat program (no nested scopes) and one kernel a statement, in order, as something that runs.

    Operators that no library here has are generated like eOperators, which is also what happens without `kernels`. `compiler=None`
    runs the program through NumPy; so does, with a warning, a machine without a C compiler. `timeout` is in seconds, for the
    compiler. Raises `CodegenError`. For `target="cuda"` all operators are generated; a device is needed only to run them. Values there
    may differ by `accuracy`, relative to the largest element.

    >>> import einalg as ea
    >>> run = compile_program(ea.parse("O[i] += A[i,j]", A=(2, 3)))
    >>> run(A=[[1, 2, 3], [4, 5, 6]])
    array([ 6., 15.], dtype=float32)
    """
    program = as_program(program)
    kernels = checked(program, kernels)
    if target == "cuda":
        return compile_cuda(program, kernels, schedule_for_accuracy(accuracy))
    if target != "cpu":
        raise CodegenError(
            f"no code can be generated for the target {target!r}\n  use target='cpu' or target='cuda'"
        )
    if compiler == FIND:
        compiler = find_compiler()
        if compiler is None:
            LOG.warning(
                "einalg: no C compiler works here, so programs run through NumPy, often ten times slower; install gcc or clang, or set CC"
            )
    if not isinstance(compiler, Compiler):
        return Executable(program, target, [_executed(program, kernels)], FixedKernels(kernels))
    return _made(KernelBuilder(program, kernels, compiler, schedule, timeout))


def known_program(record: Any, program: Program, kernel_of: KernelOf) -> Executable | None:
    """The program that `record` was made of as it was compiled, of which hardly a statement is looked at; `kernel_of` gives the kernel of one.

    None where there is no compiler, the record is broken or of another state of this machine, or what it names is no longer there.
    """
    compiler = find_compiler()
    if record is None or compiler is None:
        return None
    try:
        kept = RestoredProgram(record, program, kernel_of, compiler)
        steps = kept.steps()
        return None if steps is None else Executable(kept.program, "cpu", steps, kept)
    except (ValueError, TypeError, KeyError, AttributeError, EinalgError) as error:
        LOG.warning(
            "einalg: the record of a compiled program in the cache is damaged (%s); it is compiled again",
            error,
        )
        return None


def compile_apart(
    programs: Sequence[tuple[Program, Sequence[Kernel]]],
    target: str = "cpu",
    accuracy: float | None = None,
) -> list[Callable[[], Executable]]:
    """Functions that give programs as `compile_program` does, one by one; what these need is compiled now, on all cores at once."""
    compiler = find_compiler() if target == "cpu" else None
    if compiler is None:
        return [
            partial(compile_program, program, kernels, target, accuracy=accuracy)
            for program, kernels in programs
        ]
    makings = [
        KernelBuilder(program, checked(program, kernels), compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS)
        for program, kernels in programs
    ]
    compile_together(makings)
    return [partial(_made, making) for making in makings]


def _made(making: KernelBuilder) -> Executable:
    steps = making.steps()
    return Executable(making.program, "cpu", steps, making)


def checked(program: Program, kernels: Sequence[Kernel] | None) -> list[Kernel]:
    """One kernel a statement, each with the statement's scope."""
    if kernels is None:
        kernels = [
            Kernel(EOP, {it.index.name: it.extent for it in s.iterators}, tuple(s.tensors), name)
            for name, s in program.statements
        ]
    outputs = [kernel.output for kernel in kernels]
    if outputs != list(program.names):
        raise CodegenError(
            f"the kernels compute {', '.join(outputs) or 'nothing'}, but the program has the statements {', '.join(program.names)}"
        )
    nested = [name for name, scope in program.statements if inner_scopes(scope)]
    if nested:
        raise CodegenError(
            f"statement {nested[0]} reads an inner scope\n  give each inner scope a statement of its own first"
        )
    return [replace(kernel, scope=program[kernel.output]) for kernel in kernels]


def _executed(program: Program, kernels: Sequence[Kernel]) -> KernelCall:
    """The whole program through the NumPy executor."""

    def run(buffers: Buffers) -> None:
        for name, value in execute(program, buffers).items():
            buffers[name][...] = value

    return KernelCall(kernels[-1].output, NUMPY, run)
