"""What running on a device needs, behind one small interface: nothing of CUDA is imported before a kernel runs (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np

from codegen.cuda.lending import FreeMemory, Lent
from codegen.cuda.memory import device_dtype, from_device
from codegen.cuda.printer import Launch
from einalg.access import Tensor
from einalg.errors import ShapeError

Array = np.ndarray[Any, Any]
DEFAULT_STREAM = 1  # in version 3 of the CUDA array interface: the stream on which kernels run


class Memory(Protocol):
    """Memory of a device, free when it is forgotten."""

    address: int


Start = tuple[Any, Launch, Sequence[int]]  # a kernel, how it is launched, and the addresses that it is given


class Graph(Protocol):
    """Several kernels at fixed addresses, each after the one before."""

    def launch(self) -> bool:
        """Start them all; False where the driver refuses, and then none was started."""
        ...


class Driver(Protocol):
    """A device with its memory."""

    name: str
    sm: int  # the compute capability: 90 is 9.0
    free: FreeMemory  # what calls have given back

    def load(self, image: bytes, names: Sequence[str]) -> list[Any]:
        """The kernels of machine code, by their names."""
        ...

    def allocate(self, size: int) -> Memory:
        """Memory of some bytes; `DeviceError` where there is no more."""
        ...

    def upload(self, address: int, array: Array) -> None: ...

    def download(self, array: Array, address: int) -> None: ...

    def launch(self, kernel: Any, how: Launch, addresses: Sequence[int]) -> None: ...

    def graph(self, kernels: Sequence[Start]) -> Graph | None:
        """Kernels that are started by one call from now on, in the thread that asks; None where the driver cannot do so."""
        ...

    def wait(self) -> None:
        """Until all that was started on the device, on whatever stream, is done."""
        ...

    def elapsed(self, run: Callable[[], None]) -> float:
        """Seconds that the device takes for what a function starts."""
        ...


class DeviceArray:
    """A result that stays on its device: torch and CuPy read it by its address, `get()` copies it into a NumPy array."""

    def __init__(self, driver: Driver, memory: Memory, shape: tuple[int, ...], dtype: str):
        self.driver, self.memory, self.shape, self.dtype = driver, memory, shape, dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if isinstance(self.memory, Lent):
            self.memory.shown = True
        return self.facts

    @property
    def facts(self) -> dict[str, Any]:
        """What `__cuda_array_interface__` says, for readers that use nothing but the default stream."""
        kind = device_dtype(self.dtype).str
        return {"shape": self.shape, "typestr": kind, "data": (self.memory.address, False), "strides": None, "version": 3, "stream": DEFAULT_STREAM}

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
        raise ShapeError(f"{tensor.name} has shape {tensor.shape}, but an array of shape {shape} is given")
    if facts["typestr"] != dtype.str and not (tensor.dtype == "bf16" and facts["typestr"] == "<V2"):
        raise ShapeError(f"{tensor.name} has dtype {tensor.dtype}, but a device array of type {facts['typestr']} is given\n  convert it first")
    strides, dense = facts.get("strides"), tuple(prod(shape[k + 1 :]) * dtype.itemsize for k in range(len(shape)))
    if strides is not None and tuple(strides) != dense and prod(shape):
        raise ShapeError(f"{tensor.name} is not contiguous on its device\n  make it contiguous first")
    if address % 16:
        raise ShapeError(f"{tensor.name} begins at an address on its device that is no multiple of 16 bytes\n  copy it first")
    return address


def is_under_way(value: Any) -> bool:
    """Whether an array of a device may still be written by a stream that kernels do not wait for by themselves: any but the default one."""
    return _facts(value).get("stream") not in (None, DEFAULT_STREAM)


def _facts(value: Any) -> dict[str, Any]:
    return value.facts if isinstance(value, DeviceArray) else value.__cuda_array_interface__


@lru_cache(maxsize=1)
def find_driver() -> Driver:
    """The device of this machine; `DeviceError` that says what is missing, and what to do about it."""
    from codegen.cuda.pycuda import PyCuda

    return PyCuda()
