"""Convolutions with few filters as generated code."""

from __future__ import annotations

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.builder import LoopBuilder
from codegen.ir.nodes import Function
from codegen.kernels.stencil.loop_nest import write_stencil
from codegen.kernels.stencil.problem import stencils_of
from codegen.kernels.stencil.tile_choice import choose_tile
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
    """Return the generated function of a convolution computed in `dtype`.

    None where a kernel is none, or would compute no more than `rate` products in a cycle. With an
    `epilogue`, a statement that reads its results, the function stores this one; None where it
    cannot. Threads share it where `parallel`; where that is None, if it takes long enough.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = A[i]", A=(3,))
    >>> stencil_function(Kernel("eop", {}, ("A",), "O"), scope, "f32") is None
    True
    """
    stencils = stencils_of(kernel, scope, dtype, epilogue)
    if not stencils:
        return None
    target = target or machine()
    work = cycles = 0
    tiles = []
    for stencil in stencils:
        tile, tile_cycles = choose_tile(stencil, target)
        tiles.append(tile)
        work += stencil.work
        cycles += tile_cycles
    if work <= rate * cycles:
        return None
    first = stencils[0]
    if parallel is None:
        parallel = pays(work, first.left.buf, first.right.buf)
    operands = (first.left, first.right, *first.epilogue_operands)
    inputs = {operand.buf.name: operand.buf for operand in operands}
    out = first.target.buf
    w = LoopBuilder((*inputs, out.name))
    for stencil, tile in zip(stencils, tiles):
        write_stencil(w, stencil, tile, parallel)
    return Function(out.name, tuple(inputs.values()), out, tuple(w.out), str(scope))
