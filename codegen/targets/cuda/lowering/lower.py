"""A statement as CUDA kernels: a product in tiles, rows that threads share, or a map (design §10).

A long sum with few outputs is computed by several blocks, in two kernels: the first one sums parts,
the second one adds these up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from codegen.ir.names import unused_name
from codegen.ir.nodes import Buf, Function
from codegen.lowering.reductions import outermost_reductions
from codegen.targets.cuda.lowering.map import map_kernel
from codegen.targets.cuda.lowering.products.contraction import (
    BlockedProduct,
    ContractionSource,
    TileChoice,
    blocked_product,
    choose_tile,
    tensor_core_dtype,
)
from codegen.targets.cuda.lowering.products.diagonal import diagonal_sources
from codegen.targets.cuda.lowering.products.register_tiles import register_tiles
from codegen.targets.cuda.lowering.products.tensor_cores import tensor_tiles
from codegen.targets.cuda.lowering.reduction import partial_kernel, reduction_kernel
from codegen.targets.cuda.lowering.row_reductions import (
    RowReductions,
    choose_part_count,
    shared_reductions,
)
from codegen.targets.cuda.lowering.thread_rows import (
    ThreadRows,
    thread_row_kernel,
    thread_rows,
)
from codegen.targets.cuda.lowering.threads.points import CudaSource
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT, CudaSchedule, TensorTile
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, fresh_index, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor


def cuda_kernels(
    name: str,
    scope: Scope,
    holes: Mapping[str, Scope] | None = None,
    schedule: CudaSchedule = CUDA_DEFAULT,
    used_names: Collection[str] = (),
) -> list[Function]:
    """Return the statement `name = scope` as kernels that run one after the other.

    Arguments and errors are those of `codegen.lowering.lower.lower`. All kernels but the last one
    write memory that the last one reads, under names that are not in `used_names`.

    >>> import einalg as ea
    >>> [f.output.shape for f in cuda_kernels("O", ea.parse("O[i:1] += A[i+j]", A=(1000000,)))]
    [(64, 1), (1,)]
    """
    plan = _plan(name, scope, holes or {}, schedule)
    if isinstance(plan, _MapPlan) or plan.parts == 1:
        return [plan.kernel()]
    all_names = {*used_names, name, *scope.tensors, *(holes or {})}
    shape = (plan.parts, prod(scope.shape))
    partial = Buf(
        unused_name(f"{name}_parts", all_names), shape, plan.source.accumulated(plan.reduce)
    )
    summed = _sum_of_parts(plan.source.statement, partial)
    last = _plan(name, summed, holes or {}, replace(schedule, max_parts=1))
    last.source.output = plan.source.output  # parts may have a longer type than what is stored
    return [plan.kernel(partial), last.kernel()]


def lower_cuda(
    name: str,
    scope: Scope,
    holes: Mapping[str, Scope] | None = None,
    schedule: CudaSchedule = CUDA_DEFAULT,
) -> Function:
    """Return the statement in one kernel.

    >>> import einalg as ea
    >>> f = lower_cuda("O", ea.parse("O[i] = A[i] + 1", A=(1000,)))
    >>> f.body[0].kind, f.body[0].extent, f.body[0].body[0].kind, f.body[0].body[0].extent
    ('block', 4, 'thread', 256)
    """
    return _plan(name, scope, holes or {}, replace(schedule, max_parts=1)).kernel()


@dataclass(frozen=True)
class _TiledPlan:
    """A product in tiles; `dtype` is the type of its factors where tensor cores multiply them."""

    source: CudaSource
    product: BlockedProduct
    choice: TileChoice
    dtype: str = ""

    @property
    def parts(self) -> int:
        """Return how many blocks share one sum."""
        return self.choice.parts

    @property
    def reduce(self) -> Reduce:
        return self.product.reduce

    def kernel(self, partial: Buf | None = None) -> Function:
        tile = self.choice.tile
        if isinstance(tile, TensorTile):
            return tensor_tiles(self.source, self.product, tile, self.dtype, partial)
        return register_tiles(self.source, self.product, tile, partial)


@dataclass(frozen=True)
class _RowPlan:
    """Rows of outputs, whose reductions threads share."""

    source: CudaSource
    rows: RowReductions

    @property
    def parts(self) -> int:
        """Return how many groups of blocks share one sum."""
        return choose_part_count(self.source, self.rows)

    @property
    def reduce(self) -> Reduce:
        return self.rows.reduces[0]

    def kernel(self, partial: Buf | None = None) -> Function:
        if partial is None:
            return reduction_kernel(self.source, self.rows)
        return partial_kernel(self.source, self.rows, partial)


@dataclass(frozen=True)
class _MapPlan:
    """Outputs that threads compute by themselves, one by one or in rows.

    There are none at all where the output is empty.
    """

    source: CudaSource
    rows: ThreadRows | None = None

    def kernel(self) -> Function:
        if not prod(self.source.output.shape):
            return self.source.function(())
        if self.rows is not None:
            return thread_row_kernel(self.source, self.rows)
        return map_kernel(self.source)


def _plan(
    name: str, scope: Scope, holes: Mapping[str, Scope], schedule: CudaSchedule
) -> _TiledPlan | _RowPlan | _MapPlan:
    """Decide which kind of kernel a statement becomes."""
    if not prod(scope.shape):
        return _MapPlan(ContractionSource(name, scope, holes, schedule))
    for contraction in _contractions(name, scope, holes, schedule):
        tiled = _tiled_plan(contraction)
        if tiled is not None:
            return tiled
    source = CudaSource(name, scope, holes, schedule)
    rows = shared_reductions(source)
    if rows is not None:
        return _RowPlan(source, rows)
    unmerged = ContractionSource(name, scope, holes, schedule)
    of_threads = thread_rows(unmerged)
    if of_threads is not None:
        return _MapPlan(unmerged, of_threads)
    return _MapPlan(source)


def _contractions(
    name: str, scope: Scope, holes: Mapping[str, Scope], schedule: CudaSchedule
) -> Iterator[ContractionSource]:
    """Yield the coordinates in which a statement may be a product in tiles."""
    yield ContractionSource(name, scope, holes, schedule)
    yield from diagonal_sources(name, scope, holes, schedule)


def _tiled_plan(source: CudaSource) -> _TiledPlan | None:
    """Return the tiles of a product, for tensor cores where these can multiply its factors."""
    product, schedule = blocked_product(source), source.numbers
    if product is None:
        return None
    dtype = tensor_core_dtype(source, product)
    if dtype is not None:
        tensor_tiles = [tile.of(dtype) for tile in schedule.tensor_tiles]
        choice = choose_tile(product, dtype, schedule, tensor_tiles)
        if choice is not None:
            return _TiledPlan(source, product, choice, dtype)
    choice = choose_tile(product, source.accumulated(product.reduce), schedule, schedule.tiles)
    if choice is None:
        return None
    return _TiledPlan(source, product, choice)


def _sum_of_parts(scope: Scope, partial: Buf) -> Scope:
    """Return the scope in which the only reduction is that of its parts.

    For `O[i] += A[i,j]` the scope of `O[i] += O_parts[part, i]`.
    """
    (reduce,) = outermost_reductions(scope.body)
    tensor = Tensor(partial.name, partial.shape, partial.dtype)
    part = fresh_index("part", {*scope.indices, *scope.body.free_symbols, *reduce.indices})
    flat = affine(0)
    for it in scope.iterators:
        flat = flat * it.extent + (affine(it.index) - it.low)
    element = Access.of(tensor, (affine(part), flat))
    parts = Reduce(reduce.op, [(part, 0, partial.shape[0])], (), element)

    def replaced(node: object) -> object:
        if node == reduce:
            return parts
        return node

    return Scope(scope.iterators, scope.where, rebuild(scope.body, replaced))
