"""Compile a program: for the CPU, for a CUDA device, or to be run by NumPy (design §10, §12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from codegen.lowering.schedule import DEFAULT, Schedule
from codegen.program.building.built_program import build
from codegen.program.building.compilation import compile_together
from codegen.program.building.generated_code import KernelCall
from codegen.program.building.problem import BuildProblem, with_filled_gaps
from codegen.program.cuda_executable import compile_cuda
from codegen.program.executable import LOG, NUMPY, Executable, FixedKernels
from codegen.program.restore import KernelOf, RestoredProgram
from codegen.runtime.protocol import Buffers
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, Compiler, find_compiler
from codegen.targets.c.object_store import BackgroundCompiler
from codegen.targets.cuda.lowering.threads.schedule import schedule_for_accuracy
from einalg.errors import CodegenError, EinalgError
from einalg.language.index.affine import Index
from einalg.language.index.bounds import is_of_64_bits
from einalg.language.index.constraint import Constraint
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.traversal import reductions

FIND = "find"  # the compiler of this machine


def compile_program(
    program: Program | Scope,
    kernels: Sequence[Kernel] | None = None,
    target: str = "cpu",
    compiler: Compiler | str | None = FIND,
    schedule: Schedule = DEFAULT,
    timeout: float = COMPILE_TIMEOUT_SECONDS,
    accuracy: float | None = None,
    compares: bool = True,
    optimizes: bool = True,
) -> Executable:
    """Return a flat program (no nested scopes) as something that runs.

    `kernels` has one a statement, in order. Operators that no library here has are generated like
    eOperators, which is also what happens without `kernels`. `compiler=None` runs the program
    through NumPy; so does, with a warning, a machine without a C compiler. `timeout` is in seconds,
    for the compiler. Unless it `compares` them, code with the shape of an operator runs without
    being timed beside libraries: that is quick, and nothing is stored of it. Unless it `optimizes`
    the code in full, that is compiled in about half of the time. Raises `CodegenError`.

    For `target="cuda"` all operators are generated; a device is needed only to run them. Values
    there may differ by `accuracy`, relative to the largest element.

    >>> import einalg as ea
    >>> run = compile_program(ea.parse("O[i] += A[i,j]", A=(2, 3)))
    >>> run(A=[[1, 2, 3], [4, 5, 6]])
    array([ 6., 15.], dtype=float32)
    """
    program = as_program(program)
    kernels = checked_kernels(program, kernels)
    if target == "cuda":
        kernels = with_filled_gaps(program, kernels)
        return compile_cuda(program, kernels, schedule_for_accuracy(accuracy))
    if target != "cpu":
        raise CodegenError(
            f"no code can be generated for the target {target!r}\n"
            "  use target='cpu' or target='cuda'"
        )
    if compiler == FIND:
        compiler = find_compiler()
        if compiler is None:
            LOG.warning(
                "einalg: no C compiler works here, so programs run through NumPy, "
                "often ten times slower; install gcc or clang, or set CC"
            )
    if not isinstance(compiler, Compiler):
        step = _numpy_call(program, kernels)
        return Executable(program, target, [step], FixedKernels(kernels))
    problem = BuildProblem.of(program, kernels, compiler, schedule, timeout, compares)
    return _executable(problem if optimizes else problem.quick())


def expected_cycles(program: Program, kernels: Sequence[Kernel]) -> float | None:
    """Return the cycles that the model of generated code expects of a run of a flat program.

    None where there is no compiler. Raises `OutOfTime` where the time for the work under way is
    over.

    >>> import einalg as ea
    >>> from einalg.language.ir.kernel import EOP, Kernel
    >>> kernels, text = [Kernel(EOP, {}, ("A",), "O")], "O[i] = A[i] + 1"
    >>> programs = [as_program(ea.parse(text, A=(size,))) for size in (1000, 4000)]
    >>> one, other = (expected_cycles(program, kernels) for program in programs)
    >>> one < other
    True
    """
    problem = _usual_problem(program, kernels)
    return None if problem is None else problem.cycles()


def expected_seconds(program: Program, kernels: Sequence[Kernel]) -> float:
    """Return about how long generating and compiling a flat program takes, optimized in full.

    What is stored takes no time, nor does a program where there is no compiler.
    """
    problem = _usual_problem(program, kernels)
    return 0.0 if problem is None else problem.expected_seconds()


def _usual_problem(program: Program, kernels: Sequence[Kernel]) -> BuildProblem | None:
    """Return what is to be built for a flat program; None where there is no compiler."""
    compiler = find_compiler()
    if compiler is None:
        return None
    usable = checked_kernels(program, kernels)
    return BuildProblem.of(program, usable, compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS)


def known_program(record: Any, program: Program, kernel_of: KernelOf) -> Executable | None:
    """Return the program that `record` was made of as it was compiled.

    Hardly a statement of it is looked at; `kernel_of` gives the kernel of one. None where there is
    no compiler, the record is broken or of another state of this machine, or what it names is no
    longer there.
    """
    compiler = find_compiler()
    if record is None or compiler is None:
        return None
    try:
        restored = RestoredProgram(record, program, kernel_of, compiler)
        steps = restored.steps()
        if steps is None:
            return None
        return Executable(restored.program, "cpu", steps, restored)
    except (ValueError, TypeError, KeyError, AttributeError, EinalgError) as error:
        LOG.warning(
            "einalg: the record of a compiled program in the cache is damaged (%s); "
            "it is compiled again",
            error,
        )
        return None


def compile_separately(
    programs: Sequence[tuple[Program, Sequence[Kernel]]],
    target: str = "cpu",
    accuracy: float | None = None,
    background: BackgroundCompiler | None = None,
) -> list[Callable[[], Executable]]:
    """Return functions that give programs as `compile_program` does, one by one.

    What these need is compiled now, on all cores at once; with a `background` that only begins.
    """
    compiler = None
    if target == "cpu":
        compiler = find_compiler()
    if compiler is None:
        return [
            partial(compile_program, program, kernels, target, accuracy=accuracy)
            for program, kernels in programs
        ]
    problems: list[BuildProblem] = []
    for program, kernels in programs:
        kernels = checked_kernels(program, kernels)
        problems.append(
            BuildProblem.of(program, kernels, compiler, DEFAULT, COMPILE_TIMEOUT_SECONDS)
        )
    compile_together(problems, background)
    return [partial(_executable, problem) for problem in problems]


def checked_kernels(program: Program, kernels: Sequence[Kernel] | None) -> list[Kernel]:
    """Return one kernel a statement, each with the statement's scope."""
    if kernels is None:
        kernels = [_eoperator(name, scope) for name, scope in program.statements]
    outputs = [kernel.output for kernel in kernels]
    if outputs != list(program.names):
        raise CodegenError(
            f"the kernels compute {', '.join(outputs) or 'nothing'}, "
            f"but the program has the statements {', '.join(program.names)}"
        )
    for name, scope in program.statements:
        if inner_scopes(scope):
            raise CodegenError(
                f"statement {name} reads an inner scope\n"
                "  give each inner scope a statement of its own first"
            )
        for condition in _long_conditions(scope):
            raise CodegenError(
                f"the condition {condition} of statement {name} needs more than 64 bits\n"
                "  divide both of its sides by a number"
            )
    return [replace(kernel, scope=program[kernel.output]) for kernel in kernels]


def _long_conditions(scope: Scope) -> Iterator[Constraint]:
    """Yield the conditions whose index arithmetic is longer than an index of C."""
    parts = (scope, *reductions(scope.body))
    ranges: dict[Index, tuple[int, int]] = {}
    for part in parts:
        ranges.update({it.index: (it.low, it.high) for it in part.iterators})
    for part in parts:
        for condition in part.where:
            if not is_of_64_bits(condition.form, ranges):
                yield condition


def _executable(problem: BuildProblem) -> Executable:
    built = build(problem)
    return Executable(built.program, "cpu", built.steps(), built)


def _eoperator(name: str, scope: Scope) -> Kernel:
    sizes = {iterator.index.name: iterator.extent for iterator in scope.iterators}
    return Kernel(EOP, sizes, tuple(scope.tensors), name)


def _numpy_call(program: Program, kernels: Sequence[Kernel]) -> KernelCall:
    """Return the whole program as one call of the NumPy executor."""

    def run(buffers: Buffers) -> None:
        for name, value in execute(program, buffers).items():
            buffers[name][...] = value

    return KernelCall(kernels[-1].output, NUMPY, run)
