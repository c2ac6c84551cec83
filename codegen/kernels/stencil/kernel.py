"""Convolutions with few filters as generated code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.builder import LoopBuilder
from codegen.ir.nodes import Function
from codegen.kernels.stencil.loop_nest import write_stencil
from codegen.kernels.stencil.problem import Stencil, stencils_of
from codegen.kernels.stencil.tile_choice import StencilTile, choose_tile
from codegen.lowering.parallel import pays
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope


@dataclass(frozen=True)
class StencilPlan:
    """A convolution as stencils, each with its register tile."""

    stencils: tuple[Stencil, ...]
    tiles: tuple[StencilTile, ...]


def planned_stencils(
    kernel: Kernel,
    scope: Scope,
    dtype: str,
    target: CpuModel | None = None,
    epilogue: tuple[str, Scope] | None = None,
) -> StencilPlan | None:
    """Return a convolution computed in `dtype` as stencils with their tiles; None where it is none.

    With an `epilogue`, a statement that reads its results, they store this one; None where they
    cannot.
    """
    stencils = stencils_of(kernel, scope, dtype, epilogue)
    if not stencils:
        return None
    tiles = [choose_tile(stencil, target or machine())[0] for stencil in stencils]
    return StencilPlan(tuple(stencils), tuple(tiles))


def stencil_function(
    kernel: Kernel,
    scope: Scope,
    dtype: str,
    target: CpuModel | None = None,
    parallel: bool | None = None,
    epilogue: tuple[str, Scope] | None = None,
) -> Function | None:
    """Return the generated function of a convolution computed in `dtype`; None where it is none.

    With an `epilogue`, a statement that reads its results, the function stores this one; None where
    it cannot. Threads share it where `parallel`; where that is None, if it takes long enough.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = A[i]", A=(3,))
    >>> stencil_function(Kernel("eop", {}, ("A",), "O"), scope, "f32") is None
    True
    """
    plan = planned_stencils(kernel, scope, dtype, target, epilogue)
    if plan is None:
        return None
    return tiled_stencils(plan.stencils, plan.tiles, str(scope), parallel)


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
