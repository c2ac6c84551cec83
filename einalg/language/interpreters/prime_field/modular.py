"""Arrays of residues modulo an odd prime below 2**31, as int64: products of two stay below
2**62.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Times = Callable[[Any, Any], Any]
HALF_BITS = 16  # of a residue, which is split into two parts
LITTLE_ENDIAN = np.dtype("<i8")
BLOCK_ELEMENTS = 2**17  # of a factor or a product at a time: what lies between stays in a cache
# Terms that float64 sums exactly, each a product of sums of two parts and so below 2**34.
MAX_EXACT_TERMS = 2**18
MANTISSA_BITS = 53  # of float64


def residues(values: Array, modulus: int) -> Array:
    """Return integers, truth values and finite floats as residues; a float is the binary fraction
    that it is, anything infinite 0.

    >>> residues(np.array([-1, 8]), 7), residues(np.array([0.5]), 7)
    (array([6, 1]), array([4]))
    """
    if values.dtype.kind != "f":
        if values.dtype != np.uint64:
            values = values.astype(np.int64, copy=False)
        return np.mod(values, values.dtype.type(modulus)).astype(np.int64)
    if not values.size:
        return np.zeros(values.shape, np.int64)
    fraction, exponent = np.frexp(np.where(np.isfinite(values), values, 0).astype(np.float64))
    digits = np.ldexp(fraction, MANTISSA_BITS).astype(np.int64)
    shift = exponent.astype(np.int64) - MANTISSA_BITS
    low, high = int(shift.min()), int(shift.max())
    powers = np.array([pow(2, k, modulus) for k in range(low, high + 1)], np.int64)
    return digits % modulus * powers[shift - low] % modulus


def power(base: Any, exponent: Any, times: Times) -> Any:
    """Return `base ** exponent` by squaring, where `times` multiplies; `exponent` >= 0 is an
    integer or an array of them, and `0 ** 0` is 1.
    """
    result: Any = np.ones(np.broadcast_shapes(np.shape(base), np.shape(exponent)), np.int64)
    square, left = base, exponent
    while np.max(left) > 0:
        odd = np.equal(left % 2, 1)
        result = np.where(odd, times(result, square), result)
        left = left // 2
        square = times(square, square)
    return result


def inverse(values: Any, modulus: int) -> Any:
    """Return the inverse of every residue; 0 for 0."""
    return power(values, modulus - 2, lambda left, right: left * right % modulus)


def product_along(values: Array, axes: Sequence[int], times: Times) -> Array:
    """Return the product over `axes`, which disappear; `times` multiplies."""
    rest = [axis for axis in range(values.ndim) if axis not in axes]
    shape = [values.shape[axis] for axis in rest]
    count = prod(values.shape[axis] for axis in axes)
    left = values.transpose((*axes, *rest)).reshape((count, *shape))
    while len(left) > 1:
        half = len(left) // 2
        multiplied = times(left[:half], left[half : 2 * half])
        left = np.concatenate([multiplied, left[2 * half :]])
    return left.reshape(shape)


def matmul(left: Array, right: Array, modulus: int) -> Array:
    """Return a batch of matrix products, exactly, by three products in float64 (and so by BLAS) of
    the halves of the residues.
    """
    total: Any = 0
    for start in range(0, max(1, left.shape[-1]), MAX_EXACT_TERMS):
        part = slice(start, start + MAX_EXACT_TERMS)
        total = (total + _matmul(left[..., part], right[..., part, :], modulus)) % modulus
    return total


def _matmul(left: Array, right: Array, modulus: int) -> Array:
    """Return a batch of matrix products of few enough terms, a block at a time."""
    shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*shape, left.shape[-2], right.shape[-1])
    is_batch = right.ndim == left.ndim > 2 and len(right) > 1
    largest = max(left.size, right.size if is_batch else 0, prod(shape))
    step = max(1, BLOCK_ELEMENTS * shape[0] // max(1, largest))
    if step >= shape[0] or left.ndim < len(shape) or len(left) < shape[0]:
        return _block_product(left, right, modulus)
    result = np.empty(shape, np.int64)
    for start in range(0, shape[0], step):
        part = slice(start, start + step)
        factor = right[part] if is_batch else right
        result[part] = _block_product(left[part], factor, modulus)
    return result


def _block_product(left: Array, right: Array, modulus: int) -> Array:
    (high, low), (upper, lower) = _halves(left), _halves(right)
    top, bottom = high @ upper, low @ lower
    middle = (high + low) @ (upper + lower)
    middle -= top
    middle -= bottom
    total = _reduced(top, modulus)
    for part in (middle, bottom):
        total *= 2.0**HALF_BITS
        total += _reduced(part, modulus)
        total = _reduced(total, modulus)
    result = total.astype(np.int64)
    result += modulus * (result < 0)
    result -= modulus * (result >= modulus)
    return result


def _halves(values: Array) -> tuple[Array, Array]:
    """Return the upper and the lower bits of residues."""
    words = np.ascontiguousarray(values, LITTLE_ENDIAN).view("<u2")  # four for each
    return words[..., 1::4].astype(np.float64), words[..., ::4].astype(np.float64)


def _reduced(values: Array, modulus: int) -> Array:
    """Replace whole numbers below 2**53 by what is congruent to them, from `-modulus` to below
    `2*modulus`: a quotient in float64 is wrong by one at most.
    """
    quotients = values * (1 / modulus)
    np.floor(quotients, out=quotients)
    quotients *= modulus
    values -= quotients
    return values
