"""Launch geometry of CUDA kernels and the limits of a device (design §10)."""

from __future__ import annotations

from dataclasses import dataclass

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """How a kernel is started: its name, blocks and threads; `shared` is the bytes that a block declares."""

    name: str
    grid: Grid
    threads: int
    shared: int = 0

    @property
    def block(self) -> tuple[int, int, int]:
        return (self.threads, 1, 1)


MAX_THREAD_REGISTERS = 255  # of a thread


MAX_SHARED_BYTES = 48 << 10  # bytes of a block without asking for more


MAX_BLOCK_THREADS = 1024  # of a block


WARP_THREADS = 32  # threads


FRAGMENT_SIDE = 16  # rows and columns of a matrix that tensor cores sum


MAX_GRID = (2**31 - 1, 65535, 65535)
