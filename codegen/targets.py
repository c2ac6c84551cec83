"""Programs for a target, within the accuracy that is asked of them."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.compiled import Compiled, checked, compile_program
from einalg.kernel import Kernel
from einalg.program import Program


def compile_within(program: Program, kernels: Sequence[Kernel], target: str, accuracy: float | None = None) -> Compiled:
    """A flat program as something that runs on a target, whose values may differ by `accuracy`, relative to the largest element.

    Arguments and errors are those of `codegen.compiled.compile_program`.
    """
    if target != "cuda":
        return compile_program(program, kernels, target)
    from codegen.cuda.compiled import compile_cuda
    from codegen.cuda.schedule import allowing

    return compile_cuda(program, checked(program, kernels), allowing(accuracy))
