"""The numbers of a CUDA kernel: what a tuner may choose, within what a GPU allows (design §10)."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.cuda.vectors import element_size
from codegen.schedule import Schedule

REGISTERS = 255  # of a thread
SHARED = 48 << 10  # bytes of a block
THREADS = 1024  # of a block


@dataclass(frozen=True)
class Tile:
    """The part of a product that a block computes: `rows` × `columns` outputs, `depth` terms at a time, some of each for a thread."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> int:
        return (self.rows // self.thread_rows) * (self.columns // self.thread_columns)

    def shared(self, dtype: str) -> int:
        """Bytes of the two staged parts."""
        return (self.rows + self.columns + 2) * self.depth * element_size(dtype)

    def registers(self, dtype: str) -> int:
        """An estimate: the sums, one row and one column, and index arithmetic."""
        held = self.thread_rows * self.thread_columns + self.thread_rows + self.thread_columns
        return held * max(1, element_size(dtype) // 4) + 40

    def is_legal(self, dtype: str) -> bool:
        whole = self.rows % self.thread_rows == 0 and self.columns % self.thread_columns == 0
        return whole and self.threads <= THREADS and self.shared(dtype) <= SHARED and self.registers(dtype) <= REGISTERS


TILES = (
    Tile(128, 128, 8, 8, 8),
    Tile(128, 64, 16, 8, 4),
    Tile(64, 64, 16, 4, 4),
    Tile(64, 32, 16, 4, 2),
    Tile(32, 32, 16, 2, 2),
    Tile(16, 16, 16, 1, 1),
)


@dataclass(frozen=True)
class CudaSchedule(Schedule):
    """The numbers of a lowering for a GPU, besides those of `Schedule`.

    `threads`: of a block. `elements`: most outputs of a thread. `busy`: threads that fill a device. `bytes`: that one read may take.
    `long`: points of a reduction that several threads share, where there are fewer outputs than `busy`. `lanes`: threads that share
    a reduction, a few or many. `contraction`: products from which on tiles are staged. `tiles`: what to choose from, large ones first.
    `blocks`: of tiles that fill a device.
    """

    threads: int = 256
    elements: int = 4
    busy: int = 1 << 17
    bytes: int = 16
    long: int = 64
    lanes: tuple[int, int] = (32, 256)
    contraction: int = 1 << 15
    tiles: tuple[Tile, ...] = TILES
    blocks: int = 128


CUDA_DEFAULT = CudaSchedule()
