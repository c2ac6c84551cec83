"""New arrays for the results of calls; large ones reuse the memory of arrays that are gone.

The system takes large memory back as soon as it is free, and clears it page by page when it hands
it out again: for a result of 100 MB, that can take as long as a third of computing it, and much
longer where several threads write. Results that do not fit into the cache of a core begin with a
line of it: kernels that store a few vectors here and a few there wait up to twice as long where
each lies in two lines. Smaller ones are made in less time than that takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any
from weakref import ref

import numpy as np

MIN_POOLED_BYTES = 1 << 21  # from here on a line that is stored in two parts costs more
MIN_SYSTEM_BYTES = 1 << 25  # from here on the C library asks the system for memory each time
CACHE_LINE_BYTES = 64  # large arrays begin at a line of the processor's cache
Array = np.ndarray[Any, Any]


class _Lease(ref[Array]):
    """A weak reference to an array, with what is free once that is dead: memory, and its begin."""

    __slots__ = ("memory",)
    memory: tuple[Array, int]


class _LeasedMemory(Array):
    """The memory behind an array, which lives a little longer than it, and so does its lease."""

    lease: _Lease


class BufferPool:
    """Memory for the results of one program: of each size, at most one free buffer is retained.

    >>> new_array = BufferPool().allocator((1 << 21,), np.dtype("f4"))
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
        free = self._free.setdefault(size, deque(maxlen=1))
        return partial(_acquire, free, size, tuple(shape), dtype)


def _acquire(free: deque[_Lease], size: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of so many bytes; they are free again when all its views are gone.

    No Python code runs there: an interrupt that came in it would be lost, and the memory too.
    """
    try:
        memory, begin = free.pop().memory
    except IndexError:
        memory = np.empty(size + CACHE_LINE_BYTES, np.uint8)
        begin = -memory.ctypes.data % CACHE_LINE_BYTES
    leased = _LeasedMemory((size,), np.uint8, memory.data, begin)
    # Made from a buffer, so that a view of it refers to this array and not to `memory` alone.
    acquired = np.frombuffer(leased.data, dtype)
    leased.lease = _Lease(acquired, free.append)
    leased.lease.memory = memory, begin
    return acquired.reshape(shape)
