"""Tiles of a product by tensor cores: the warps of a block multiply fragments of 16 × 16 elements and sum them in f32."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.nodes import (
    Alloc,
    Buf,
    FragmentFill,
    FragmentLoad,
    FragmentMma,
    FragmentStore,
    Function,
    Number,
    Ref,
    Statement,
)
from codegen.targets.cuda.launch import WARP_THREADS
from codegen.targets.cuda.lowering.contraction import BlockedProduct
from codegen.targets.cuda.lowering.schedule import SPARE_COLUMNS, TensorTile
from codegen.targets.cuda.lowering.thread_points import CudaSource, counted_loop
from codegen.targets.cuda.lowering.tiled import TiledProduct
from codegen.targets.cuda.text.wmma import FRAGMENT_SIZES
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine


def tensor_tiles(
    source: CudaSource,
    found: BlockedProduct,
    tile: TensorTile,
    dtype: str,
    partial: Buf | None = None,
) -> Function:
    """The kernel in which the tensor cores compute the product of two factors of type `dtype`."""
    return _TensorCores(source, found, tile, dtype, partial).function()


class _TensorCores(TiledProduct):
    tile: TensorTile

    def __init__(
        self,
        source: CudaSource,
        found: BlockedProduct,
        tile: TensorTile,
        dtype: str,
        partial: Buf | None = None,
    ):
        super().__init__(source, found, tile, dtype, partial)
        total = source.accumulated(found.reduce)
        m, n, k = self.size = FRAGMENT_SIZES[dtype, total]
        self.high, self.wide = (
            tile.rows // (m * tile.warps_down),
            tile.columns // (n * tile.warps_across),
        )
        fresh = source.fresh
        self.down, self.across = (
            fresh("warp_down", tile.warps_down),
            fresh("warp_across", tile.warps_across),
        )
        self.lane, self.element = fresh("lane", WARP_THREADS), fresh("element", m * n // WARP_THREADS)
        self.row, self.column, self.inner = (
            fresh("mm", self.high),
            fresh("nn", self.wide),
            fresh("kk", tile.depth // k),
        )
        sums, product, one, two = self.names[2:]
        self.sums = Buf(sums, (self.high, self.wide, m, n), total, "accumulator")
        self.one, self.two = (
            Buf(one, (self.high, m, k), dtype, "matrix_a"),
            Buf(two, (self.wide, k, n), dtype, "matrix_b"),
        )
        self.product = Buf(
            product, (tile.warps_down, tile.warps_across, m, n + SPARE_COLUMNS), total, "shared"
        )

    def warps(self, body: Sequence[Statement]) -> Statement:
        across = counted_loop(self.across, self.tile.warps_across, body, "warp")
        return counted_loop(self.down, self.tile.warps_down, [across], "warp")

    def over_rows(self, body: Sequence[Statement]) -> Statement:
        return counted_loop(self.row, self.high, body, "unroll")

    def over_columns(self, body: Sequence[Statement]) -> Statement:
        return counted_loop(self.column, self.wide, body, "unroll")

    @property
    def sum_(self) -> Ref:
        return Ref(self.sums, (affine(self.row), affine(self.column)))

    @property
    def first_row(self) -> Affine:
        """Where a fragment of a warp begins in the tile."""
        return (affine(self.down) * self.high + affine(self.row)) * self.size[0]

    @property
    def first_column(self) -> Affine:
        return (affine(self.across) * self.wide + affine(self.column)) * self.size[1]

    def begun(self) -> list[Statement]:
        return [
            Alloc(self.product),
            Alloc(self.sums),
            self.warps(
                [
                    self.over_rows(
                        [self.over_columns([FragmentFill(self.sum_, Number(0, self.sums.dtype))])]
                    )
                ]
            ),
        ]

    def multiplied(self, half: Affine) -> Statement:
        deep = affine(self.inner) * self.size[2]
        one, two = Ref(self.one, (affine(self.row),)), Ref(self.two, (affine(self.column),))
        left, right = (self.first_row, deep), (self.first_column, deep)
        body = [
            Alloc(self.one),
            Alloc(self.two),
            self.over_rows(
                [
                    FragmentLoad(
                        one,
                        Ref(self.left.buf, (half, *(left if self.left.deep else left[::-1]))),
                        not self.left.deep,
                    )
                ]
            ),
            self.over_columns(
                [
                    FragmentLoad(
                        two,
                        Ref(self.right.buf, (half, *(right if self.right.deep else right[::-1]))),
                        self.right.deep,
                    )
                ]
            ),
            self.over_rows([self.over_columns([FragmentMma(self.sum_, one, two)])]),
        ]
        return self.warps([counted_loop(self.inner, self.tile.depth // self.size[2], body, "unroll")])

    def stored(self) -> list[Statement]:
        """Each fragment passes through shared memory, from where the threads of a warp take the elements."""
        own = (affine(self.down), affine(self.across))
        store = self.warps(
            [FragmentStore(Ref(self.product, (*own, affine(0), affine(0))), self.sum_)]
        )
        place = affine(self.element) * WARP_THREADS + affine(self.lane)
        row, column = place.quotient(self.size[1]), place.remainder(self.size[1])
        statements = self.at_point(Ref(self.product, (*own, row, column))).statements
        each = self.output(self.first_row + row, self.first_column + column, statements)
        threads = counted_loop(
            self.lane,
            WARP_THREADS,
            [counted_loop(self.element, self.size[0] * self.size[1] // WARP_THREADS, each, "unroll")],
            "thread",
        )
        threads = counted_loop(self.across, self.tile.warps_across, [threads], "thread")
        threads = counted_loop(self.down, self.tile.warps_down, [threads], "thread")
        return [self.over_rows([self.over_columns([store, threads])])]
