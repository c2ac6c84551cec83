"""The kernel of a contraction: each block computes a tile of the product.

The factors pass through shared memory step by step: each part of them is fetched while the part
before it is multiplied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from codegen.ir.nodes import Buf, Function, Ref, Statement, Store
from codegen.lowering.block import Block
from codegen.targets.cuda.lowering.products.contraction import BlockedProduct
from codegen.targets.cuda.lowering.products.shared_staging import Staging, SummedDepth
from codegen.targets.cuda.lowering.threads.points import CudaSource, Points, counted_loop, let_index
from codegen.targets.cuda.lowering.threads.schedule import AnyTile
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine

BUFFER_NAMES = ("left", "right", "sums", "product", "one", "two")


class TiledProduct(ABC):
    """One tile of a contraction; with an output `partial`, of the terms of one of its parts.

    `terms_adjacent` is that of `Staging`.
    """

    def __init__(
        self,
        source: CudaSource,
        product: BlockedProduct,
        tile: AnyTile,
        dtype: str,
        partial: Buf | None = None,
        terms_adjacent: bool | None = None,
    ):
        self.source, self.product, self.tile, self.partial = source, product, tile, partial
        self.parts = 1
        if partial is not None:
            self.parts = partial.shape[0]
        self.rows = Points.of(source, "row", product.rows)
        self.columns = Points.of(source, "column", product.columns)
        self.batch = Points.of(source, "batch", product.batch)
        terms = Points.of(source, "term", product.depth)
        self.steps = -(-terms.count // (tile.depth * self.parts))
        self.row_tiles = -(-self.rows.count // tile.rows)
        self.column_tiles = -(-self.columns.count // tile.columns)
        self.row_tile = source.fresh("row_tile", self.row_tiles)
        self.column_tile = source.fresh("column_tile", self.column_tiles)
        self.part = source.fresh("part", self.parts)
        self.step = source.fresh("step", self.steps)
        self.names = _buffer_names(source)
        staging = Staging(
            source,
            dtype,
            SummedDepth(product.depth, tile.depth, self.steps, self.parts),
            self.batch.levels,
            tile.threads,
            terms_adjacent,
        )
        self.left = staging.left(
            self.names["left"], product, tile.rows, self.row_tile, self.row_tiles
        )
        self.right = staging.right(
            self.names["right"], product, tile.columns, self.column_tile, self.column_tiles
        )

    def function(self) -> Function:
        return self.source.function(self.body(), self.partial)

    def body(self) -> tuple[Statement, ...]:
        body: tuple[Statement, ...] = (
            *self.left.allocated(),
            *self.right.allocated(),
            *self.begun(),
            *self.pipeline(),
            *self.stored(),
        )
        if self.batch.count > 1:
            body = self.batch.bind_indices(body)
        return self.over_blocks(body)

    def over_blocks(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Return the loops over the tiles, in one loop over the parts and the batch."""
        work = self.batch.count * self.parts
        outer = self.part
        if self.parts == 1:
            outer = self.batch.index
        elif self.batch.count > 1:
            outer = self.source.fresh("batch_part", work)
            batch, part = affine(outer).quotient(self.parts), affine(outer).remainder(self.parts)
            body = (let_index(self.part, part, (0, self.parts), body),)
            body = (let_index(self.batch.index, batch, (0, self.batch.count), body),)
        body = (counted_loop(self.column_tile, self.column_tiles, body, "block"),)
        body = (counted_loop(self.row_tile, self.row_tiles, body, "block"),)
        if work > 1:
            body = (counted_loop(outer, work, body, "block"),)
        return body

    def pipeline(self) -> list[Statement]:
        """Return the steps: each part is fetched while the one before it is multiplied."""
        first = affine(0)
        if self.parts > 1:
            first = affine(self.part) * self.steps
        begin = [*self.fetched(first), *self.placed(affine(0))]
        if self.steps == 1:
            return [*begin, self.multiplied(affine(0))]
        step = affine(self.step)
        inside = [
            *self.fetched(first + step + 1),
            self.multiplied(step.remainder(2)),
            *self.placed((step + 1).remainder(2)),
        ]
        self.source.plan.ranges[self.step] = (0, self.steps - 1)
        return [
            *begin,
            counted_loop(self.step, self.steps - 1, inside),
            self.multiplied(affine((self.steps - 1) % 2)),
        ]

    def fetched(self, step: Affine) -> list[Statement]:
        return [self.left.fetch(step), self.right.fetch(step)]

    def placed(self, half: Affine) -> list[Statement]:
        return [self.left.place(half), self.right.place(half)]

    def at_point(self, total: Ref) -> Block:
        """Return a block that sets one output from its sum."""
        source = self.source
        block = source.block(source.plan.output)
        block.results[self.product.reduce] = total
        pending = block.place.undecided(source.inside)
        assert pending is not None, "some tile has a point of the statement"
        inner = block
        if pending:
            inner = block.inner(block.place.assuming(pending))
        if self.partial is None:
            source.put_point(inner)
        else:
            target = source.partial_target(self.partial, self.part, inner.place)
            inner.add(Store(target, "=", total))
        if pending:
            block.branch(pending, inner)
        return block

    def output(
        self, row: Affine, column: Affine, statements: Sequence[Statement]
    ) -> tuple[Statement, ...]:
        """Return statements at one element of the tile, where there is such an output."""
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
        """Return the declaration of the sums, which begin at 0."""

    @abstractmethod
    def multiplied(self, half: Affine) -> Statement:
        """Return what adds the product of one half of the shared memory to the sums."""

    @abstractmethod
    def stored(self) -> list[Statement]:
        """Return what writes the outputs, with what the statement does to the sums."""


def _buffer_names(source: CudaSource) -> dict[str, str]:
    """Return names for the buffers of a kernel: `left`, or `left_` where a tensor is called so."""
    used = source.block([]).names
    names: dict[str, str] = {}
    for name in BUFFER_NAMES:
        names[name] = name
        if name in used:
            names[name] = f"{name}_"
    return names
