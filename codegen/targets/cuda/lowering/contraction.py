"""Statements that are sums of products, and the tiles in which a device computes them.

A factor may be any expression of its indices, so that convolutions, padded or strided, are contractions too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import sympy

from codegen.lowering.loop_plan import LoopLevel
from codegen.lowering.reductions import outermost_reductions
from codegen.lowering.schedule import outer_first
from codegen.targets.cuda.lowering.schedule import AnyTile, CudaSchedule
from codegen.targets.cuda.lowering.thread_points import CudaSource
from codegen.targets.cuda.text.wmma import FRAGMENT_SIZES
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access

MAX_FACTORS = 6
MIN_THREAD_SUMS = 16  # of a thread, below which it reads more than it multiplies


class ContractionSource(CudaSource):
    merging = False


@dataclass(frozen=True)
class BlockedProduct:
    """A sum of `left` times `right`: the indices of the output that one of them has, those that both have, and those summed."""

    reduce: Reduce
    left: Any
    right: Any
    rows: tuple[LoopLevel, ...]
    columns: tuple[LoopLevel, ...]
    batch: tuple[LoopLevel, ...]
    depth: tuple[LoopLevel, ...]


def blocked_product(source: CudaSource) -> BlockedProduct | None:
    """The statement as a contraction of two factors, with as many rows and columns as possible; None where it is none."""
    reduces = outermost_reductions(source.scope.body)
    if source.scope.where or len(reduces) != 1 or reduces[0].op != "Sum" or reduces[0].where:
        return None
    reduce = reduces[0]
    factors = sympy.Mul.make_args(reduce.body)
    if not 2 <= len(factors) <= MAX_FACTORS or outermost_reductions(reduce.body):
        return None
    depth = tuple(level for it in outer_first(reduce) for level in source.plan.summed[it.index])
    found = [
        _split(source, reduce, list(left), list(right), depth) for left, right in _parts(factors)
    ]
    best = max(found, key=lambda c: min(_count(c.rows), _count(c.columns)))
    if (
        source.plan.output[-1:] and source.plan.output[-1] in best.rows
    ):  # neighbouring threads compute neighbouring columns
        return replace(best, left=best.right, right=best.left, rows=best.columns, columns=best.rows)
    return best


def _parts(factors: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """The ways to make two products of some factors."""
    for chosen in range(1, 1 << (len(factors) - 1)):
        right = [f for position, f in enumerate(factors) if chosen >> position & 1]
        yield [f for f in factors if f not in right], right


def _split(
    source: CudaSource,
    reduce: Reduce,
    left: list[Any],
    right: list[Any],
    depth: tuple[LoopLevel, ...],
) -> BlockedProduct:
    one, two = ({s for f in part for s in f.free_symbols} for part in (left, right))
    levels = source.plan.output
    rows = tuple(level for level in levels if level.index in one and level.index not in two)
    batch = tuple(level for level in levels if level.index in one and level.index in two)
    columns = tuple(level for level in levels if level.index not in one)
    return BlockedProduct(reduce, sympy.Mul(*left), sympy.Mul(*right), rows, columns, batch, depth)


def _count(levels: Sequence[LoopLevel]) -> int:
    return prod(level.extent for level in levels)


def choose_tile(
    found: BlockedProduct, dtype: str, numbers: CudaSchedule, tiles: Sequence[AnyTile]
) -> tuple[AnyTile, int] | None:
    """A tile, and how many blocks share the terms of one: the largest that leaves work for the whole device.

    The terms are shared where only small tiles would do else. None where tiles do not pay.
    """
    rows, columns, depth, batch = map(_count, (found.rows, found.columns, found.depth, found.batch))
    if not tiles or rows * columns * depth < numbers.contraction or depth < 4:
        return None
    smallest = tiles[-1]
    if min(rows, columns) * 2 < min(smallest.rows, smallest.columns):
        return None
    legal = [tile for tile in tiles if tile.is_legal(dtype)]
    fitting = [t for t in legal if t.rows < 2 * rows and t.columns < 2 * columns] or legal[-1:]

    def blocks(tile: AnyTile) -> int:
        return batch * -(-rows // tile.rows) * -(-columns // tile.columns)

    def parts(tile: AnyTile) -> int:
        """Blocks that share the terms of a tile, each with several steps."""
        return max(
            1,
            min(
                -(-numbers.blocks // blocks(tile)),
                depth // (tile.depth * numbers.steps),
                numbers.parts,
            ),
        )

    busy = [
        (tile, 1) for tile in fitting if blocks(tile) >= numbers.blocks and tile.sums >= MIN_THREAD_SUMS
    ]
    shared = [
        (tile, parts(tile)) for tile in fitting if blocks(tile) * parts(tile) >= numbers.blocks
    ]
    few = (
        [max(((tile, parts(tile)) for tile in fitting), key=lambda pair: blocks(pair[0]) * pair[1])]
        if fitting
        else []
    )
    return next(iter([*busy, *shared, *few]), None)


def tensor_core_dtype(source: CudaSource, found: BlockedProduct) -> str | None:
    """The type of both factors where tensor cores multiply them as they are: elements of f16 or bf16, padded with 0 at most.

    Elements of f32 lose precision there (tf32), which the schedule must allow.
    """
    factors = (found.left, found.right)
    types = {factor.tensor.dtype if isinstance(factor, Access) else "" for factor in factors}
    dtype = types.pop() if len(types) == 1 else ""
    allowed = ("f16", "bf16", "f32") if source.numbers.tf32 else ("f16", "bf16")
    if dtype not in allowed or (dtype, source.accumulated(found.reduce)) not in FRAGMENT_SIZES:
        return None
    fills = [fill for factor in factors for _, fill in source.layers(factor)[1:]]
    return None if any(fill != 0 for fill in fills) else dtype
