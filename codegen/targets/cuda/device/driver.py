"""The driver of a device, behind one small interface (design §10).

Nothing of CUDA is imported before a kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from codegen.targets.cuda.device.memory_pool import Memory, MemoryPool
from codegen.targets.cuda.launch import Launch

Array = np.ndarray[Any, Any]
# A kernel, how it is launched, and the addresses of its arguments.
KernelStart = tuple[Any, Launch, Sequence[int]]


class LaunchGraph(Protocol):
    """Several kernels at constant addresses, each after the one before."""

    def launch(self) -> bool:
        """Start them all; return False where the driver refuses, and then none was started."""
        ...


class Driver(Protocol):
    """A device with its memory."""

    name: str
    sm: int  # the compute capability: 90 is 9.0
    free: MemoryPool  # what calls have returned

    def load(self, image: bytes, names: Sequence[str]) -> list[Any]:
        """Return the kernels of machine code, by their names."""
        ...

    def allocate(self, size: int) -> Memory:
        """Return memory of some bytes; `DeviceError` where there is no more."""
        ...

    def upload(self, address: int, array: Array) -> None: ...

    def download(self, array: Array, address: int) -> None: ...

    def launch(self, kernel: Any, how: Launch, addresses: Sequence[int]) -> None: ...

    def graph(self, kernels: Sequence[KernelStart]) -> LaunchGraph | None:
        """Return kernels that one call starts from now on, in the thread that asks.

        None where the driver cannot do so.
        """
        ...

    def wait(self) -> None:
        """Return when all that was started on the device, on whatever stream, is done."""
        ...

    def elapsed(self, run: Callable[[], None]) -> float:
        """Return the seconds that the device takes for what a function starts."""
        ...
