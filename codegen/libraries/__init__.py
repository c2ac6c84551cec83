"""Libraries of fast operators, and which matched kernels they can run (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from codegen.libraries import numpy_library
from einalg.kernel import Kernel
from einalg.scope import Scope

Buffers = Mapping[str, np.ndarray[Any, Any]]
Run = Callable[[Buffers], None]  # reads its inputs and writes its output in the buffers, all of them contiguous, by name

LIBRARIES: dict[str, dict[str, Callable[[Kernel, Scope], Run | None]]] = {"numpy": numpy_library.BINDINGS}


def bind(kernel: Kernel, scope: Scope) -> tuple[str, Run] | None:
    """The first library that runs a kernel, with the call; None where no library has the operator."""
    for library, bindings in LIBRARIES.items():
        binding = bindings.get(kernel.op)
        run = binding(kernel, scope) if binding else None
        if run is not None:
            return library, run
    return None


def prepared(run: Run, known: Buffers) -> Run:
    """The same call where some of its inputs are known ahead: one that has a method `prepared` packs them now, once."""
    ahead = getattr(run, "prepared", None)
    return ahead(known) if ahead else run
