"""Fingerprint of all that generated code and its times depend on here.

That is the processor, the threads, the compiler and the libraries.
"""

from __future__ import annotations

import os

import numpy as np

from codegen.hardware.cpu import cpu
from codegen.libraries import versions
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.thread_pool import RUNTIME
from codegen.targets.cuda.device.driver import Driver
from codegen.targets.cuda.device.nvcc import Nvcc
from einalg.runtime.processors import core_count
from einalg.storage.fingerprint import Fingerprint

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CHOICE_CODE = ("codegen/libraries", "codegen/runtime", "codegen/tuning", "einalg/runtime")


def host_fingerprint(code: tuple[str, ...], compiler: Compiler | None) -> Fingerprint:
    """Return what entries for this machine depend on, where `code` computes them.

    Two machines have the same one only where code and choices of one are those of the other.
    """
    tools = "no compiler"
    if compiler is not None:
        tools = "\n".join((*compiler.command, compiler.version, *compiler.flags))
    machine = "\n".join((cpu(), str(core_count()), *thread_settings(), RUNTIME))
    return Fingerprint(code, machine, tools, library_versions())


def device_fingerprint(code: tuple[str, ...], device: Driver, nvcc: Nvcc) -> Fingerprint:
    """Return what entries for a CUDA device depend on, where `code` computes them."""
    return Fingerprint(code, f"{device.name}\n{device.sm}", nvcc.version, library_versions())


def library_versions() -> tuple[str, ...]:
    """Return NumPy and the libraries that take part, each with its version.

    >>> library_versions()[0].startswith("numpy ")
    True
    """
    return (f"numpy {np.__version__}", *versions())


def thread_settings() -> list[str]:
    """Return the variables that tell libraries how many threads to use, with their values.

    An example is `"OMP_NUM_THREADS=2"`.
    """
    return [f"{name}={os.environ.get(name, '')}" for name in THREAD_VARIABLES]
