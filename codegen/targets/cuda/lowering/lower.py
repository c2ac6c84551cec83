"""A statement as CUDA kernels: a contraction in tiles, a reduction that threads share, or a map (design §10).

A long sum with few outputs is computed by several blocks, in two kernels: the first one sums parts, the second one adds these up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

from codegen.ir.nodes import Buf, Function
from codegen.targets.cuda.lowering.contraction import (
    BlockedProduct,
    ContractionSource,
    choose_tile,
    blocked_product,
    tensor_core_dtype,
)
from codegen.targets.cuda.lowering.map import map_kernel
from codegen.targets.cuda.lowering.reduction import (
    RowReductions,
    choose_part_count,
    partial_kernel,
    reduction_kernel,
    shared_reductions,
)
from codegen.targets.cuda.lowering.register_tiles import register_tiles
from codegen.targets.cuda.lowering.schedule import CUDA_DEFAULT, BlockTile, CudaSchedule, TensorTile
from codegen.targets.cuda.lowering.tensor_cores import tensor_tiles
from codegen.targets.cuda.lowering.thread_points import CudaSource
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, fresh_index, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor


def cuda_kernels(
    name: str,
    scope: Scope,
    holes: Mapping[str, Scope] | None = None,
    schedule: CudaSchedule = CUDA_DEFAULT,
    taken: Collection[str] = (),
) -> list[Function]:
    """The statement `name = scope` as kernels that run one after the other; arguments and errors as in `codegen.lowering.lower.lower`.

    All but the last one write memory that the last one reads, under names that are not in `taken`.

    >>> import einalg as ea
    >>> [f.output.shape for f in cuda_kernels("O", ea.parse("O[i:1] += A[i+j]", A=(1000000,)))]
    [(64, 1), (1,)]
    """
    first = _Lowering(name, scope, holes or {}, schedule)
    parts = first.parts()
    if parts == 1:
        return [first.whole()]
    reduce = first.reduce()
    shape = (parts, prod(scope.shape))
    partial = Buf(
        _unused(f"{name}_parts", {*taken, name, *scope.tensors, *(holes or {})}),
        shape,
        first.source.accumulated(reduce),
    )
    return [
        first.partial(partial),
        lower_cuda(name, _sum_of(first.source.scope, reduce, partial), holes, schedule),
    ]


def lower_cuda(
    name: str,
    scope: Scope,
    holes: Mapping[str, Scope] | None = None,
    schedule: CudaSchedule = CUDA_DEFAULT,
) -> Function:
    """The statement in one kernel.

    >>> import einalg as ea
    >>> f = lower_cuda("O", ea.parse("O[i] = A[i] + 1", A=(1000,)))
    >>> f.body[0].kind, f.body[0].extent, f.body[0].body[0].kind, f.body[0].body[0].extent
    ('block', 4, 'thread', 256)
    """
    return _Lowering(name, scope, holes or {}, replace(schedule, parts=1)).whole()


class _Lowering:
    """Which kind of kernel a statement becomes."""

    def __init__(self, name: str, scope: Scope, holes: Mapping[str, Scope], schedule: CudaSchedule):
        self.schedule = schedule
        self.source: CudaSource = ContractionSource(name, scope, holes, schedule)
        self.rows: RowReductions | None = None
        self.found: BlockedProduct | None = None
        self.dtype: str | None = None
        if not prod(self.source.output.shape):
            return
        if found := blocked_product(self.source):
            self.dtype = tensor_core_dtype(self.source, found)
            tiles = (
                choose_tile(
                    found,
                    self.dtype,
                    schedule,
                    [tile.of(self.dtype) for tile in schedule.tensor_tiles],
                )
                if self.dtype
                else None
            )
            if tiles is None:
                tiles = choose_tile(
                    found, self.source.accumulated(found.reduce), schedule, schedule.tiles
                )
            if tiles:
                self.found, (self.tile, self.count) = found, tiles
                return
        self.source = CudaSource(name, scope, holes, schedule)
        self.rows = shared_reductions(self.source)

    def parts(self) -> int:
        """How many blocks share one sum."""
        if self.found:
            return self.count
        return choose_part_count(self.source, self.rows) if self.rows else 1

    def reduce(self) -> Reduce:
        if self.found:
            return self.found.reduce
        assert self.rows
        return self.rows.reduces[0]

    def whole(self) -> Function:
        if not prod(self.source.output.shape):
            return self.source.function(())
        if self.found:
            return self.tiled(None)
        return reduction_kernel(self.source, self.rows) if self.rows else map_kernel(self.source)

    def partial(self, output: Buf) -> Function:
        if self.found:
            return self.tiled(output)
        assert self.rows
        return partial_kernel(self.source, self.rows, output)

    def tiled(self, partial: Buf | None) -> Function:
        assert self.found
        if isinstance(self.tile, TensorTile):
            assert self.dtype
            return tensor_tiles(self.source, self.found, self.tile, self.dtype, partial)
        assert isinstance(self.tile, BlockTile)
        return register_tiles(self.source, self.found, self.tile, partial)


def _sum_of(scope: Scope, reduce: Reduce, partial: Buf) -> Scope:
    """The scope where a reduction is that of its parts."""
    tensor = Tensor(partial.name, partial.shape, partial.dtype)
    part, flat = (
        fresh_index("part", {*scope.indices, *scope.body.free_symbols, *reduce.indices}),
        affine(0),
    )
    for it in scope.iterators:
        flat = flat * it.extent + (affine(it.index) - it.low)
    parts = Reduce(
        reduce.op, [(part, 0, partial.shape[0])], (), Access.of(tensor, (affine(part), flat))
    )
    return Scope(
        scope.iterators,
        scope.where,
        rebuild(scope.body, lambda node: parts if node == reduce else node),
    )


def _unused(name: str, taken: Collection[str]) -> str:
    return next(n for k in range(len(taken) + 1) if (n := f"{name}{k or ''}") not in taken)
