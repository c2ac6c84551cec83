"""Digests of memory: whatever is written to it is noticed, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.runtime import memory_digest
from codegen.runtime.memory_digest import PIECE_BYTES, MemoryDigest

SIZES = [1, 7, 8, 1023, 1024, 1025, 5000, PIECE_BYTES, PIECE_BYTES + 3, 9 * PIECE_BYTES - 1]


@pytest.fixture(params=["compiled", "without a compiler"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "compiled":
        monkeypatch.setattr(memory_digest, "_library", lambda: None)
    return request.param


def span(array: Any) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


@pytest.mark.parametrize("size", SIZES)
def test_every_byte_counts(size: int, way: str) -> None:
    memory = np.random.default_rng(size).integers(0, 256, size + 2, np.uint8)
    inside = memory[1:-1]  # at an odd address
    digest = MemoryDigest.of([span(inside)])
    memory[0] ^= 1
    memory[-1] ^= 1
    assert digest.is_unchanged()
    for position in {0, size // 3, size // 2, size - 1}:
        inside[position] ^= 0x80
        assert not digest.is_unchanged()
        inside[position] ^= 0x80
        assert digest.is_unchanged()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "all signs": lambda array: np.negative(array, out=array),
    "rows in another order": lambda array: array.__setitem__(slice(None), array[::-1].copy()),
    "two elements in each other's place": lambda array: array.__setitem__(
        (0, [3, 4]), array[0, [4, 3]]
    ),
    "halves in each other's place": lambda array: array.__setitem__(
        slice(None), np.roll(array, array.shape[0] // 2, 0)
    ),
    "one more": lambda array: np.add(array, 1, out=array),
    "one up, one down": lambda array: array.__setitem__((2, [0, 8]), array[2, [0, 8]] + [1, -1]),
    "columns turned": lambda array: array.__setitem__(slice(None), np.roll(array, 8, 1)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float16])
def test_changes_that_sums_may_miss(name: str, dtype: Any, way: str) -> None:
    array = np.arange(1, 1 + 128 * 64).reshape(128, 64).astype(dtype)
    digest = MemoryDigest.of([span(array)])
    CHANGES[name](array)
    assert not digest.is_unchanged()


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=5), st.data())
def test_several_spans(sizes: list[int], data: Any) -> None:
    arrays = [np.arange(size, dtype=np.uint8) for size in sizes]
    whole = MemoryDigest.of(list(map(span, arrays)))
    parts = MemoryDigest.together([MemoryDigest.of([span(array)]) for array in arrays])
    assert whole.is_unchanged() and parts.is_unchanged()
    for array in arrays:
        if array.size:
            array[data.draw(st.integers(0, array.size - 1))] ^= 1
            assert not whole.is_unchanged() and not parts.is_unchanged()
            break


def test_no_memory_is_unchanged(way: str) -> None:
    assert MemoryDigest.together([]).is_unchanged()
    assert MemoryDigest.of([(0, 0)]).is_unchanged()
