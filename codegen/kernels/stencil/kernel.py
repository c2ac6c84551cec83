"""Convolutions with few filters as generated code."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.builder import LoopBuilder
from codegen.ir.nodes import Function
from codegen.kernels.stencil.loop_nest import write_stencil
from codegen.kernels.stencil.problem import Stencil
from codegen.kernels.stencil.tile_choice import StencilTile
from codegen.lowering.parallel import pays


def tiled_stencils(
    stencils: Sequence[Stencil],
    tiles: Sequence[StencilTile],
    comment: str,
    parallel: bool | None = None,
) -> Function:
    """Return the function of stencils that share their operands, each with its register tile.

    Threads share it where `parallel`; where that is None, if it takes long enough.
    """
    first = stencils[0]
    if parallel is None:
        work = sum(stencil.work for stencil in stencils)
        parallel = pays(work, first.left.buf, first.right.buf)
    operands = (first.left, first.right, *first.epilogue_operands)
    inputs = {operand.buf.name: operand.buf for operand in operands}
    out = first.target.buf
    w = LoopBuilder((*inputs, out.name))
    for stencil, tile in zip(stencils, tiles, strict=True):
        write_stencil(w, stencil, tile, parallel)
    return Function(out.name, tuple(inputs.values()), out, tuple(w.out), comment)
