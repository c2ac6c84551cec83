"""The CUDA device of this machine, which is looked for on first use."""

from __future__ import annotations

from functools import lru_cache

from codegen.targets.cuda.device.driver import Driver
from codegen.targets.cuda.device.pycuda import PyCuda


@lru_cache(maxsize=1)
def find_driver() -> Driver:
    """Return the device of this machine.

    Raises `DeviceError` that says what is missing, and what to do about it.
    """
    return PyCuda()
