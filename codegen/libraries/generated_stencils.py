"""Convolutions with few filters as generated code."""

from __future__ import annotations

from codegen.ir import Function
from codegen.machine import Machine, machine
from codegen.stencil import stencils_of
from codegen.stencil_nest import form, stencil_nest
from codegen.threads import pays
from codegen.writer import Writer
from einalg.kernel import Kernel
from einalg.scope import Scope


def stencil_function(
    kernel: Kernel,
    scope: Scope,
    dtype: str,
    rate: float = 0.0,
    target: Machine | None = None,
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
    forms = [form(stencil, target) for stencil in stencils]
    work = sum(stencil.work for stencil in stencils)
    if work <= rate * sum(cycles for _, cycles in forms):
        return None
    first = stencils[0]
    threads = pays(work, first.left.buf, first.right.buf) if parallel is None else parallel
    inputs = {operand.buf.name: operand.buf for operand in (first.left, first.right, *first.beside)}
    w = Writer((*inputs, first.target.buf.name))
    for stencil, (numbers, _) in zip(stencils, forms):
        stencil_nest(w, stencil, numbers, threads)
    return Function(first.target.buf.name, tuple(inputs.values()), first.target.buf, tuple(w.out), str(scope))
