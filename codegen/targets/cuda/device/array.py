"""Arrays that lie on a device, whichever framework made them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from codegen.targets.cuda.device.driver import Array, Driver, Memory
from codegen.targets.cuda.device.memory_pool import PooledBuffer
from codegen.targets.cuda.device_types import device_dtype, from_device
from codegen.targets.cuda.launch import VECTOR_BYTES
from einalg.errors import ShapeError
from einalg.language.ir.tensor import Tensor

DEFAULT_STREAM = 1  # in version 3 of the CUDA array interface: the stream on which kernels run
TORCH_BF16 = "<V2"  # how the interface names elements that NumPy has no type for


class DeviceArray:
    """A result that stays on its device.

    torch and CuPy read it by its address, `get()` copies it into a NumPy array.
    """

    def __init__(self, driver: Driver, memory: Memory, shape: tuple[int, ...], dtype: str):
        self.driver, self.memory, self.shape, self.dtype = driver, memory, shape, dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if isinstance(self.memory, PooledBuffer):
            self.memory.shown = True
        return self.facts

    @property
    def facts(self) -> dict[str, Any]:
        """Return `__cuda_array_interface__` for readers that use the default stream only."""
        kind = device_dtype(self.dtype).str
        return {
            "shape": self.shape,
            "typestr": kind,
            "data": (self.memory.address, False),
            "strides": None,
            "version": 3,
            "stream": DEFAULT_STREAM,
        }

    def get(self) -> Array:
        """Return a copy in the memory of the host."""
        array = np.empty(self.shape, device_dtype(self.dtype))
        if array.size:
            self.driver.download(array, self.memory.address)
        return from_device(array, self.dtype)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.driver.name})"


def is_on_device(value: Any) -> bool:
    """Return whether an array lies in the memory of a CUDA device."""
    if isinstance(value, DeviceArray):
        return True
    try:
        return hasattr(value, "__cuda_array_interface__")
    except (TypeError, RuntimeError):  # torch refuses for tensors that require gradients
        return False


def device_address(tensor: Tensor, value: Any) -> int:
    """Return where an array of a device lies; `ShapeError` where kernels cannot read it."""
    facts = _facts(value)
    dtype, shape, address = device_dtype(tensor.dtype), tuple(facts["shape"]), int(facts["data"][0])
    if shape != tensor.shape:
        raise ShapeError(
            f"{tensor.name} has shape {tensor.shape}, but an array of shape {shape} is given\n"
            "  pass another, or reshape it"
        )
    kind = facts["typestr"]
    if kind != dtype.str and not (tensor.dtype == "bf16" and kind == TORCH_BF16):
        raise ShapeError(
            f"{tensor.name} has dtype {tensor.dtype}, but a device array of type {kind} is given\n"
            "  convert it first"
        )
    if not _is_contiguous(facts.get("strides"), shape, dtype.itemsize):
        raise ShapeError(
            f"{tensor.name} is not contiguous on its device\n  make it contiguous first"
        )
    if address % VECTOR_BYTES:
        raise ShapeError(
            f"{tensor.name} begins at an address on its device "
            f"that is no multiple of {VECTOR_BYTES} bytes\n  copy it first"
        )
    return address


def _is_contiguous(strides: Sequence[int] | None, shape: tuple[int, ...], itemsize: int) -> bool:
    """Return whether elements lie in order without gaps; strides are in bytes, None if they do."""
    if strides is None or not prod(shape):
        return True
    dense = tuple(prod(shape[k + 1 :]) * itemsize for k in range(len(shape)))
    return tuple(strides) == dense


def is_under_way(value: Any) -> bool:
    """Return whether a stream may still write an array that kernels do not wait for by themselves.

    They wait for the default stream only.
    """
    return _facts(value).get("stream") not in (None, DEFAULT_STREAM)


def _facts(value: Any) -> dict[str, Any]:
    """Return the CUDA array interface of an array."""
    if isinstance(value, DeviceArray):
        return value.facts
    return value.__cuda_array_interface__
