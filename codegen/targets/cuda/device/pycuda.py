"""The device through PyCUDA.

It is in the context that torch and CuPy use too, so that their arrays pass by address.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from codegen.targets.cuda.device.driver import KernelStart
from codegen.targets.cuda.device.graph_api import LibCuda, find_libcuda
from codegen.targets.cuda.device.memory_pool import MemoryPool
from codegen.targets.cuda.launch import Launch
from einalg.errors import DeviceError

LOG = logging.getLogger("einalg")
Array = np.ndarray[Any, Any]
WITHOUT = "candidate.source('cuda') and derive(..., measure=False) work without a device"


class PyCuda:
    """`codegen.targets.cuda.device.driver.Driver` for the first device.

    `CUDA_VISIBLE_DEVICES` says which one that is.
    """

    def __init__(self) -> None:
        self.cuda = _pycuda()
        try:
            self.cuda.init()
            count = self.cuda.Device.count()
        except self.cuda.Error as error:
            raise DeviceError(
                f"the CUDA driver does not start: {error}\n"
                f"  check that nvidia-smi shows a device; {WITHOUT}"
            ) from None
        if not count:
            raise DeviceError(f"there is no CUDA device here\n  use target='cpu'; {WITHOUT}")
        device = self.cuda.Device(0)
        self.name, (major, minor) = device.name(), device.compute_capability()
        self.sm = 10 * major + minor
        self.context = device.retain_primary_context()
        self.free, self.has_graphs = MemoryPool(), True

    @contextmanager
    def current(self) -> Iterator[Any]:
        """Work in the shared context; what fails there is raised as a `DeviceError`."""
        self.context.push()
        try:
            yield self.cuda
        except self.cuda.MemoryError as error:
            raise DeviceError(
                f"{self.name} is out of memory: {error}\n"
                "  free arrays that are kept on it, or make the program's tensors smaller"
            ) from None
        except self.cuda.Error as error:
            raise DeviceError(
                f"{self.name} failed: {error}\n"
                "  restart the process; if it fails again, please report the program"
            ) from None
        finally:
            self.cuda.Context.pop()

    def load(self, image: bytes, names: Sequence[str]) -> list[Any]:
        with self.current() as cuda:
            module = cuda.module_from_buffer(image)
            code = _Code(self, image)
            return [_Kernel(module, module.get_function(name), name, code) for name in names]

    def allocate(self, size: int) -> _Memory:
        with self.current() as cuda:
            try:
                return _Memory(cuda.mem_alloc(max(1, size)))
            except cuda.MemoryError:
                free, total = cuda.mem_get_info()
                raise DeviceError(
                    f"{self.name} has no memory for {size} bytes more: "
                    f"{free} of {total} bytes are free\n"
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
            kernel.function(*(np.uintp(a) for a in addresses), grid=how.grid, block=how.block)

    def graph(self, kernels: Sequence[KernelStart]) -> _Graph | None:
        if not self.has_graphs:
            return None
        try:
            library = find_libcuda()
            with self.current():
                return _Graph(self, library, kernels)
        except (DeviceError, self.cuda.Error) as error:
            self.without_graphs(error)
            return None

    def without_graphs(self, error: Exception) -> None:
        """Launch kernels one by one from now on, and say why."""
        if self.has_graphs:
            self.has_graphs = False
            LOG.info(
                "einalg: kernels are launched one by one on %s, not as graphs: %s", self.name, error
            )

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


class _Kernel:
    """A kernel for PyCUDA, and its code for graphs, as PyCUDA does not show its handle."""

    def __init__(self, module: Any, function: Any, name: str, code: _Code):
        self.module, self.function, self.name, self.code = module, function, name, code


class _Code:
    """Machine code as another module, loaded when a graph needs it, unloaded when forgotten."""

    def __init__(self, device: PyCuda, image: bytes):
        self._device, self._image, self._lock = device, image, threading.Lock()
        self._module: int | None = None
        self._functions = dict[str, int]()

    def function(self, library: LibCuda, name: str) -> int:
        with self._lock:
            if self._module is None:
                self._module = library.load(self._image)
                _finally(self, self._device, library.unload, self._module)
            if name not in self._functions:
                self._functions[name] = library.function(self._module, name)
            return self._functions[name]


class _Graph:
    """`codegen.targets.cuda.device.driver.LaunchGraph`; it ends on the device with this object."""

    def __init__(self, device: PyCuda, library: LibCuda, kernels: Sequence[KernelStart]):
        self._device, self._library = device, library
        nodes, code = [], set()
        for kernel, how, addresses in kernels:
            nodes.append((kernel.code.function(library, kernel.name), how, addresses))
            code.add(kernel.code)
        self._handle = library.graph(nodes)
        _finally(self, device, library.destroy, self._handle, *code)

    def launch(self) -> bool:
        if not self._device.has_graphs:
            return False
        try:
            with self._device.current():
                self._library.launch(self._handle)
        except (DeviceError, self._device.cuda.Error) as error:
            self._device.without_graphs(error)
            return False
        return True


def _finally(
    owner: Any, device: PyCuda, release: Callable[[int], None], handle: int, *alive: Any
) -> None:
    """Release a handle when its owner is forgotten, and keep some things alive until then.

    At the end of the process the driver does so.
    """

    def done(*_: Any) -> None:
        with suppress(DeviceError, device.cuda.Error), device.current():
            release(handle)

    weakref.finalize(owner, done, *alive).atexit = False


class _Memory:
    def __init__(self, allocation: Any):
        self._allocation, self.address = allocation, int(allocation)


def _pycuda() -> Any:
    try:
        import pycuda.driver as cuda
    except ModuleNotFoundError as error:
        raise DeviceError(
            f"running on a GPU needs PyCUDA: {error}\n  pip install 'einalg[cuda]'; {WITHOUT}"
        ) from None
    except ImportError as error:
        raise DeviceError(
            f"PyCUDA finds no CUDA driver: {error}\n  install the driver of the GPU; {WITHOUT}"
        ) from None
    return cuda
