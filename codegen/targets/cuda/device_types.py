"""Arrays as the memory of a device holds them: bf16 in two bytes, which NumPy has no type for."""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.ir.types import WIDE, bytes_of
from einalg.language.ir.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]


def device_dtype(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype of the same size as an element on a device.

    >>> device_dtype("bf16"), device_dtype("f32")
    (dtype('uint16'), dtype('float32'))
    """
    if dtype == "bf16":
        return np.dtype(np.uint16)
    return numpy_dtype(dtype)


def to_device(array: Array, dtype: str) -> Array:
    """Return a contiguous array with the bytes that a device has for it, rounded to the nearest.

    >>> to_device(np.array([1.0, -2.5]), "bf16").tolist()
    [16256, 49184]
    """
    array = np.asarray(array, numpy_dtype(dtype), order="C")
    if dtype != "bf16":
        return array
    bits = array.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), 0x7FFF, rounded).astype(np.uint16)


def from_device(array: Array, dtype: str) -> Array:
    """Return the values of an array that comes from a device.

    >>> from_device(np.array([16256, 49184], np.uint16), "bf16")
    array([ 1. , -2.5], dtype=float32)
    """
    if dtype != "bf16":
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def element_size(dtype: str) -> int:
    """Return the bytes of a value in the memory of a device.

    >>> element_size("bf16"), element_size("f64")
    (2, 8)
    """
    if dtype == WIDE:
        return bytes_of(dtype)
    return device_dtype(dtype).itemsize
