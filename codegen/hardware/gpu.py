"""Facts of a CUDA device for the code generator, and how many blocks share a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass

WARP_THREADS = 32
REGISTER_PIECE = 256  # registers are given to a warp in pieces of so many
RESERVED_SHARED = 1024  # bytes of each block that the system takes


@dataclass(frozen=True)
class KernelResources:
    """What a block asks of a multiprocessor: `registers` are those of a thread, `shared` bytes."""

    threads: int
    registers: int
    shared: int


@dataclass(frozen=True)
class GpuModel:
    """A device: its multiprocessors, what each of them holds, and the ways to memory.

    `registers`, `shared` (bytes), `threads` and `blocks` are those of a multiprocessor. `memory`
    and `cache` are the bytes of a cycle that come from memory to the whole device, and from the
    cache of the device to one multiprocessor. `tensor_products` are those of two bytes that tensor
    cores of a multiprocessor make in a cycle.
    """

    multiprocessors: int = 132
    shared: int = 228 << 10
    registers: int = 1 << 16
    threads: int = 2048
    blocks: int = 32
    memory: float = 2600.0
    cache: float = 64.0
    tensor_products: float = 2048.0

    def resident_blocks(self, kernel: KernelResources) -> int:
        """Return how many blocks of a kernel share a multiprocessor; 0 where none fits.

        >>> H100.resident_blocks(KernelResources(256, 128, 0))
        2
        """
        warps = -(-kernel.threads // WARP_THREADS)
        warp_registers = -(-kernel.registers * WARP_THREADS // REGISTER_PIECE) * REGISTER_PIECE
        return min(
            self.blocks,
            self.threads // (WARP_THREADS * warps),
            self.registers // max(1, warps * warp_registers),
            self.shared // (kernel.shared + RESERVED_SHARED),
        )

    def occupancy(self, kernel: KernelResources) -> float:
        """Return the part of a multiprocessor's threads that a kernel keeps there at once.

        >>> [H100.occupancy(KernelResources(256, registers, 0)) for registers in (32, 128)]
        [1.0, 0.25]
        """
        warps = -(-kernel.threads // WARP_THREADS)
        return self.resident_blocks(kernel) * warps * WARP_THREADS / self.threads


H100 = GpuModel()
A100 = GpuModel(
    multiprocessors=108,
    shared=164 << 10,
    memory=1100.0,
    tensor_products=1024.0,
)


def gpu_model(sm: int) -> GpuModel:
    """Return the model of devices with a compute capability (90 is 9.0).

    >>> gpu_model(80).multiprocessors
    108
    """
    if sm < 90:
        return A100
    return H100
