"""Depthwise convolutions with neighbouring channels as generated code."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.builder import LoopBuilder
from codegen.ir.nodes import Buf, Function
from codegen.kernels.depthwise.loop_nest import packing_function, write_depthwise, write_packing
from codegen.kernels.depthwise.problem import Depthwise
from codegen.kernels.depthwise.tile_choice import DepthwiseTile, choose_tile
from codegen.kernels.strided_axes import extent
from codegen.lowering.parallel import pays


def depthwise_function(
    problem: Depthwise,
    comment: str = "",
    target: CpuModel | None = None,
    tile: DepthwiseTile | None = None,
    parallel: bool | None = None,
) -> Function | None:
    """Return the function of a depthwise convolution; None where no register tile fits.

    Weights that do not lie as the nest reads them are packed: before the run if they are
    compile-time constants. Threads share it where `parallel`; where that is None, if it takes long
    enough.
    """
    if tile is None:
        choice = choose_tile(problem, target or machine())
        if choice is None:
            return None
        tile = choice[0]
    if parallel is None:
        parallel = pays(problem.work, problem.left.buf, problem.right.buf)
    kind = "seq"
    if parallel:
        kind = "par"
    out = problem.target.buf
    names = (*_inputs(problem), out.name)
    packs: tuple[Function, ...] = ()
    w = LoopBuilder(names)
    if not problem.packs_weights:
        write_depthwise(w, problem, tile, kind)
    elif problem.right.ahead:
        packed = Buf(_packed_name(problem, names), _packed_shape(problem), problem.dtype)
        packs = (packing_function(problem, packed, names),)
        problem = problem.packed(packed)
        w = LoopBuilder((*names, packed.name))
        write_depthwise(w, problem, tile, kind)
    else:
        packed = w.local("weights", _packed_shape(problem), problem.dtype)
        write_packing(w, problem, packed)
        write_depthwise(w, problem.packed(packed), tile, kind)
    inputs = tuple(_inputs(problem).values())
    return Function(out.name, inputs, out, tuple(w.out), comment, packs)


def _inputs(problem: Depthwise) -> dict[str, Buf]:
    """Return the buffers that a problem reads, by their names."""
    operands = (problem.left, problem.right, *problem.epilogue_operands)
    return {operand.buf.name: operand.buf for operand in operands}


def _packed_shape(problem: Depthwise) -> tuple[int, ...]:
    return (extent(problem.weight_axes),)


def _packed_name(problem: Depthwise, names: Sequence[str]) -> str:
    """Return a name for packed weights that no other buffer has."""
    name = f"{problem.right.buf.name}_for_{problem.target.buf.name}"
    while name in names:
        name += "_"
    return name
