"""Values of two implementations of a kernel: equal up to rounding in another order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codegen.runtime.array_arguments import Array

TOLERANCE = {"f64": 1e-9, "f32": 1e-4, "bf16": 2e-2, "f16": 1e-2}  # of the largest element
BLOCK_ELEMENTS = 1 << 20  # that are compared at once


def same_values(values: Array, expected: Array, dtype: str) -> bool:
    """Say whether values are equal within the tolerance of a dtype.

    Integers are equal modulo those of their type, which code computes with; a reference may use
    wider ones. Values are compared block by block: large results in double precision would not fit
    in memory.

    >>> same_values(np.ones(3), np.ones(3) + 1e-12, "f64")
    True
    >>> same_values(np.array([44], np.uint8), np.array([300]), "u8")
    True
    """
    if dtype not in TOLERANCE:
        return np.array_equal(values, expected.astype(values.dtype))
    largest = 0.0
    for block in _blocks(expected):
        finite = block[np.isfinite(block)]
        largest = max(largest, float(np.abs(finite).max(initial=0)))
    pairs = zip(_blocks(values), _blocks(expected))
    allowed = TOLERANCE[dtype] * largest
    return all(
        np.allclose(block, other, rtol=0, atol=allowed, equal_nan=True) for block, other in pairs
    )


def valued(values: Array, defined: Array | None) -> Array:
    """Return values with 0 at the points where a statement has none: code may leave anything there.

    `defined` says where it has one; None where it has everywhere.

    >>> valued(np.array([1.0, np.nan]), np.array([True, False]))
    array([1., 0.])
    """
    if defined is None:
        return values
    return np.where(defined, values, values.dtype.type(0))


def fill_unlike(out: Array, expected: Array) -> None:
    """Fill results with elements that differ from all expected ones: what is not written shows.

    >>> out = np.zeros(2, np.float32)
    >>> fill_unlike(out, np.array([1.0, np.nan]))
    >>> out
    array([nan,  0.], dtype=float32)
    """
    others = expected.reshape(out.shape)
    if out.dtype.kind == "f":
        out.fill(np.nan)
        out[np.isnan(others)] = 0
    else:
        np.invert(others.astype(out.dtype), out=out)  # of truth values the other one


def _blocks(array: Array) -> Iterator[Array]:
    """Yield the elements of an array in double precision, some at a time."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, BLOCK_ELEMENTS):
        yield flat[start : start + BLOCK_ELEMENTS].astype(np.float64)
