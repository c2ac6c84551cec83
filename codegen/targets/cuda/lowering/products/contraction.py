"""Statements that are sums of products, and the tiles in which a device computes them.

A factor may be any expression of its indices, so that convolutions, padded or strided, are
contractions too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import sympy

from codegen.ir.types import WIDE
from codegen.lowering.loop_plan import LoopLevel
from codegen.lowering.reductions import outermost_reductions
from codegen.lowering.schedule import outer_first
from codegen.targets.cuda.lowering.threads.points import CudaSource, count_points
from codegen.targets.cuda.lowering.threads.schedule import AnyTile, CudaSchedule
from codegen.targets.cuda.text.wmma import FRAGMENT_SIZES
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access

MAX_FACTORS = 6
MIN_THREAD_SUMS = 16  # below which a thread reads more than it multiplies
MIN_DEPTH = 4  # terms of a sum that is worth tiles


class ContractionSource(CudaSource):
    merging = False


@dataclass(frozen=True)
class BlockedProduct:
    """A sum of `left` times `right`, with the loops of the output and of the sum.

    `rows` are the loops that `left` alone depends on, `columns` those of `right`, and `batch` those
    of both; `depth` are the summed ones. In `O[b,i,j] += A[b,i,k]*B[b,k,j]` these are the loops
    over `i`, `j`, `b` and `k`.
    """

    reduce: Reduce
    left: Any
    right: Any
    rows: tuple[LoopLevel, ...]
    columns: tuple[LoopLevel, ...]
    batch: tuple[LoopLevel, ...]
    depth: tuple[LoopLevel, ...]

    def mirrored(self) -> BlockedProduct:
        """Return the product with its factors exchanged."""
        return replace(self, left=self.right, right=self.left, rows=self.columns, columns=self.rows)


def blocked_product(source: CudaSource) -> BlockedProduct | None:
    """Return the statement as a product of two factors, with as many rows and columns as possible.

    None where it is no sum of products.
    """
    reduces = outermost_reductions(source.scope.body)
    if source.scope.where or len(reduces) != 1 or reduces[0].op != "Sum" or reduces[0].where:
        return None
    reduce = reduces[0]
    factors = sympy.Mul.make_args(reduce.body)
    if not 2 <= len(factors) <= MAX_FACTORS or outermost_reductions(reduce.body):
        return None
    products = [_product(source, reduce, *halves) for halves in _bipartitions(factors)]
    best = max(products, key=lambda p: min(count_points(p.rows), count_points(p.columns)))
    # Neighbouring threads compute neighbouring columns.
    if source.plan.output and source.plan.output[-1] in best.rows:
        return best.mirrored()
    return best


def _bipartitions(factors: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield the pairs of lists that some factors can be divided into: `[a], [b, c]`, and so on."""
    for chosen in range(1, 1 << (len(factors) - 1)):
        right = [f for position, f in enumerate(factors) if chosen >> position & 1]
        yield [f for f in factors if f not in right], right


def _product(
    source: CudaSource, reduce: Reduce, left: list[Any], right: list[Any]
) -> BlockedProduct:
    """Return the product of two lists of factors, with the loops that each depends on."""
    of_left, of_right = _free_symbols(left), _free_symbols(right)
    rows: list[LoopLevel] = []
    columns: list[LoopLevel] = []
    batch: list[LoopLevel] = []
    for level in source.plan.output:
        if level.index not in of_left:
            columns.append(level)
        elif level.index in of_right:
            batch.append(level)
        else:
            rows.append(level)
    depth: list[LoopLevel] = []
    for it in outer_first(reduce):
        depth += source.plan.summed[it.index]
    return BlockedProduct(
        reduce,
        sympy.Mul(*left),
        sympy.Mul(*right),
        tuple(rows),
        tuple(columns),
        tuple(batch),
        tuple(depth),
    )


def _free_symbols(factors: Iterable[Any]) -> set[Any]:
    symbols: set[Any] = set()
    for factor in factors:
        symbols |= factor.free_symbols
    return symbols


class TileChoice(NamedTuple):
    """A tile, and how many blocks share the terms of one."""

    tile: AnyTile
    parts: int


@dataclass(frozen=True)
class _Work:
    """The points of a product, and how many blocks a tile divides them among."""

    rows: int
    columns: int
    depth: int
    batch: int
    numbers: CudaSchedule

    def blocks(self, tile: AnyTile) -> int:
        return self.batch * -(-self.rows // tile.rows) * -(-self.columns // tile.columns)

    def parts(self, tile: AnyTile) -> int:
        """Return how many blocks share the terms of a tile, each with several steps."""
        for_a_full_device = -(-self.numbers.device_blocks // self.blocks(tile))
        with_enough_steps = self.depth // (tile.depth * self.numbers.min_part_steps)
        return max(1, min(for_a_full_device, with_enough_steps, self.numbers.max_parts))

    def is_large(self, smallest: AnyTile) -> bool:
        """Return whether tiles pay, the smallest of which is not half empty."""
        if self.rows * self.columns * self.depth < self.numbers.min_tiled_products:
            return False
        if self.depth < MIN_DEPTH:
            return False
        return min(self.rows, self.columns) * 2 >= min(smallest.rows, smallest.columns)


def choose_tile(
    product: BlockedProduct, dtype: str, numbers: CudaSchedule, tiles: Sequence[AnyTile]
) -> TileChoice | None:
    """Return a tile, and how many blocks share the terms of one.

    It is the largest that leaves work for the whole device. The terms are shared where only small
    tiles would do else. None where tiles do not pay.
    """
    if dtype == WIDE:  # no array holds the parts of such sums
        numbers = replace(numbers, max_parts=1)
    work = _Work(
        count_points(product.rows),
        count_points(product.columns),
        count_points(product.depth),
        count_points(product.batch),
        numbers,
    )
    if not tiles or not work.is_large(tiles[-1]):
        return None
    legal = [tile for tile in tiles if tile.is_legal(dtype)]
    fitting = [t for t in legal if t.rows < 2 * work.rows and t.columns < 2 * work.columns]
    fitting = fitting or legal[-1:]
    for tile in fitting:
        if work.blocks(tile) >= numbers.device_blocks and tile.sums >= MIN_THREAD_SUMS:
            return TileChoice(tile, 1)
    choices = [TileChoice(tile, work.parts(tile)) for tile in fitting]
    for choice in choices:
        if work.blocks(choice.tile) * choice.parts >= numbers.device_blocks:
            return choice
    return max(choices, key=lambda c: work.blocks(c.tile) * c.parts, default=None)


def tensor_core_dtype(source: CudaSource, product: BlockedProduct) -> str | None:
    """Return the type of both factors where tensor cores multiply them as they are.

    They are elements of f16 or bf16, padded with 0 at most. Elements of f32 lose precision there
    (tf32), which the schedule must allow. None for all others.
    """
    left, right = product.left, product.right
    if not isinstance(left, Access) or not isinstance(right, Access):
        return None
    dtype = left.tensor.dtype
    if dtype != right.tensor.dtype or (dtype == "f32" and not source.numbers.tf32):
        return None
    if (dtype, source.accumulated(product.reduce)) not in FRAGMENT_SIZES:
        return None
    for factor in (left, right):
        if any(fill != 0 for _, fill in source.layers(factor)[1:]):
            return None
    return dtype
