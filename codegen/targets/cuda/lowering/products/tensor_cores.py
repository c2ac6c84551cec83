"""Tiles of a product by tensor cores.

The warps of a block multiply fragments of 16 × 16 elements and sum them in f32.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.hardware.gpu import WARP_THREADS
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
from codegen.targets.cuda.lowering.products.contraction import BlockedProduct
from codegen.targets.cuda.lowering.products.shared_staging import StagedTile
from codegen.targets.cuda.lowering.products.tiled import TiledProduct
from codegen.targets.cuda.lowering.threads.points import CudaSource, counted_loop
from codegen.targets.cuda.lowering.threads.schedule import SPARE_COLUMNS, TensorTile
from codegen.targets.cuda.text.wmma import FRAGMENT_SIZES
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine


def tensor_tiles(
    source: CudaSource,
    product: BlockedProduct,
    tile: TensorTile,
    dtype: str,
    partial: Buf | None = None,
) -> Function:
    """Return the kernel in which tensor cores multiply two factors of type `dtype`."""
    return _TensorCores(source, product, tile, dtype, partial).function()


class _TensorCores(TiledProduct):
    tile: TensorTile

    def __init__(
        self,
        source: CudaSource,
        product: BlockedProduct,
        tile: TensorTile,
        dtype: str,
        partial: Buf | None = None,
    ):
        super().__init__(source, product, tile, dtype, partial)
        total = source.accumulated(product.reduce)
        m, n, k = self.size = FRAGMENT_SIZES[dtype, total]
        self.high = tile.rows // (m * tile.warps_down)
        self.wide = tile.columns // (n * tile.warps_across)
        self.down = source.fresh("warp_down", tile.warps_down)
        self.across = source.fresh("warp_across", tile.warps_across)
        self.lane = source.fresh("lane", WARP_THREADS)
        self.element = source.fresh("element", m * n // WARP_THREADS)
        self.row = source.fresh("mm", self.high)
        self.column = source.fresh("nn", self.wide)
        self.inner = source.fresh("kk", tile.depth // k)
        names = self.names
        self.sums = Buf(names["sums"], (self.high, self.wide, m, n), total, "accumulator")
        self.one = Buf(names["one"], (self.high, m, k), dtype, "matrix_a")
        self.two = Buf(names["two"], (self.wide, k, n), dtype, "matrix_b")
        stored = (tile.warps_down, tile.warps_across, m, n + SPARE_COLUMNS)
        self.stored_fragments = Buf(names["product"], stored, total, "shared")

    def warps(self, body: Sequence[Statement]) -> Statement:
        across = counted_loop(self.across, self.tile.warps_across, body, "warp")
        return counted_loop(self.down, self.tile.warps_down, [across], "warp")

    def over_rows(self, body: Sequence[Statement]) -> Statement:
        return counted_loop(self.row, self.high, body, "unroll")

    def over_columns(self, body: Sequence[Statement]) -> Statement:
        return counted_loop(self.column, self.wide, body, "unroll")

    def over_fragments(self, body: Sequence[Statement]) -> Statement:
        return self.over_rows([self.over_columns(body)])

    @property
    def fragment_sum(self) -> Ref:
        return Ref(self.sums, (affine(self.row), affine(self.column)))

    @property
    def first_row(self) -> Affine:
        """Return the row of the tile at which a fragment of a warp begins."""
        return (affine(self.down) * self.high + affine(self.row)) * self.size[0]

    @property
    def first_column(self) -> Affine:
        """Return the column of the tile at which a fragment of a warp begins."""
        return (affine(self.across) * self.wide + affine(self.column)) * self.size[1]

    def begun(self) -> list[Statement]:
        zero = FragmentFill(self.fragment_sum, Number(0, self.sums.dtype))
        return [
            Alloc(self.stored_fragments),
            Alloc(self.sums),
            self.warps([self.over_fragments([zero])]),
        ]

    def multiplied(self, half: Affine) -> Statement:
        term = affine(self.inner) * self.size[2]
        one, two = Ref(self.one, (affine(self.row),)), Ref(self.two, (affine(self.column),))
        left = _matrix(self.left, half, self.first_row, term)
        right = _matrix(self.right, half, self.first_column, term)
        body = [
            Alloc(self.one),
            Alloc(self.two),
            self.over_rows([FragmentLoad(one, left, not self.left.terms_adjacent)]),
            self.over_columns([FragmentLoad(two, right, self.right.terms_adjacent)]),
            self.over_fragments([FragmentMma(self.fragment_sum, one, two)]),
        ]
        return self.warps(
            [counted_loop(self.inner, self.tile.depth // self.size[2], body, "unroll")]
        )

    def stored(self) -> list[Statement]:
        """Return what writes the outputs.

        Each fragment passes through shared memory, from where the threads of a warp take elements.
        """
        warp = (affine(self.down), affine(self.across))
        target = Ref(self.stored_fragments, (*warp, affine(0), affine(0)))
        store = self.warps([FragmentStore(target, self.fragment_sum)])
        place = affine(self.element) * WARP_THREADS + affine(self.lane)
        row, column = place.quotient(self.size[1]), place.remainder(self.size[1])
        total = Ref(self.stored_fragments, (*warp, row, column))
        statements = self.at_point(total).statements
        each = self.output(self.first_row + row, self.first_column + column, statements)
        elements = self.size[0] * self.size[1] // WARP_THREADS
        threads = counted_loop(self.element, elements, each, "unroll")
        threads = counted_loop(self.lane, WARP_THREADS, [threads], "thread")
        threads = counted_loop(self.across, self.tile.warps_across, [threads], "thread")
        threads = counted_loop(self.down, self.tile.warps_down, [threads], "thread")
        return [self.over_fragments([store, threads])]


def _matrix(tile: StagedTile, half: Affine, row: Affine, term: Affine) -> Ref:
    """Return the first element of a matrix of a staged factor."""
    if tile.terms_adjacent:
        return Ref(tile.buf, (half, row, term))
    return Ref(tile.buf, (half, term, row))
