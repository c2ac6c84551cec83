"""Sums of products in tiles: parts of both factors are staged in shared memory, and each thread sums a small block in registers.

A factor may be any expression of its indices, so that convolutions, padded or strided, are contractions too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import sympy

from codegen.cuda.points import CudaSource, Points, below, counted, named
from codegen.cuda.schedule import CudaSchedule, Tile
from codegen.ir import Alloc, Apply, Buf, Function, Holds, If, Number, Put, Ref, Statement
from codegen.plan import Level
from codegen.scalar import cast
from codegen.schedule import outer_first, strides
from codegen.sums import outermost_reductions, value
from einalg.affine import Affine, Index, affine
from einalg.scope import Reduce
from einalg.traverse import accesses

MOST_FACTORS = 6


class ContractionSource(CudaSource):
    merging = False


@dataclass(frozen=True)
class Contraction:
    """A sum of `left` times `right`: the indices of the output that one of them has, those that both have, and those summed."""

    reduce: Reduce
    left: Any
    right: Any
    rows: tuple[Level, ...]
    columns: tuple[Level, ...]
    batch: tuple[Level, ...]
    depth: tuple[Level, ...]


def contraction(source: CudaSource) -> Contraction | None:
    """The statement as a contraction of two factors, with as many rows and columns as possible; None where it is none."""
    reduces = outermost_reductions(source.scope.body)
    if source.scope.where or len(reduces) != 1 or reduces[0].op != "Sum" or reduces[0].where:
        return None
    reduce = reduces[0]
    factors = sympy.Mul.make_args(reduce.body)
    if not 2 <= len(factors) <= MOST_FACTORS or outermost_reductions(reduce.body):
        return None
    depth = tuple(level for it in outer_first(reduce) for level in source.plan.summed[it.index])
    found = [_split(source, reduce, list(left), list(right), depth) for left, right in _parts(factors)]
    best = max(found, key=lambda c: min(_count(c.rows), _count(c.columns)))
    if source.plan.output[-1:] and source.plan.output[-1] in best.rows:  # neighbouring threads compute neighbouring columns
        return replace(best, left=best.right, right=best.left, rows=best.columns, columns=best.rows)
    return best


def _parts(factors: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """The ways to make two products of some factors."""
    for chosen in range(1, 1 << (len(factors) - 1)):
        right = [f for position, f in enumerate(factors) if chosen >> position & 1]
        yield [f for f in factors if f not in right], right


def _split(source: CudaSource, reduce: Reduce, left: list[Any], right: list[Any], depth: tuple[Level, ...]) -> Contraction:
    one, two = ({s for f in part for s in f.free_symbols} for part in (left, right))
    levels = source.plan.output
    rows = tuple(level for level in levels if level.index in one and level.index not in two)
    batch = tuple(level for level in levels if level.index in one and level.index in two)
    columns = tuple(level for level in levels if level.index not in one)
    return Contraction(reduce, sympy.Mul(*left), sympy.Mul(*right), rows, columns, batch, depth)


def _count(levels: Sequence[Level]) -> int:
    return prod(level.extent for level in levels)


def choose_tile(found: Contraction, dtype: str, numbers: CudaSchedule) -> Tile | None:
    """The largest tile that leaves work for the whole device, else the smallest; None where tiles do not pay."""
    rows, columns, depth, batch = map(_count, (found.rows, found.columns, found.depth, found.batch))
    smallest = numbers.tiles[-1]
    if rows * columns * depth < numbers.contraction or min(rows, columns) * 2 < min(smallest.rows, smallest.columns) or depth < 4:
        return None
    legal = [tile for tile in numbers.tiles if tile.is_legal(dtype)]
    fitting = [t for t in legal if t.rows < 2 * rows and t.columns < 2 * columns] or legal[-1:]
    busy = [t for t in fitting if batch * -(-rows // t.rows) * -(-columns // t.columns) >= numbers.blocks]
    return (busy or fitting[-1:])[0] if fitting else None


def contraction_kernel(source: CudaSource, found: Contraction, tile: Tile) -> Function:
    """The kernel in which a block computes one tile of the product."""
    return source.function(_Tiled(source, found, tile).body())


class _Tiled:
    def __init__(self, source: CudaSource, found: Contraction, tile: Tile):
        self.source, self.found, self.tile = source, found, tile
        self.dtype = source.accumulated(found.reduce)
        self.rows, self.columns = Points.of(source, "row", found.rows), Points.of(source, "column", found.columns)
        self.batch, self.depth = Points.of(source, "batch", found.batch), Points.of(source, "term", found.depth)
        self.steps = -(-self.depth.count // tile.depth)
        self.row_tiles, self.column_tiles = -(-self.rows.count // tile.rows), -(-self.columns.count // tile.columns)
        fresh = source.fresh
        self.row_tile, self.column_tile = fresh("row_tile", self.row_tiles), fresh("column_tile", self.column_tiles)
        self.down, self.across = fresh("down", tile.rows // tile.thread_rows), fresh("across", tile.columns // tile.thread_columns)
        self.thread, self.step, self.inner = fresh("thread", tile.threads), fresh("step", self.steps), fresh("k", tile.depth)
        self.row, self.column = fresh("m", tile.thread_rows), fresh("n", tile.thread_columns)
        names = source.block([]).names
        one, two, sums = (name if name not in names else f"{name}_" for name in ("left", "right", "sums"))
        self.left = Buf(one, (tile.depth, tile.rows + 1), self.dtype, "shared")
        self.right = Buf(two, (tile.depth, tile.columns + 1), self.dtype, "shared")
        self.sums = Buf(sums, (tile.thread_rows, tile.thread_columns), self.dtype, "local")

    def body(self) -> tuple[Statement, ...]:
        found, tile = self.found, self.tile
        sum_ = Ref(self.sums, (affine(self.row), affine(self.column)))
        start = self.each_sum([Put(sum_, "=", Number(0, self.dtype))])
        left = self.staged(self.left, found.left, self.rows, affine(self.row_tile) * tile.rows, self.row_tiles, tile.rows)
        right = self.staged(self.right, found.right, self.columns, affine(self.column_tile) * tile.columns, self.column_tiles, tile.columns)
        inside = [Alloc(self.left), Alloc(self.right), Alloc(self.sums), start]
        inside += [counted(self.step, self.steps, [left, right, self.multiplied(sum_)]), self.stored(sum_)]
        body: tuple[Statement, ...] = tuple(inside)
        if self.batch.count > 1:
            body = self.batch.named(body)
        body = (counted(self.column_tile, self.column_tiles, body, "block"),)
        body = (counted(self.row_tile, self.row_tiles, body, "block"),)
        return (counted(self.batch.index, self.batch.count, body, "block"),) if self.batch.count > 1 else body

    def threads(self, body: Sequence[Statement]) -> Statement:
        """A nest of thread loops over the blocks of sums of a tile."""
        tile = self.tile
        across = counted(self.across, tile.columns // tile.thread_columns, body, "thread")
        return counted(self.down, tile.rows // tile.thread_rows, [across], "thread")

    def each_sum(self, body: Sequence[Statement]) -> Statement:
        return self.threads([self.over_sums(body)])

    def over_sums(self, body: Sequence[Statement]) -> Statement:
        return counted(self.row, self.tile.thread_rows, [counted(self.column, self.tile.thread_columns, body, "unroll")], "unroll")

    @property
    def local_row(self) -> Affine:
        return affine(self.down) * self.tile.thread_rows + affine(self.row)

    @property
    def local_column(self) -> Affine:
        """The columns of a thread are apart, so that neighbouring threads read and write neighbours."""
        return affine(self.column) * (self.tile.columns // self.tile.thread_columns) + affine(self.across)

    def multiplied(self, sum_: Ref) -> Statement:
        one, two = Ref(self.left, (affine(self.inner), self.local_row)), Ref(self.right, (affine(self.inner), self.local_column))
        return self.threads(
            [counted(self.inner, self.tile.depth, [self.over_sums([Put(sum_, "+=", Apply("mul", (one, two), self.dtype))])], "unroll")]
        )

    def staged(self, buf: Buf, factor: Any, points: Points, base: Affine, tiles: int, size: int) -> Statement:
        """Threads read a part of a factor: neighbours those that lie side by side in memory."""
        source, tile = self.source, self.tile
        count = size * tile.depth
        rounds = -(-count // tile.threads)
        turn, entry = source.fresh("turn", rounds), source.fresh("entry", rounds * tile.threads)
        near, deep = source.fresh("near", size), source.fresh("deep", tile.depth)
        deep_first = self.is_deep(factor)
        along = tile.depth if deep_first else size
        outer, inner = affine(entry).quotient(along), affine(entry).remainder(along)
        forms = (outer, inner) if deep_first else (inner, outer)
        block = source.block([*self.batch.levels, *points.levels, *self.depth.levels])
        place = Ref(buf, (affine(deep), affine(near)))
        block.put(place, "=", cast(value(source, factor, block), self.dtype))
        inside = self.depth.named(points.named(block.statements))
        conditions = []
        if tiles * size > points.count:
            conditions.append(below(points.index, points.count))
        if self.steps * tile.depth > self.depth.count:
            conditions.append(below(self.depth.index, self.depth.count))
        if conditions:
            inside = (If(Holds(tuple(conditions)), inside, (Put(place, "=", Number(0, self.dtype)),)),)
        inside = (named(self.depth.index, affine(self.step) * tile.depth + affine(deep), (0, self.steps * tile.depth), inside),)
        inside = (named(points.index, base + affine(near), (0, tiles * size), inside),)
        inside = (named(near, forms[0], (0, size), (named(deep, forms[1], (0, tile.depth), inside),)),)
        if rounds * tile.threads > count:
            inside = (If(Holds((below(entry, count),)), inside),)
        inside = (named(entry, affine(turn) * tile.threads + affine(self.thread), (0, rounds * tile.threads), inside),)
        return counted(self.thread, tile.threads, [counted(turn, rounds, inside, "unroll")], "thread")

    def is_deep(self, factor: Any) -> bool:
        """Whether neighbours of the summed index lie side by side in memory."""
        last: Index | None = self.depth.levels[-1].index if self.depth.levels else None
        return last is not None and any(strides(access, self.source.plan.fixed)(last) == 1 for access in accesses(factor))

    def stored(self, sum_: Ref) -> Statement:
        """The outputs, with what the statement does to the sums."""
        source, tile = self.source, self.tile
        block = source.block(source.plan.output)
        block.results[self.found.reduce] = sum_
        source.put_point(block)
        inside = self.columns.at(affine(self.column_tile) * tile.columns + self.local_column, self.column_tiles * tile.columns - 1, block.statements)
        inside = self.rows.at(affine(self.row_tile) * tile.rows + self.local_row, self.row_tiles * tile.rows - 1, inside)
        return self.threads([self.over_sums(inside)])
