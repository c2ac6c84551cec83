"""The cycles that a device takes for a kernel, from what its blocks ask of it.

A multiprocessor is bound by what it can issue, by its shared memory, by what comes from the cache
of the device, or, where few warps are there, by the latency of one block. All blocks together are
bound by memory. Figures of all kinds of kernels are on this scale, so that they compare.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.hardware.gpu import WARP_THREADS, GpuModel, KernelResources
from codegen.tuning.spaces.space import NEVER

SCHEDULERS = 4  # of a multiprocessor, each of which issues an instruction of a warp in a cycle
LAUNCH_CYCLES = 3500.0  # from one kernel to the next one
MEMORY_LATENCY = 400.0
CACHE_LATENCY = 35.0  # of what a multiprocessor has at hand
BARRIER_CYCLES = 40.0
SECTOR = 32  # bytes, that memory is read in
LINE = 128  # bytes, that shared memory or the first cache gives in a cycle


@dataclass(frozen=True)
class KernelWork:
    """What a kernel asks of a device.

    `issued` are the instructions of a warp, `lines` what it reads and writes near by, in lines of
    128 bytes, and `latency` the cycles in which a block waits. `cached` are the bytes that come
    from the cache of the device for a block, and `memory` those from memory for all of them.
    """

    resources: KernelResources
    blocks: int
    issued: float
    lines: float
    latency: float
    cached: float
    memory: float


def kernel_cycles(work: KernelWork, device: GpuModel) -> float:
    """Return the cycles of a kernel; `NEVER` where a device cannot hold one of its blocks.

    >>> from dataclasses import replace
    >>> from codegen.hardware.gpu import H100
    >>> few = KernelWork(KernelResources(256, 32, 0), 132, 1e4, 0, 0, 0, 0)
    >>> kernel_cycles(replace(few, blocks=1320), H100) > kernel_cycles(few, H100)
    True
    """
    resident = device.resident_blocks(work.resources)
    if not resident:
        return NEVER
    waves, rest = divmod(work.blocks, resident * device.multiprocessors)
    cycles = waves * _wave_cycles(work, resident, device)
    if rest:
        cycles += _wave_cycles(work, -(-rest // device.multiprocessors), device)
    return LAUNCH_CYCLES + max(cycles, work.memory / device.memory)


def _wave_cycles(work: KernelWork, blocks: int, device: GpuModel) -> float:
    """Return the cycles of a multiprocessor that runs so many blocks side by side."""
    block_warps = -(-work.resources.threads // WARP_THREADS)
    warps = blocks * block_warps
    alone = work.latency + work.issued * -(-block_warps // SCHEDULERS)
    return max(
        alone,
        work.issued * warps / SCHEDULERS,
        work.lines * warps,
        blocks * work.cached / device.cache,
    )
