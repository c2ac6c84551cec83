"""A device that is none: memory of the host, kernels run by the shim, and a record of what was
asked for.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np
import pytest

from codegen.targets.cuda.device.array import DeviceArray
from codegen.targets.cuda.device.driver import KernelStart
from codegen.targets.cuda.device.memory_pool import MemoryPool
from codegen.targets.cuda.launch import Launch
from codegen.targets.cuda.shim import ShimLibrary
from einalg.errors import DeviceError

ALIGNED = 256


class HostMemory:
    def __init__(self, size: int):
        self.bytes = np.full(size + 2 * ALIGNED, 0xFF, np.uint8)
        self.address = self.bytes.ctypes.data + -self.bytes.ctypes.data % ALIGNED


class FakeDevice:
    """`codegen.targets.cuda.device.driver.Driver`; `calls` says what was done, `room` is how many
    bytes one allocation may take.

    Kernels are given addresses of memory that is alive only. `graphs` says whether graphs can be
    made, and `launches` whether they start.
    """

    name, sm = "a fake device", 80

    def __init__(self, room: int = 1 << 30):
        self.room, self.calls = room, list[tuple[Any, ...]]()
        self.free, self.graphs, self.launches = MemoryPool(), True, True
        self.stream = Lock()  # kernels run one after the other, whatever thread starts them
        self.alive: weakref.WeakValueDictionary[int, HostMemory] = weakref.WeakValueDictionary()

    def load(self, image: bytes, names: Sequence[str]) -> list[Any]:
        self.calls.append(("load", *names))
        text = image.decode()
        parts = text.split('extern "C"')[1:]
        counts = [part[: part.index(") {")].count("__restrict__") for part in parts]
        library = ShimLibrary(text, list(enumerate(counts)))
        return [library] * len(names)

    def allocate(self, size: int) -> HostMemory:
        if size > self.room:
            raise DeviceError(f"{self.name} has no memory for {size} bytes more")
        self.calls.append(("allocate", size))
        return self.memory(size)

    def memory(self, size: int) -> HostMemory:
        made = HostMemory(size)
        self.alive[made.address] = made
        return made

    def upload(self, address: int, array: Any) -> None:
        self.calls.append(("upload", array.nbytes))
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, array: Any, address: int) -> None:
        self.calls.append(("download", array.nbytes))
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def launch(self, kernel: Any, how: Launch, addresses: Sequence[int]) -> None:
        self.calls.append(("launch", how.name))
        self.run(kernel, how, addresses)

    def run(self, kernel: Any, how: Launch, addresses: Sequence[int]) -> None:
        assert all(address in self.alive for address in addresses), (
            f"{how.name} is given memory that was freed"
        )
        with self.stream:
            kernel.launch(how, addresses)

    def graph(self, kernels: Sequence[KernelStart]) -> FakeGraph | None:
        if not self.graphs:
            return None
        self.calls.append(("graph", *(how.name for _, how, _ in kernels)))
        return FakeGraph(self, list(kernels))

    def wait(self) -> None:
        self.calls.append(("wait",))

    def elapsed(self, run: Callable[[], None]) -> float:
        run()
        return 1e-2  # long enough that nothing is repeated for the clock

    def array(self, values: Any, dtype: str = "f32") -> DeviceArray:
        """An array that lies on this device."""
        memory = self.memory(values.nbytes)
        ctypes.memmove(memory.address, np.ascontiguousarray(values).ctypes.data, values.nbytes)
        return DeviceArray(self, memory, values.shape, dtype)

    def count(self, kind: str) -> int:
        return sum(call[0] == kind for call in self.calls)


class FakeGraph:
    def __init__(self, device: FakeDevice, kernels: Sequence[KernelStart]):
        self.device, self.kernels = device, kernels

    def launch(self) -> bool:
        if self.device.launches:
            self.device.calls.append(("graph launch", *(how.name for _, how, _ in self.kernels)))
            for kernel in self.kernels:
                self.device.run(*kernel)
        return self.device.launches


def assemble(text: str, sm: int) -> bytes:
    """In place of nvcc."""
    return text.encode()


def use_fake_device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """Have derivations and programs for `"cuda"` run on a fake device, whose rates are constant."""
    found = FakeDevice()
    rates = {"library": 1e12, "generated": 1e11, "bandwidth": 1e12, "call": 1e-6}
    monkeypatch.setattr("einalg.api.backend.find_driver", lambda: found)
    monkeypatch.setattr("codegen.program.cuda_executable.find_driver", lambda: found)
    monkeypatch.setattr("codegen.program.cuda_executable.nvcc_image", assemble)
    monkeypatch.setattr("codegen.measure.calibration.rates", lambda target, accuracy: rates)
    monkeypatch.setattr(
        "codegen.measure.calibration.identity", lambda target, accuracy: f"{target}, a fake device"
    )
    return found
