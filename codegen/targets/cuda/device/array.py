"""Arrays that lie on a device, whichever framework made them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from codegen.targets.cuda.device.driver import Array, Driver, Memory
from codegen.targets.cuda.device.memory_pool import PooledBuffer
from codegen.targets.cuda.device_types import device_dtype, from_device
from einalg.errors import ShapeError
from einalg.language.ir.tensor import Tensor

DEFAULT_STREAM = 1  # in version 3 of the CUDA array interface: the stream on which kernels run


class DeviceArray:
    """A result that stays on its device: torch and CuPy read it by its address, `get()` copies it into a NumPy array."""

    def __init__(self, driver: Driver, memory: Memory, shape: tuple[int, ...], dtype: str):
        self.driver, self.memory, self.shape, self.dtype = driver, memory, shape, dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if isinstance(self.memory, PooledBuffer):
            self.memory.shown = True
        return self.facts

    @property
    def facts(self) -> dict[str, Any]:
        """What `__cuda_array_interface__` says, for readers that use nothing but the default stream."""
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
        """A copy in the memory of the host."""
        array = np.empty(self.shape, device_dtype(self.dtype))
        if array.size:
            self.driver.download(array, self.memory.address)
        return from_device(array, self.dtype)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.driver.name})"


def is_on_device(value: Any) -> bool:
    """Whether an array lies in the memory of a CUDA device."""
    if isinstance(value, DeviceArray):
        return True
    try:
        return hasattr(value, "__cuda_array_interface__")
    except (TypeError, RuntimeError):  # torch refuses for tensors that require gradients
        return False


def device_address(tensor: Tensor, value: Any) -> int:
    """Where an array of a device lies; `ShapeError` where a kernel cannot read it as it is."""
    facts = _facts(value)
    dtype, shape, address = device_dtype(tensor.dtype), tuple(facts["shape"]), int(facts["data"][0])
    if shape != tensor.shape:
        raise ShapeError(
            f"{tensor.name} has shape {tensor.shape}, but an array of shape {shape} is given"
        )
    if facts["typestr"] != dtype.str and not (tensor.dtype == "bf16" and facts["typestr"] == "<V2"):
        raise ShapeError(
            f"{tensor.name} has dtype {tensor.dtype}, but a device array of type {facts['typestr']} is given\n  convert it first"
        )
    strides, dense = (
        facts.get("strides"),
        tuple(prod(shape[k + 1 :]) * dtype.itemsize for k in range(len(shape))),
    )
    if strides is not None and tuple(strides) != dense and prod(shape):
        raise ShapeError(
            f"{tensor.name} is not contiguous on its device\n  make it contiguous first"
        )
    if address % 16:
        raise ShapeError(
            f"{tensor.name} begins at an address on its device that is no multiple of 16 bytes\n  copy it first"
        )
    return address


def is_under_way(value: Any) -> bool:
    """Whether an array of a device may still be written by a stream that kernels do not wait for by themselves: any but the default one."""
    return _facts(value).get("stream") not in (None, DEFAULT_STREAM)


def _facts(value: Any) -> dict[str, Any]:
    return value.facts if isinstance(value, DeviceArray) else value.__cuda_array_interface__
