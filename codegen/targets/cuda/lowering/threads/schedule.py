"""The numbers of a CUDA kernel: what a tuner may choose, within what a GPU allows (design §10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from codegen.hardware.gpu import WARP_THREADS
from codegen.lowering.schedule import Schedule
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import (
    FRAGMENT_SIDE,
    MAX_BLOCK_THREADS,
    MAX_GRID,
    MAX_SHARED_BYTES,
    MAX_THREAD_REGISTERS,
    VECTOR_BYTES,
)

SPARE_COLUMNS = 4  # elements between the rows of a stored fragment in shared memory
INDEX_REGISTERS = 40  # of a thread, for the arithmetic of indices: an estimate
REGISTER_BYTES = 4
SUM_BYTES = 4  # of an element that tensor cores sum


def _fits_a_block(tile: AnyTile, dtype: str) -> bool:
    return (
        tile.threads <= MAX_BLOCK_THREADS
        and tile.shared(dtype) <= MAX_SHARED_BYTES
        and tile.registers(dtype) <= MAX_THREAD_REGISTERS
    )


@dataclass(frozen=True)
class BlockTile:
    """The part of a product that a block computes: `rows` × `columns` outputs.

    `depth` terms are staged at a time; a thread sums `thread_rows` × `thread_columns` outputs.
    """

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> int:
        return (self.rows // self.thread_rows) * (self.columns // self.thread_columns)

    @property
    def sums(self) -> int:
        """Return the number of outputs that a thread sums."""
        return self.thread_rows * self.thread_columns

    def shared(self, dtype: str) -> int:
        """Return the bytes of the two staged parts, twice: one half is written, the other read."""
        term = (self.rows + self.columns) * element_size(dtype) + 2 * VECTOR_BYTES
        return 2 * term * self.depth

    def registers(self, dtype: str) -> int:
        """Estimate the registers: sums, one row and one column, what is fetched, and indices."""
        fetched = (self.rows + self.columns) * self.depth // self.threads
        elements = self.sums + self.thread_rows + self.thread_columns + fetched
        return elements * max(1, element_size(dtype) // REGISTER_BYTES) + INDEX_REGISTERS

    def is_legal(self, dtype: str) -> bool:
        """Return whether a GPU can run blocks with this tile."""
        if self.rows % self.thread_rows or self.columns % self.thread_columns:
            return False
        return _fits_a_block(self, dtype)


@dataclass(frozen=True)
class TensorTile:
    """The part of a product that a block computes with tensor cores.

    `warps_down` × `warps_across` warps share it. The tiles to choose from are for elements of two
    bytes; `of` makes them into those for others.
    """

    rows: int
    columns: int
    depth: int
    warps_down: int
    warps_across: int

    def of(self, dtype: str) -> TensorTile:
        """Return the tile for elements of a type, whose fetching takes as many registers.

        >>> TensorTile(128, 64, 32, 4, 2).of("f32").depth
        16
        """
        return replace(self, depth=max(FRAGMENT_SIDE, self.depth * 2 // element_size(dtype)))

    @property
    def threads(self) -> int:
        return WARP_THREADS * self.warps_down * self.warps_across

    @property
    def sums(self) -> int:
        """Return the number of outputs that a thread holds."""
        return self.rows * self.columns // self.threads

    def shared(self, dtype: str) -> int:
        """Return the bytes of the two staged parts, twice, and of the results of each warp."""
        size, lines = element_size(dtype), self.rows + self.columns
        if_terms_adjacent = lines * (self.depth * size + VECTOR_BYTES)
        if_lines_adjacent = (lines * size + 2 * VECTOR_BYTES) * self.depth
        return 2 * max(if_terms_adjacent, if_lines_adjacent) + self.stored_bytes

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of shared memory that the results of each warp pass through."""
        warps = self.warps_down * self.warps_across
        return warps * FRAGMENT_SIDE * (FRAGMENT_SIDE + SPARE_COLUMNS) * SUM_BYTES

    def registers(self, dtype: str) -> int:
        """Estimate the registers: sums, the multiplied fragments, what is fetched, and indices."""
        left = self.rows // (2 * self.warps_down)
        right = self.columns // (2 * self.warps_across)
        part_bytes = (self.rows + self.columns) * self.depth * element_size(dtype)
        fetched = part_bytes // (REGISTER_BYTES * self.threads)
        return self.sums + left + right + fetched + INDEX_REGISTERS

    def is_legal(self, dtype: str) -> bool:
        """Return whether a GPU can run blocks with this tile."""
        if self.rows % (FRAGMENT_SIDE * self.warps_down) or self.depth % FRAGMENT_SIDE:
            return False
        if self.columns % (FRAGMENT_SIDE * self.warps_across):
            return False
        return _fits_a_block(self, dtype)


AnyTile = BlockTile | TensorTile
BLOCK_TILES = (
    BlockTile(128, 128, 8, 8, 8),
    BlockTile(64, 64, 8, 8, 4),
    BlockTile(64, 32, 16, 4, 2),
    BlockTile(32, 32, 32, 4, 2),
    BlockTile(16, 16, 16, 1, 1),
)
TENSOR_TILES = (
    TensorTile(128, 64, 32, 4, 2),
    TensorTile(64, 64, 32, 2, 2),
    TensorTile(32, 32, 32, 2, 1),
    TensorTile(16, 16, 32, 1, 1),
)


@dataclass(frozen=True)
class CudaSchedule(Schedule):
    """The numbers of a lowering for a GPU, besides those of `Schedule`.

    Blocks and threads:
    `threads`: of a block. `device_blocks`, `device_threads`: that keep a whole device busy.
    `max_thread_outputs`: of one thread; `max_row_outputs`: where these share reads. `vector_bytes`:
    that one read may take. `grid`: most blocks along each axis, which go on with the next work; as
    many as fit a device at once make a persistent grid.

    Reductions that threads share:
    `min_shared_terms`: of a reduction that several threads share, where there are fewer outputs
    than `device_threads`; `min_row_terms`: of one that a row of outputs shares. `lanes`: threads
    that share a reduction, a few or many; `warp_lanes`: those that hand each other values directly.

    Products:
    `min_tiled_products`: from which on tiles are staged. `tiles`: what to choose from, large ones
    first. `tensor_tiles`: the same for tensor cores and elements of two bytes. `tf32`: whether
    these may multiply f32 with 10 bits of each factor.

    Long sums that several blocks share:
    `min_part_steps`: that each block takes. `max_parts`: such blocks.
    """

    threads: int = 256
    max_thread_outputs: int = 4
    max_row_outputs: int = 8
    device_threads: int = 1 << 17
    vector_bytes: int = VECTOR_BYTES
    min_shared_terms: int = 64
    min_row_terms: int = 8
    lanes: tuple[int, int] = (32, 256)
    warp_lanes: int = WARP_THREADS
    min_tiled_products: int = 1 << 15
    tiles: tuple[BlockTile, ...] = BLOCK_TILES
    tensor_tiles: tuple[TensorTile, ...] = TENSOR_TILES
    tf32: bool = False
    device_blocks: int = 128
    min_part_steps: int = 8
    max_parts: int = 64
    grid: tuple[int, int, int] = MAX_GRID
    hoisted_points: float = inf  # each thread has an output of its own
    guarded_terms: int = 64


CUDA_DEFAULT = CudaSchedule()
TF32_RELATIVE_ERROR = 2**-10  # of a product of two factors with 10 bits each


def schedule_for_accuracy(accuracy: float | None) -> CudaSchedule:
    """Return the schedule where values may differ by `accuracy`, relative to the largest element.

    From 1/1024 on, tensor cores multiply f32 too.

    >>> [schedule_for_accuracy(accuracy).tf32 for accuracy in (None, 1e-4, 1e-2)]
    [False, False, True]
    """
    return replace(CUDA_DEFAULT, tf32=accuracy is not None and accuracy >= TF32_RELATIVE_ERROR)
