"""Memory for what is between the kernels of a program (design §10).

Values that never live at the same time share it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from einalg.language.ir.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]
CACHE_LINE_BYTES = 64  # bytes of a line of the cache, on which every array begins


@dataclass(frozen=True)
class Lifetime:
    """The bytes that a value takes, from the step that makes it to the last one that reads it."""

    first: int
    last: int
    bytes: int


def aligned(shape: Sequence[int], dtype: str) -> Array:
    """A new array of zeros that begins with a line of the cache.

    >>> aligned((2, 3), "f64").ctypes.data % 64
    0
    """
    return view(reserved(size_of(shape, dtype)), 0, shape, dtype)


def reserved(size: int) -> Array:
    """So many bytes that begin with a line of the cache."""
    memory = np.zeros(size + CACHE_LINE_BYTES, np.uint8)
    begin = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[begin : begin + size]


def view(memory: Array, offset: int, shape: Sequence[int], dtype: str) -> Array:
    """A part of a block of bytes as an array."""
    return memory[offset : offset + size_of(shape, dtype)].view(numpy_dtype(dtype)).reshape(shape)


def size_of(shape: Sequence[int], dtype: str) -> int:
    return prod(shape) * numpy_dtype(dtype).itemsize


def place_values(lives: Mapping[Any, Lifetime]) -> tuple[dict[Hashable, int], int]:
    """Return where every value lies in one block of memory, and the size of that.

    The largest are placed first, each at the lowest place that is free all its life.

    >>> place_values({"T": Lifetime(0, 1, 100), "U": Lifetime(1, 2, 100), "V": Lifetime(2, 3, 60)})
    ({'T': 0, 'U': 128, 'V': 0}, 228)
    """
    order = sorted(lives, key=lambda name: (-lives[name].bytes, lives[name].first))
    first, last, begin, end = (np.zeros(len(order), np.int64) for _ in range(4))
    for k, name in enumerate(order):
        life = lives[name]
        beside = np.nonzero((first[:k] <= life.last) & (last[:k] >= life.first))[0]
        offset = 0
        for other in beside[np.argsort(begin[beside])]:
            if begin[other] >= offset + life.bytes:
                break
            offset = max(offset, -(-int(end[other]) // CACHE_LINE_BYTES) * CACHE_LINE_BYTES)
        first[k], last[k], begin[k], end[k] = life.first, life.last, offset, offset + life.bytes
    return dict(zip(order, begin.tolist())), int(end.max(initial=0))
