"""New arrays for the results of calls; large ones lie where earlier ones did that nobody has any more.

The system takes large memory back as soon as it is free, and clears it page by page when it gives it again: of a result of 100 MB, that
can take as long as a third of computing it, and much longer where several threads write.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

LARGE = 1 << 25  # bytes, from which on the C library asks the system for memory each time
LINE = 64  # bytes of a line of the cache, on which large arrays begin
Array = np.ndarray[Any, Any]


class BufferPool:
    """Where the results of a program lie: of each size, as much is kept as one large result takes.

    >>> make = BufferPool().maker((1 << 25,), np.dtype("f4"))
    >>> first = make()
    >>> place = first.ctypes.data
    >>> del first
    >>> make().ctypes.data == place
    True
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[Array]] = {}
        self._given: dict[int, weakref.ref[Array]] = {}

    def maker(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], Array]:
        """A function that gives new arrays, whose elements may be anything."""
        size = prod(shape) * dtype.itemsize
        return (
            partial(np.empty, shape, dtype)
            if size < LARGE
            else lambda: self._taken(size).view(dtype).reshape(shape)
        )

    def _taken(self, size: int) -> Array:
        """So many bytes that nobody has; they come back when this array and all views of it are gone."""
        free, given = self._free.setdefault(size, deque(maxlen=1)), self._given
        try:
            memory = free.pop()
        except IndexError:
            memory = np.empty(size + LINE, np.uint8)
        begin = -memory.ctypes.data % LINE
        taken = np.frombuffer(
            memory[begin : begin + size].data, np.uint8
        )  # views of it keep it, and not the memory alone
        number = id(taken)

        def take_back(_: Any) -> None:
            given.pop(number, None)
            free.append(memory)

        given[number] = weakref.ref(taken, take_back)
        return taken
