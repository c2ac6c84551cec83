"""Memory of a device for one call.

It returns to a pool when it is forgotten, and later calls get it, which so meet the same addresses
again.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Protocol

from einalg.errors import DeviceError

# The bytes that lie ready in all: a call on more is long beside the time of an allocation.
MAX_FREE_BYTES = 1 << 28


class Memory(Protocol):
    """Memory of a device, free when it is forgotten."""

    address: int


class Allocator(Protocol):
    """The functions of a device that a pool calls."""

    free: MemoryPool

    def allocate(self, size: int) -> Memory:
        """Return new memory of `size` bytes; `DeviceError` where there is no more."""
        ...

    def wait(self) -> None:
        """Return when the device has done all that it was asked for."""
        ...


class PooledBuffer:
    """Memory of a call, or of a result that a user holds.

    `shown` says that others know its address, and may use it on any stream.
    """

    def __init__(self, memory: Memory, size: int, free: MemoryPool):
        self.address, self.shown = memory.address, False
        self._memory, self._size, self._free = memory, size, free

    def __del__(self) -> None:
        self._free.give(self._memory, self._size, self.shown)


class MemoryPool:
    """Blocks that were returned, by their sizes in bytes."""

    def __init__(self, max_bytes: int = MAX_FREE_BYTES):
        self._max_bytes, self._lock = max_bytes, Lock()
        self._bytes, self._blocks = 0, dict[int, dict[int, tuple[Any, bool]]]()

    def take(self, size: int) -> tuple[Any, bool] | None:
        """Return a block and whether it was shown, or None.

        It is that of the lowest address, so that the same call gets the same blocks, whatever the
        order in which they were returned.
        """
        with self._lock:
            blocks = self._blocks.get(size)
            if not blocks:
                return None
            self._bytes -= size
            return blocks.pop(min(blocks))

    def give(self, memory: Any, size: int, shown: bool) -> None:
        """Put a block back, or let it be freed where there is too much.

        It never waits, as it may interrupt the holder of the lock.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._bytes + size <= self._max_bytes:
                self._blocks.setdefault(size, {})[memory.address] = memory, shown
                self._bytes += size
        finally:
            self._lock.release()

    def clear(self) -> bool:
        """Free all blocks; return whether there were any."""
        with self._lock:
            blocks, self._blocks, self._bytes = self._blocks, {}, 0
        return any(blocks.values())


def acquire(driver: Allocator, size: int) -> PooledBuffer:
    """Return memory of some bytes for a call; `DeviceError` where there is no more.

    What runs on the default stream is done with it before what comes after there; what others may
    do with it is waited for.
    """
    pooled = driver.free.take(size)
    if pooled is None:
        return PooledBuffer(allocate(driver, size), size, driver.free)
    memory, was_shown = pooled
    if was_shown:
        driver.wait()
    return PooledBuffer(memory, size, driver.free)


def allocate(driver: Allocator, size: int) -> Memory:
    """Return new memory, if need be in place of what lies ready; `DeviceError` if there is none."""
    try:
        return driver.allocate(size)
    except DeviceError:
        if not driver.free.clear():
            raise
    return driver.allocate(size)
