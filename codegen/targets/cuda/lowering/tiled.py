"""The kernel of a contraction: each block computes a tile of the product, whose factors pass through shared memory step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from codegen.ir.nodes import Buf, Function, Ref, Statement, Store
from codegen.lowering.block import Block
from codegen.targets.cuda.lowering.contraction import BlockedProduct
from codegen.targets.cuda.lowering.schedule import AnyTile
from codegen.targets.cuda.lowering.shared_staging import SummedDepth, StagedTile, StagedFactor
from codegen.targets.cuda.lowering.thread_points import CudaSource, Points, counted_loop, let_index
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine


class TiledProduct(ABC):
    """One tile of a contraction; with an output `partial`, of the part of the terms that its first axis counts."""

    def __init__(
        self,
        source: CudaSource,
        found: BlockedProduct,
        tile: AnyTile,
        dtype: str,
        partial: Buf | None = None,
        deep: bool | None = None,
    ):
        self.source, self.found, self.tile, self.partial = source, found, tile, partial
        self.parts = partial.shape[0] if partial else 1
        self.rows, self.columns = (
            Points.of(source, "row", found.rows),
            Points.of(source, "column", found.columns),
        )
        self.batch, terms = (
            Points.of(source, "batch", found.batch),
            Points.of(source, "term", found.depth),
        )
        self.steps = -(-terms.count // (tile.depth * self.parts))
        self.row_tiles, self.column_tiles = (
            -(-self.rows.count // tile.rows),
            -(-self.columns.count // tile.columns),
        )
        fresh = source.fresh
        self.row_tile, self.column_tile = (
            fresh("row_tile", self.row_tiles),
            fresh("column_tile", self.column_tiles),
        )
        self.part, self.step = fresh("part", self.parts), fresh("step", self.steps)
        names = source.block([]).names
        self.names = [
            name if name not in names else f"{name}_"
            for name in ("left", "right", "sums", "product", "one", "two")
        ]
        depth = SummedDepth(found.depth, tile.depth, self.steps, self.parts)
        sides = (
            StagedFactor(found.left, found.rows, tile.rows, self.row_tile, self.row_tiles),
            StagedFactor(
                found.right, found.columns, tile.columns, self.column_tile, self.column_tiles
            ),
        )
        self.left, self.right = (
            StagedTile(source, name, dtype, side, depth, self.batch.levels, tile.threads, deep)
            for name, side in zip(self.names, sides)
        )

    def function(self) -> Function:
        if self.partial is None:
            return self.source.function(self.body())
        return Function(
            self.partial.name,
            tuple(self.source.buffers.values()),
            self.partial,
            self.body(),
            str(self.source.scope),
        )

    def body(self) -> tuple[Statement, ...]:
        inside = [
            *self.left.allocated(),
            *self.right.allocated(),
            *self.begun(),
            *self.pipeline(),
            *self.stored(),
        ]
        body: tuple[Statement, ...] = tuple(inside)
        if self.batch.count > 1:
            body = self.batch.named(body)
        body = (counted_loop(self.column_tile, self.column_tiles, body, "block"),)
        body = (counted_loop(self.row_tile, self.row_tiles, body, "block"),)
        if self.batch.count * self.parts == 1:
            return body
        if self.batch.count == 1:
            return (counted_loop(self.part, self.parts, body, "block"),)
        if self.parts == 1:
            return (counted_loop(self.batch.index, self.batch.count, body, "block"),)
        both = self.source.fresh("batch_part", self.batch.count * self.parts)
        body = (let_index(self.part, affine(both).remainder(self.parts), (0, self.parts), body),)
        body = (
            let_index(self.batch.index, affine(both).quotient(self.parts), (0, self.batch.count), body),
        )
        return (counted_loop(both, self.batch.count * self.parts, body, "block"),)

    def pipeline(self) -> list[Statement]:
        """Each part is fetched while the one before it is multiplied."""
        first = affine(self.part) * self.steps if self.parts > 1 else affine(0)
        found = [*self.fetched(first), *self.placed(affine(0))]
        if self.steps == 1:
            return [*found, self.multiplied(affine(0))]
        step = affine(self.step)
        inside = [
            *self.fetched(first + step + 1),
            self.multiplied(step.remainder(2)),
            *self.placed((step + 1).remainder(2)),
        ]
        self.source.plan.ranges[self.step] = (0, self.steps - 1)
        return [
            *found,
            counted_loop(self.step, self.steps - 1, inside),
            self.multiplied(affine((self.steps - 1) % 2)),
        ]

    def fetched(self, step: Affine) -> list[Statement]:
        return [self.left.fetch(step), self.right.fetch(step)]

    def placed(self, half: Affine) -> list[Statement]:
        return [self.left.place(half), self.right.place(half)]

    def at_point(self, sum_: Ref) -> Block:
        """A block that sets one output from its sum."""
        block = self.source.block(self.source.plan.output)
        block.results[self.found.reduce] = sum_
        if self.partial is None:
            self.source.put_point(block)
        else:
            block.add(
                Store(self.source.partial_target(self.partial, self.part, block.place), "=", sum_)
            )
        return block

    def output(
        self, row: Affine, column: Affine, statements: Sequence[Statement]
    ) -> tuple[Statement, ...]:
        """Statements at one element of the tile, where there is such an output."""
        tile = self.tile
        inside = self.columns.at(
            affine(self.column_tile) * tile.columns + column,
            self.column_tiles * tile.columns - 1,
            statements,
        )
        return self.rows.at(
            affine(self.row_tile) * tile.rows + row, self.row_tiles * tile.rows - 1, inside
        )

    @abstractmethod
    def begun(self) -> list[Statement]:
        """Sums that are 0."""

    @abstractmethod
    def multiplied(self, half: Affine) -> Statement:
        """The product of what one half of the shared memory holds, added to the sums."""

    @abstractmethod
    def stored(self) -> list[Statement]:
        """The outputs, with what the statement does to the sums."""
