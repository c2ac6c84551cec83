"""Arrays of residues modulo an odd prime below 2**31, as int64: products of two stay below
2**62.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
HALF = 16  # bits of the lower part of a residue
DEPTH = (
    2**18
)  # terms of a sum of products of sums of two parts, each below 2**34, that float64 holds exactly
MANTISSA = 53  # bits of float64


def residues(values: Array, modulus: int) -> Array:
    """Integers, truth values and finite floats as residues; a float is the binary fraction that it
    is, anything infinite 0.

    >>> residues(np.array([-1, 8]), 7), residues(np.array([0.5]), 7)
    (array([6, 1]), array([4]))
    """
    if values.dtype.kind != "f":
        wide = values if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
        return np.mod(wide, wide.dtype.type(modulus)).astype(np.int64)
    fraction, exponent = np.frexp(np.where(np.isfinite(values), values, 0).astype(np.float64))
    digits = np.ldexp(fraction, MANTISSA).astype(np.int64)
    shift = exponent.astype(np.int64) - MANTISSA
    low, high = (int(shift.min()), int(shift.max())) if shift.size else (0, 0)
    powers = np.array([pow(2, k, modulus) for k in range(low, high + 1)], np.int64)
    return digits % modulus * powers[shift - low] % modulus


def power(base: Any, exponent: Any, modulus: int) -> Any:
    """`base ** exponent` by squaring; `exponent` >= 0 is an integer or an array of them, and `0 **
    0` is 1.
    """
    result: Any = np.ones(np.broadcast_shapes(np.shape(base), np.shape(exponent)), np.int64)
    square, left = base, exponent
    while np.max(left) > 0:
        odd = np.equal(left % 2, 1)
        result = np.where(odd, result * square % modulus, result)
        left = left // 2
        square = square * square % modulus
    return result


def inverse(values: Any, modulus: int) -> Any:
    """The inverse of every residue; 0 for 0."""
    return power(values, modulus - 2, modulus)


def product_along(values: Array, axes: Sequence[int], modulus: int) -> Array:
    """The product over `axes`, which disappear."""
    rest = [axis for axis in range(values.ndim) if axis not in axes]
    shape = tuple(values.shape[axis] for axis in rest)
    left = values.transpose((*axes, *rest)).reshape(
        (prod(values.shape[axis] for axis in axes), *shape)
    )
    while len(left) > 1:
        half = len(left) // 2
        multiplied = left[:half] * left[half : 2 * half] % modulus
        left = np.concatenate([multiplied, left[2 * half :]])
    return left.reshape(shape)


def matmul(left: Array, right: Array, modulus: int) -> Array:
    """A batch of matrix products, exactly, by three products in float64 (and so by BLAS) of the
    halves of the residues.
    """
    total: Any = 0
    for start in range(0, left.shape[-1], DEPTH):
        stop = start + DEPTH
        total = (
            total + _matmul(left[..., start:stop], right[..., start:stop, :], modulus)
        ) % modulus
    return total


def _matmul(left: Array, right: Array, modulus: int) -> Array:
    (high, low), (upper, lower) = _halves(left), _halves(right)
    top, bottom = high @ upper, low @ lower
    middle = (high + low) @ (upper + lower) - top - bottom
    return (
        _scaled(top, 2 * HALF, modulus)
        + _scaled(middle, HALF, modulus)
        + _scaled(bottom, 0, modulus)
    ) % modulus


def _halves(values: Array) -> tuple[Array, Array]:
    return (values >> HALF).astype(np.float64), (values & (2**HALF - 1)).astype(np.float64)


def _scaled(values: Array, bits: int, modulus: int) -> Array:
    return values.astype(np.int64) % modulus * (2**bits % modulus) % modulus
