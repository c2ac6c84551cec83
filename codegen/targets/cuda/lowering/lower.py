"""A statement as CUDA kernels: a product in tiles, rows that threads share, or a map (design §10).

A long sum with few outputs is computed by several blocks, in two kernels: the first one sums parts,
the second one adds these up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from codegen.ir.names import unused_name
from codegen.ir.nodes import Buf, Function
from codegen.lowering.reductions import outermost_reductions
from codegen.targets.cuda.lowering.map import MapDivision, divide_points
from codegen.targets.cuda.lowering.plans import (
    KernelPlan,
    MapPlan,
    RowPlan,
    ThreadRowPlan,
    TiledPlan,
)
from codegen.targets.cuda.lowering.products.contraction import (
    ContractionSource,
    blocked_product,
    choose_tile,
    tensor_core_dtype,
)
from codegen.targets.cuda.lowering.products.diagonal import diagonal_sources
from codegen.targets.cuda.lowering.row_reductions import (
    choose_part_count,
    divide,
    shared_reductions,
)
from codegen.targets.cuda.lowering.thread_rows import thread_rows
from codegen.targets.cuda.lowering.threads.points import CudaSource
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT, CudaSchedule
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, fresh_index, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor


@dataclass(frozen=True, eq=False)
class CudaStatement:
    """The statement `name = scope` of a program whose other `statements` it may read.

    `used_names` are those that no buffer between its kernels may have.
    """

    name: str
    scope: Scope
    statements: Mapping[str, Scope] = field(default_factory=dict)
    schedule: CudaSchedule = CUDA_DEFAULT
    used_names: Collection[str] = ()

    def source(self) -> CudaSource:
        """Return the statement with the loops of threads that compute outputs or terms."""
        return CudaSource(self.name, self.scope, self.statements, self.schedule)

    def contraction(self) -> ContractionSource:
        """Return the statement with a loop for each of its indices."""
        return ContractionSource(self.name, self.scope, self.statements, self.schedule)

    def contractions(self) -> Iterator[ContractionSource]:
        """Yield the coordinates in which the statement may be a product in tiles."""
        yield self.contraction()
        yield from diagonal_sources(self.name, self.scope, self.statements, self.schedule)


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
    statement = CudaStatement(name, scope, holes or {}, schedule, used_names)
    return planned_kernels(statement, usual_plan(statement))


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
    whole = replace(schedule, max_parts=1)
    return usual_plan(CudaStatement(name, scope, holes or {}, whole)).kernel()


def planned_kernels(statement: CudaStatement, plan: KernelPlan) -> list[Function]:
    """Return the kernels of a plan: two where several blocks share a sum, else one."""
    if isinstance(plan, (MapPlan, ThreadRowPlan)) or plan.parts == 1:
        return [plan.kernel()]
    name = statement.name
    all_names = {*statement.used_names, name, *statement.scope.tensors, *statement.statements}
    shape = (plan.parts, prod(statement.scope.shape))
    partial = Buf(
        unused_name(f"{name}_parts", all_names), shape, plan.source.accumulated(plan.reduce)
    )
    whole = replace(statement.schedule, max_parts=1)
    summed = _sum_of_parts(plan.source.statement, partial)
    last = usual_plan(replace(statement, scope=summed, schedule=whole))
    last.source.output = plan.source.output  # parts may have a longer type than what is stored
    return [plan.kernel(partial), last.kernel()]


def usual_plan(statement: CudaStatement) -> KernelPlan:
    """Return the kind of kernel, and its numbers, that the schedule says."""
    if not prod(statement.scope.shape):
        return MapPlan(statement.contraction(), MapDivision(statement.schedule.threads))
    for contraction in statement.contractions():
        tiled = _tiled_plan(contraction)
        if tiled is not None:
            return tiled
    source = statement.source()
    rows = shared_reductions(source)
    if rows is not None:
        return RowPlan(source, rows, divide(source, rows, choose_part_count(source, rows)))
    unmerged = statement.contraction()
    of_threads = thread_rows(unmerged)
    if of_threads is not None:
        return ThreadRowPlan(unmerged, of_threads, statement.schedule.threads)
    return MapPlan(source, divide_points(source))


def _tiled_plan(source: ContractionSource) -> TiledPlan | None:
    """Return the tiles of a product, for tensor cores where these can multiply its factors."""
    product, schedule = blocked_product(source), source.numbers
    if product is None:
        return None
    dtype = tensor_core_dtype(source, product)
    if dtype is not None:
        tiles = [tile.of(dtype) for tile in schedule.tensor_tiles]
        choice = choose_tile(product, dtype, schedule, tiles)
        if choice is not None:
            return TiledPlan(source, product, choice, dtype)
    choice = choose_tile(product, source.accumulated(product.reduce), schedule, schedule.tiles)
    if choice is None:
        return None
    return TiledPlan(source, product, choice)


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
