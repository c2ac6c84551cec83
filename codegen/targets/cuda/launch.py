"""Launch geometry of CUDA kernels and the limits of a device (design §10)."""

from __future__ import annotations

from dataclasses import dataclass

Grid = tuple[int, int, int]

MAX_THREAD_REGISTERS = 255
MAX_SHARED_BYTES = 48 << 10  # of a block that does not ask for more
MAX_BLOCK_THREADS = 1024
VECTOR_BYTES = 16  # what a thread reads or writes at once, at a multiple of as many bytes
FRAGMENT_SIDE = 16  # rows and columns of a matrix that tensor cores sum
MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks along each axis


@dataclass(frozen=True)
class Launch:
    """How a kernel is started: its name, its grid of blocks, and the threads of each block.

    `shared` is the bytes of shared memory that a block declares.
    """

    name: str
    grid: Grid
    threads: int
    shared: int = 0

    @property
    def block(self) -> tuple[int, int, int]:
        return (self.threads, 1, 1)
