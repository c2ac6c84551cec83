"""A statement as a CUDA kernel: a contraction in tiles, a reduction that threads share, or a map (design §10)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from codegen.cuda.contraction import ContractionSource, choose_tile, contraction, contraction_kernel
from codegen.cuda.map import map_kernel
from codegen.cuda.points import CudaSource
from codegen.cuda.reduction import reduction_kernel, shared_reductions
from codegen.cuda.schedule import CUDA_DEFAULT, CudaSchedule
from codegen.ir import Function
from einalg.scope import Scope


def lower_cuda(name: str, scope: Scope, holes: Mapping[str, Scope] | None = None, schedule: CudaSchedule = CUDA_DEFAULT) -> Function:
    """The statement `name = scope` as loops over blocks and threads; arguments and errors as in `codegen.lower.lower`.

    >>> import einalg as ea
    >>> f = lower_cuda("O", ea.parse("O[i] = A[i] + 1", A=(1000,)))
    >>> f.body[0].kind, f.body[0].extent, f.body[0].body[0].kind, f.body[0].body[0].extent
    ('block', 4, 'thread', 256)
    """
    source = CudaSource(name, scope, holes or {}, schedule)
    if not prod(source.output.shape):
        return source.function(())
    tiled = ContractionSource(name, scope, holes or {}, schedule)
    found = contraction(tiled)
    tile = choose_tile(found, tiled.accumulated(found.reduce), schedule) if found else None
    if found and tile:
        return contraction_kernel(tiled, found, tile)
    reduces = shared_reductions(source)
    return reduction_kernel(source, reduces) if reduces else map_kernel(source)
