"""The CUDA device of this machine, found on first use."""

from __future__ import annotations

from functools import lru_cache

from codegen.targets.cuda.device.driver import Driver


@lru_cache(maxsize=1)
def find_driver() -> Driver:
    """The device of this machine; `DeviceError` that says what is missing, and what to do about it."""
    from codegen.targets.cuda.device.pycuda import PyCuda

    return PyCuda()
