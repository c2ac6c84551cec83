"""What this machine does in a second, measured: single kernels, and the rates of a roofline (design §8)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import median
from time import perf_counter

import numpy as np

from codegen.arguments import sample
from codegen.compiled import compile_program
from codegen.compiler import cpu, find_compiler
from einalg.access import Tensor
from einalg.kernel import Kernel
from einalg.program import Program, substitute_tensors
from einalg.scope import Scope
from einalg.text import parse

SECONDS = 0.03  # that one kernel is repeated for
MOST_REPEATS = 50
SIZE = 384  # of the matrices whose product is timed
STREAM = 1 << 22  # elements that do not fit into a core's caches
SHORT, TAPS = 1 << 17, 32  # elements that do, and products for each of them


def identity(target: str) -> str:
    """Everything that a measurement depends on but the kernel: the machine, its threads, the compiler, NumPy and einalg."""
    from einalg import __version__

    compiler = find_compiler()
    tools = "no compiler" if compiler is None else "\n".join((*compiler.command, compiler.version, *compiler.flags))
    threads = "\n".join(f"{name}={os.environ.get(name, '')}" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"))
    return "\n".join((target, cpu(), str(_cores()), threads, tools, np.__version__, __version__))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def alone(kernel: Kernel, scope: Scope) -> Program:
    """One statement as a program of its own, whose inputs are what it reads."""
    values = {name: Tensor(name, t.axes, t.dtype) for name, t in scope.tensors.items() if t.role == "intermediate"}
    return Program([(kernel.output, substitute_tensors(scope, values))])


def kernel_seconds(program: Program, kernel: Kernel, target: str = "cpu") -> float:
    """The median time of one statement of a flat program, compiled by itself and run on random inputs; `CodegenError` where it does not compile.

    >>> import einalg as ea
    >>> program = ea.parse("T[i] = A[i] + 1\\nO[i] = T[i]*A[i]", A=(3,))
    >>> 0 < kernel_seconds(program, Kernel("eop", {}, ("T", "A"), "O")) < 1
    True
    """
    return _seconds(alone(kernel, program[kernel.output]), [kernel], target)


def _seconds(program: Program | Scope, kernels: Sequence[Kernel] | None, target: str) -> float:
    """The median time of a program of one statement, in memory that is used again; repeated for `SECONDS`, at least once."""
    run = compile_program(program, kernels, target)
    arrays = sample(run.program.tensors)
    first = sum(run.time(1, **arrays).values())
    repeats = min(MOST_REPEATS, int(SECONDS / max(first, 1e-9)))
    return sum(run.time(repeats, **arrays).values()) if repeats > 1 else first


def rates(target: str = "cpu") -> dict[str, float]:
    """Operations per second of the library and of generated code, bytes per second of memory, and seconds of an empty call."""
    left, right = (np.ones((SIZE, SIZE), np.float32) for _ in range(2))
    out = np.empty_like(left)
    spent = []
    for _ in range(6):
        began = perf_counter()
        np.matmul(left, right, out=out)
        spent.append(perf_counter() - began)
    library = 2 * SIZE**3 / median(spent[1:])
    stencil = parse(f"O[i:{SHORT}] += A[i+r]*K[r]", A=(SHORT + TAPS,), K=(TAPS,))
    generated = 2 * TAPS * SHORT / _seconds(stencil, None, target)
    bandwidth = 8 * STREAM / _seconds(parse("O[i] = A[i]+1", A=(STREAM,)), None, target)
    call = _seconds(parse("O[i] = A[i]+1", A=(1,)), None, target)
    return {"library": library, "generated": generated, "bandwidth": bandwidth, "call": call}
