"""Tiles of a product in registers.

Each thread sums a small block, from rows that it reads 16 bytes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.nodes import Alloc, Apply, Buf, Function, Number, Ref, Statement, Store
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import VECTOR_BYTES
from codegen.targets.cuda.lowering.products.contraction import BlockedProduct
from codegen.targets.cuda.lowering.products.tiled import TiledProduct
from codegen.targets.cuda.lowering.threads.points import CudaSource, counted_loop
from codegen.targets.cuda.lowering.threads.schedule import BlockTile
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine

REGISTER_WIDTHS = (4, 2, 1)  # elements that a thread reads at once


def register_tiles(
    source: CudaSource, product: BlockedProduct, tile: BlockTile, partial: Buf | None = None
) -> Function:
    """Return the kernel in which a block computes one tile of the product."""
    return _RegisterTiles(source, product, tile, partial).function()


class _RegisterTiles(TiledProduct):
    """A tile of sums for each thread: groups of neighbours, with other threads' between them.

    So neighbouring threads read neighbours. Of 128 rows, the first thread has 0 to 3 and 64 to 67.
    """

    tile: BlockTile

    def __init__(
        self,
        source: CudaSource,
        product: BlockedProduct,
        tile: BlockTile,
        partial: Buf | None = None,
    ):
        self.dtype = source.accumulated(product.reduce)
        super().__init__(source, product, tile, self.dtype, partial, terms_adjacent=False)
        self.threads_down = tile.rows // tile.thread_rows
        self.threads_across = tile.columns // tile.thread_columns
        self.down = source.fresh("down", self.threads_down)
        self.across = source.fresh("across", self.threads_across)
        self.inner = source.fresh("k", tile.depth)
        self.high = _vector_width(tile.thread_rows, self.dtype)
        self.wide = _vector_width(tile.thread_columns, self.dtype)
        self.row_group = source.fresh("mm", tile.thread_rows // self.high)
        self.row = source.fresh("m", self.high)
        self.column_group = source.fresh("nn", tile.thread_columns // self.wide)
        self.column = source.fresh("n", self.wide)
        names, shape = self.names, (tile.thread_rows, tile.thread_columns)
        self.sums = Buf(names["sums"], shape, self.dtype, "local")
        self.one = Buf(names["one"], shape[:1], self.dtype, "local")
        self.two = Buf(names["two"], shape[1:], self.dtype, "local")

    @property
    def thread_row(self) -> Affine:
        """Return the row of a sum among those of its thread."""
        return affine(self.row_group) * self.high + affine(self.row)

    @property
    def thread_column(self) -> Affine:
        """Return the column of a sum among those of its thread."""
        return affine(self.column_group) * self.wide + affine(self.column)

    @property
    def tile_row(self) -> Affine:
        """Return the row of a sum in the tile."""
        group = affine(self.row_group) * self.threads_down + affine(self.down)
        return group * self.high + affine(self.row)

    @property
    def tile_column(self) -> Affine:
        """Return the column of a sum in the tile."""
        group = affine(self.column_group) * self.threads_across + affine(self.across)
        return group * self.wide + affine(self.column)

    def over_rows(self, body: Sequence[Statement], kind: str = "unroll") -> Statement:
        rows = counted_loop(self.row, self.high, body, kind)
        return counted_loop(self.row_group, self.tile.thread_rows // self.high, [rows], "unroll")

    def over_columns(self, body: Sequence[Statement], kind: str = "unroll") -> Statement:
        columns = counted_loop(self.column, self.wide, body, kind)
        return counted_loop(
            self.column_group, self.tile.thread_columns // self.wide, [columns], "unroll"
        )

    def over_sums(self, body: Sequence[Statement]) -> Statement:
        return self.over_rows([self.over_columns(body)])

    def over_threads(self, body: Sequence[Statement]) -> Statement:
        """Return a nest of thread loops over the sums of a tile."""
        across = counted_loop(self.across, self.threads_across, body, "thread")
        return counted_loop(self.down, self.threads_down, [across], "thread")

    @property
    def thread_sum(self) -> Ref:
        return Ref(self.sums, (self.thread_row, self.thread_column))

    def begun(self) -> list[Statement]:
        zero = Store(self.thread_sum, "=", Number(0, self.dtype))
        return [Alloc(self.sums), self.over_threads([self.over_sums([zero])])]

    def multiplied(self, half: Affine) -> Statement:
        row, column = Ref(self.one, (self.thread_row,)), Ref(self.two, (self.thread_column,))
        left = Ref(self.left.buf, (half, affine(self.inner), self.tile_row))
        right = Ref(self.right.buf, (half, affine(self.inner), self.tile_column))
        product = Apply("mul", (row, column), self.dtype)
        body = [
            Alloc(self.one),
            Alloc(self.two),
            self.over_rows([Store(row, "=", left)], "vec"),
            self.over_columns([Store(column, "=", right)], "vec"),
            self.over_sums([Store(self.thread_sum, "+=", product)]),
        ]
        return self.over_threads([counted_loop(self.inner, self.tile.depth, body, "unroll")])

    def stored(self) -> list[Statement]:
        statements = self.at_point(self.thread_sum).statements
        outputs = self.output(self.tile_row, self.tile_column, statements)
        return [self.over_threads([self.over_sums(outputs)])]


def _vector_width(count: int, dtype: str) -> int:
    """Return how many of `count` neighbours a thread reads at once."""
    return next(
        width
        for width in REGISTER_WIDTHS
        if count % width == 0 and width * element_size(dtype) <= VECTOR_BYTES
    )
