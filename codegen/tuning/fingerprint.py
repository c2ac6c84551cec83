"""What code and its times depend on: the processor, the threads, the compiler, and the libraries that take part."""

from __future__ import annotations

import os

import numpy as np

from codegen.hardware.cpu import cpu
from codegen.libraries import versions
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.thread_pool import RUNTIME
from einalg.runtime.processors import core_count

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def of_machine(compiler: Compiler | None) -> str:
    """This machine with a compiler, as a text that two machines share only where code and choices of one are those of the other."""
    tools = (
        "no compiler"
        if compiler is None
        else "\n".join((*compiler.command, compiler.version, *compiler.flags))
    )
    threads = "\n".join(f"{name}={os.environ.get(name, '')}" for name in THREADS)
    parts = (cpu(), str(core_count()), threads, RUNTIME, tools, np.__version__, *versions())
    return "\n".join(parts)
