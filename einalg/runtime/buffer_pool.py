"""New arrays for the results of calls; large ones reuse the memory of arrays that are gone.

The system takes large memory back as soon as it is free, and clears it page by page when it hands
it out again: for a result of 100 MB, that can take as long as a third of computing it, and much
longer where several threads write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any
from weakref import ref

import numpy as np

MIN_POOLED_BYTES = 1 << 25  # from here on the C library asks the system for memory each time
CACHE_LINE_BYTES = 64  # large arrays begin at a line of the processor's cache
Array = np.ndarray[Any, Any]


class _Lease(ref[Array]):
    """A weak reference to an array, with the memory that is free once that is dead."""

    __slots__ = ("memory",)
    memory: Array


class _LeasedMemory(Array):
    """The memory behind an array, which lives a little longer than it, and so does its lease."""

    lease: _Lease


class BufferPool:
    """Memory for the results of one program: of each size, at most one free buffer is retained.

    >>> new_array = BufferPool().allocator((1 << 25,), np.dtype("f4"))
    >>> first = new_array()
    >>> address = first.ctypes.data
    >>> del first
    >>> new_array().ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[_Lease]] = {}  # by size in bytes

    def allocator(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], Array]:
        """Return a function that makes new arrays with arbitrary elements."""
        size = prod(shape) * dtype.itemsize
        if size < MIN_POOLED_BYTES:
            return partial(np.empty, shape, dtype)
        return lambda: self._acquire(size).view(dtype).reshape(shape)

    def _acquire(self, size: int) -> Array:
        """Return so many bytes; they are free again when all views of the array are gone.

        No Python code runs there: an interrupt that came in it would be lost, and the memory too.
        """
        free = self._free.setdefault(size, deque(maxlen=1))
        try:
            memory = free.pop().memory
        except IndexError:
            memory = np.empty(size + CACHE_LINE_BYTES, np.uint8)
        begin = -memory.ctypes.data % CACHE_LINE_BYTES
        leased = memory[begin : begin + size].view(_LeasedMemory)
        # Made from a buffer, so that a view of it refers to this array and not to `memory` alone.
        acquired = np.frombuffer(leased.data, np.uint8)
        leased.lease = _Lease(acquired, free.append)
        leased.lease.memory = memory
        return acquired
