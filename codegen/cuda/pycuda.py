"""The device through PyCUDA, in the context that torch and CuPy use too, so that their arrays pass by address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from codegen.cuda.printer import Launch
from einalg.errors import DeviceError

Array = np.ndarray[Any, Any]
WITHOUT = "candidate.source('cuda') and derive(..., measure=False) work without a device"


class PyCuda:
    """`codegen.cuda.driver.Driver` for the first device, or the one that `CUDA_VISIBLE_DEVICES` puts first."""

    def __init__(self) -> None:
        self.cuda = _pycuda()
        try:
            self.cuda.init()
            count = self.cuda.Device.count()
        except self.cuda.Error as error:
            raise DeviceError(f"the CUDA driver does not start: {error}\n  check that nvidia-smi shows a device; {WITHOUT}") from None
        if not count:
            raise DeviceError(f"there is no CUDA device here\n  use target='cpu'; {WITHOUT}")
        device = self.cuda.Device(0)
        self.name, (major, minor) = device.name(), device.compute_capability()
        self.sm = 10 * major + minor
        self.context = device.retain_primary_context()

    @contextmanager
    def current(self) -> Iterator[Any]:
        """Work in the shared context, and say in our words what fails there."""
        self.context.push()
        try:
            yield self.cuda
        except self.cuda.MemoryError as error:
            raise DeviceError(
                f"{self.name} is out of memory: {error}\n  free arrays that are kept on it, or make the program's tensors smaller"
            ) from None
        except self.cuda.Error as error:
            raise DeviceError(f"{self.name} failed: {error}\n  restart the process; if it fails again, please report the program") from None
        finally:
            self.cuda.Context.pop()

    def load(self, image: bytes, names: Sequence[str]) -> list[Any]:
        with self.current() as cuda:
            module = cuda.module_from_buffer(image)
            return [(module, module.get_function(name)) for name in names]

    def allocate(self, size: int) -> _Memory:
        with self.current() as cuda:
            try:
                return _Memory(cuda.mem_alloc(max(1, size)))
            except cuda.MemoryError:
                free, total = cuda.mem_get_info()
                raise DeviceError(
                    f"{self.name} has no memory for {size} bytes more: {free} of {total} bytes are free\n"
                    "  free arrays that are kept on it, or make the program's tensors smaller"
                ) from None

    def upload(self, address: int, array: Array) -> None:
        with self.current() as cuda:
            cuda.memcpy_htod(address, array)

    def download(self, array: Array, address: int) -> None:
        with self.current() as cuda:
            cuda.memcpy_dtoh(array, address)

    def launch(self, kernel: Any, how: Launch, addresses: Sequence[int]) -> None:
        with self.current():
            kernel[1](*(np.uintp(a) for a in addresses), grid=how.grid, block=how.block)

    def wait(self) -> None:
        with self.current() as cuda:
            cuda.Context.synchronize()

    def elapsed(self, run: Callable[[], None]) -> float:
        with self.current() as cuda:
            begin, end = cuda.Event(), cuda.Event()
            begin.record()
            run()
            end.record()
            end.synchronize()
            return begin.time_till(end) / 1000


class _Memory:
    def __init__(self, allocation: Any):
        self._allocation, self.address = allocation, int(allocation)


def _pycuda() -> Any:
    try:
        import pycuda.driver as cuda
    except ModuleNotFoundError as error:
        raise DeviceError(f"running on a GPU needs PyCUDA: {error}\n  pip install 'einalg[cuda]'; {WITHOUT}") from None
    except ImportError as error:
        raise DeviceError(f"PyCUDA finds no CUDA driver: {error}\n  install the driver of the GPU; {WITHOUT}") from None
    return cuda
