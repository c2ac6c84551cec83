"""Convolutions with few filters as generated code."""

from __future__ import annotations

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.builder import LoopBuilder
from codegen.ir.nodes import Function
from codegen.kernels.stencil.loop_nest import choose_tile, write_stencil
from codegen.kernels.stencil.problem import stencils_of
from codegen.lowering.parallel import pays
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope


def stencil_function(
    kernel: Kernel,
    scope: Scope,
    dtype: str,
    rate: float = 0.0,
    target: CpuModel | None = None,
    parallel: bool | None = None,
    epilogue: tuple[str, Scope] | None = None,
) -> Function | None:
    """The generated function of a convolution computed in `dtype`; None where it is none, or no faster than `rate` products in a cycle.

    With an `epilogue`, a statement that reads its results, the function stores this one; None where it cannot.

    >>> import einalg as ea
    >>> stencil_function(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,)), "f32") is None
    True
    """
    stencils, target = stencils_of(kernel, scope, dtype, epilogue), target or machine()
    if not stencils:
        return None
    forms = [choose_tile(stencil, target) for stencil in stencils]
    work = sum(stencil.work for stencil in stencils)
    if work <= rate * sum(cycles for _, cycles in forms):
        return None
    first = stencils[0]
    threads = pays(work, first.left.buf, first.right.buf) if parallel is None else parallel
    inputs = {operand.buf.name: operand.buf for operand in (first.left, first.right, *first.beside)}
    w = LoopBuilder((*inputs, first.target.buf.name))
    for stencil, (numbers, _) in zip(stencils, forms):
        write_stencil(w, stencil, numbers, threads)
    return Function(
        first.target.buf.name, tuple(inputs.values()), first.target.buf, tuple(w.out), str(scope)
    )
