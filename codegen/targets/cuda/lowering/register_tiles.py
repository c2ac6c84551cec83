"""Tiles of a product in registers: each thread sums a small block, from rows that it reads 16 bytes at a time."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.nodes import Alloc, Apply, Buf, Function, Number, Ref, Statement, Store
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.lowering.contraction import BlockedProduct
from codegen.targets.cuda.lowering.schedule import BlockTile
from codegen.targets.cuda.lowering.thread_points import CudaSource, counted_loop
from codegen.targets.cuda.lowering.tiled import TiledProduct
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine


def register_tiles(
    source: CudaSource, found: BlockedProduct, tile: BlockTile, partial: Buf | None = None
) -> Function:
    """The kernel in which a block computes one tile of the product."""
    return _Registers(source, found, tile, partial).function()


class _Registers(TiledProduct):
    tile: BlockTile

    def __init__(
        self, source: CudaSource, found: BlockedProduct, tile: BlockTile, partial: Buf | None = None
    ):
        self.dtype = source.accumulated(found.reduce)
        super().__init__(source, found, tile, self.dtype, partial, deep=False)
        fresh = source.fresh
        self.down, self.across = (
            fresh("down", tile.rows // tile.thread_rows),
            fresh("across", tile.columns // tile.thread_columns),
        )
        self.inner = fresh("k", tile.depth)
        self.high, self.wide = (
            _width(n, self.dtype) for n in (tile.thread_rows, tile.thread_columns)
        )
        self.row_group, self.row = fresh("mm", tile.thread_rows // self.high), fresh("m", self.high)
        self.column_group, self.column = (
            fresh("nn", tile.thread_columns // self.wide),
            fresh("n", self.wide),
        )
        self.sums = Buf(self.names[2], (tile.thread_rows, tile.thread_columns), self.dtype, "local")

    # Where the sums of a thread are: groups of neighbours, apart from each other so that neighbouring threads read neighbours.

    @property
    def held_row(self) -> Affine:
        return affine(self.row_group) * self.high + affine(self.row)

    @property
    def held_column(self) -> Affine:
        return affine(self.column_group) * self.wide + affine(self.column)

    @property
    def tile_row(self) -> Affine:
        return (
            affine(self.row_group) * (self.tile.rows // self.tile.thread_rows) + affine(self.down)
        ) * self.high + affine(self.row)

    @property
    def tile_column(self) -> Affine:
        return (
            affine(self.column_group) * (self.tile.columns // self.tile.thread_columns)
            + affine(self.across)
        ) * self.wide + affine(self.column)

    def over_rows(self, body: Sequence[Statement], kind: str = "unroll") -> Statement:
        return counted_loop(
            self.row_group,
            self.tile.thread_rows // self.high,
            [counted_loop(self.row, self.high, body, kind)],
            "unroll",
        )

    def over_columns(self, body: Sequence[Statement], kind: str = "unroll") -> Statement:
        return counted_loop(
            self.column_group,
            self.tile.thread_columns // self.wide,
            [counted_loop(self.column, self.wide, body, kind)],
            "unroll",
        )

    def threads(self, body: Sequence[Statement]) -> Statement:
        """A nest of thread loops over the blocks of sums of a tile."""
        across = counted_loop(self.across, self.tile.columns // self.tile.thread_columns, body, "thread")
        return counted_loop(self.down, self.tile.rows // self.tile.thread_rows, [across], "thread")

    @property
    def sum_(self) -> Ref:
        return Ref(self.sums, (self.held_row, self.held_column))

    def begun(self) -> list[Statement]:
        return [
            Alloc(self.sums),
            self.threads(
                [
                    self.over_rows(
                        [self.over_columns([Store(self.sum_, "=", Number(0, self.dtype))])]
                    )
                ]
            ),
        ]

    def multiplied(self, half: Affine) -> Statement:
        one, two = (
            Buf(name, (n,), self.dtype, "local") for name, n in zip(self.names[4:], self.sums.shape)
        )
        row, column = Ref(one, (self.held_row,)), Ref(two, (self.held_column,))
        read = [
            self.over_rows(
                [Store(row, "=", Ref(self.left.buf, (half, affine(self.inner), self.tile_row)))],
                "vec",
            ),
            self.over_columns(
                [
                    Store(
                        column,
                        "=",
                        Ref(self.right.buf, (half, affine(self.inner), self.tile_column)),
                    )
                ],
                "vec",
            ),
        ]
        product = Store(self.sum_, "+=", Apply("mul", (row, column), self.dtype))
        body = [Alloc(one), Alloc(two), *read, self.over_rows([self.over_columns([product])])]
        return self.threads([counted_loop(self.inner, self.tile.depth, body, "unroll")])

    def stored(self) -> list[Statement]:
        statements = self.at_point(self.sum_).statements
        return [
            self.threads(
                [
                    self.over_rows(
                        [
                            self.over_columns(
                                self.output(self.tile_row, self.tile_column, statements)
                            )
                        ]
                    )
                ]
            )
        ]


def _width(count: int, dtype: str) -> int:
    """How many of so many neighbours are read at once."""
    return next(
        width for width in (4, 2, 1) if count % width == 0 and width * element_size(dtype) <= 16
    )
