"""The numbers of a CUDA kernel: what a tuner may choose, within what a GPU allows (design §10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from codegen.lowering.schedule import Schedule
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import FRAGMENT_SIDE, MAX_GRID, MAX_THREAD_REGISTERS, MAX_SHARED_BYTES, MAX_BLOCK_THREADS, WARP_THREADS

SPARE_COLUMNS = 4  # elements between its rows in shared memory


@dataclass(frozen=True)
class BlockTile:
    """The part of a product that a block computes: `rows` × `columns` outputs, `depth` terms at a time, some of each for a thread."""

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
        """Those of a thread."""
        return self.thread_rows * self.thread_columns

    def shared(self, dtype: str) -> int:
        """Bytes of the two staged parts, twice: one half is written while the other one is read."""
        return 2 * ((self.rows + self.columns) * element_size(dtype) + 2 * 16) * self.depth

    def registers(self, dtype: str) -> int:
        """An estimate: the sums, one row and one column, what is fetched, and index arithmetic."""
        held = (
            self.sums
            + self.thread_rows
            + self.thread_columns
            + (self.rows + self.columns) * self.depth // self.threads
        )
        return held * max(1, element_size(dtype) // 4) + 40

    def is_legal(self, dtype: str) -> bool:
        whole = self.rows % self.thread_rows == 0 and self.columns % self.thread_columns == 0
        return (
            whole
            and self.threads <= MAX_BLOCK_THREADS
            and self.shared(dtype) <= MAX_SHARED_BYTES
            and self.registers(dtype) <= MAX_THREAD_REGISTERS
        )


@dataclass(frozen=True)
class TensorTile:
    """The part of a product that a block computes with tensor cores: `warps_down` × `warps_across` warps share it.

    The tiles to choose from are for elements of two bytes; `of` makes them into those for others.
    """

    rows: int
    columns: int
    depth: int
    warps_down: int
    warps_across: int

    def of(self, dtype: str) -> TensorTile:
        """The tile for elements of a type: as many bytes deep, so that fetching takes as many registers.

        >>> TensorTile(128, 64, 32, 4, 2).of("f32").depth
        16
        """
        return replace(self, depth=max(FRAGMENT_SIDE, self.depth * 2 // element_size(dtype)))

    @property
    def threads(self) -> int:
        return WARP_THREADS * self.warps_down * self.warps_across

    @property
    def sums(self) -> int:
        """Those of a thread."""
        return self.rows * self.columns // self.threads

    def shared(self, dtype: str) -> int:
        """Bytes of the two staged parts, twice, and of the results of each warp."""
        size = element_size(dtype)
        longest = max(
            (self.rows + self.columns) * (self.depth * size + 16),
            ((self.rows + self.columns) * size + 2 * 16) * self.depth,
        )
        return 2 * longest + self.threads // WARP_THREADS * FRAGMENT_SIDE * (FRAGMENT_SIDE + SPARE_COLUMNS) * 4

    def registers(self, dtype: str) -> int:
        """An estimate: the sums, the fragments that are multiplied, what is fetched, and index arithmetic."""
        fetched = (
            (self.rows + self.columns) * self.depth * element_size(dtype) // (4 * self.threads)
        )
        return (
            self.sums
            + self.rows // (2 * self.warps_down)
            + self.columns // (2 * self.warps_across)
            + fetched
            + 40
        )

    def is_legal(self, dtype: str) -> bool:
        whole = (
            self.rows % (FRAGMENT_SIDE * self.warps_down) == 0
            and self.columns % (FRAGMENT_SIDE * self.warps_across) == 0
            and self.depth % FRAGMENT_SIDE == 0
        )
        return (
            whole
            and self.threads <= MAX_BLOCK_THREADS
            and self.shared(dtype) <= MAX_SHARED_BYTES
            and self.registers(dtype) <= MAX_THREAD_REGISTERS
        )


AnyTile = BlockTile | TensorTile
BLOCK_TILES = (
    BlockTile(128, 128, 8, 8, 8),
    BlockTile(128, 64, 8, 8, 4),
    BlockTile(64, 64, 16, 4, 4),
    BlockTile(64, 32, 16, 4, 2),
    BlockTile(32, 32, 16, 2, 2),
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

    `threads`: of a block. `elements`: most outputs of a thread. `busy`: threads that fill a device. `bytes`: that one read may take.
    `long`: points of a reduction that several threads share, where there are fewer outputs than `busy`; `short`: those of one that a
    row of outputs shares. `lanes`: threads that share a reduction, a few or many; `shuffled`: those that hand each other values
    directly. `contraction`: products from which on tiles are staged. `tiles`: what to choose from, large ones first.
    `tensor_tiles`: the same for tensor cores and elements of two bytes. `tf32`: whether these may multiply f32 with 10 bits of each
    factor. `blocks`: of tiles that fill a device. `steps`: least number that each of several blocks takes which share a long sum;
    `parts`: most such blocks.
    `grid`: most blocks along each axis, which go on with the next work; as many as fit a device at once make a persistent grid.
    """

    threads: int = 256
    elements: int = 4
    busy: int = 1 << 17
    bytes: int = 16
    long: int = 64
    short: int = 8
    lanes: tuple[int, int] = (32, 256)
    shuffled: int = 32
    contraction: int = 1 << 15
    tiles: tuple[BlockTile, ...] = BLOCK_TILES
    tensor_tiles: tuple[TensorTile, ...] = TENSOR_TILES
    tf32: bool = False
    blocks: int = 128
    steps: int = 8
    parts: int = 64
    grid: tuple[int, int, int] = MAX_GRID
    again: float = inf  # each thread has an output of its own


CUDA_DEFAULT = CudaSchedule()
TF32_RELATIVE_ERROR = 2**-10  # the relative error of a product of two factors with 10 bits each


def schedule_for_accuracy(accuracy: float | None) -> CudaSchedule:
    """The schedule where values may differ by `accuracy`, relative to the largest element: from 1/1024 on, tensor cores multiply f32 too.

    >>> schedule_for_accuracy(None).tf32, schedule_for_accuracy(1e-4).tf32, schedule_for_accuracy(1e-2).tf32
    (False, False, True)
    """
    return replace(CUDA_DEFAULT, tf32=accuracy is not None and accuracy >= TF32_RELATIVE_ERROR)
