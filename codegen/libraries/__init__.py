"""Libraries of fast operators, and which matched kernels they can run (design §10).

`EINALG_LIBRARIES` names those that take part, separated by commas. Without it NumPy does, and torch
in a process that has imported it already: a user who has no torch loses nothing, and nobody waits
for an import that was not asked for.

A module here binds the operators of one library; it imports `codegen.ir` and `codegen.runtime`,
and everything above asks `library_kernels`. A new library is a module with its bindings and a row
of `LIBRARIES`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from codegen.libraries import banded, numpy, torch
from codegen.runtime.protocol import KernelFunction
from einalg.errors import CodegenError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope

LOG = logging.getLogger("einalg")
CHOSEN = "EINALG_LIBRARIES"
Bindings = Mapping[str, Callable[[Kernel, Scope], KernelFunction | None]]


@dataclass(frozen=True)
class Library:
    """A Python module, and its implementations: for each a name, and its bindings by operator.

    An example of `implementations` is `{"numpy": {"matmul": matmul, "reduce": reduce}}`.
    """

    module: str
    implementations: Mapping[str, Bindings]


LIBRARIES: dict[str, Library] = {
    "numpy": Library("numpy", {"numpy": {**numpy.BINDINGS, **banded.BINDINGS}}),
    "torch": Library(
        "torch", {"torch": torch.BINDINGS, "torch, channels last": torch.CHANNELS_LAST}
    ),
}


def names() -> tuple[str, ...]:
    """Return the libraries that take part. `CodegenError` for one that is not known here.

    >>> "numpy" in names() or CHOSEN in os.environ
    True
    """
    chosen = os.environ.get(CHOSEN)
    if chosen is None:
        return tuple(name for name, library in LIBRARIES.items() if library.module in sys.modules)
    installed: dict[str, None] = {}
    for name in filter(None, map(str.strip, chosen.split(","))):
        if name not in LIBRARIES:
            raise CodegenError(
                f"{CHOSEN} names {name!r}, which is no library here\n"
                f"  use some of: {','.join(LIBRARIES)}"
            )
        if _is_installed(name):
            installed[name] = None
    return tuple(installed)


@cache
def _is_installed(name: str) -> bool:
    is_installed = find_spec(LIBRARIES[name].module) is not None
    if not is_installed:
        LOG.warning(
            "einalg: %s names %s, which is not installed; pip install 'einalg[%s]'",
            CHOSEN,
            name,
            name,
        )
    return is_installed


def versions() -> tuple[str, ...]:
    """Return the libraries that take part, each with its version, as `"torch 2.6"`.

    A measured choice depends on these.
    """
    return tuple(f"{name} {_version(name)}" for name in names())


@cache
def _version(name: str) -> str:
    try:
        return version(LIBRARIES[name].module)
    except PackageNotFoundError:
        return "of unknown version"


def library_kernels(kernel: Kernel, scope: Scope) -> dict[str, KernelFunction]:
    """Return every library's function for a kernel, by the name of the implementation.

    A library that cannot be asked has none, with a warning.
    """
    kernels: dict[str, KernelFunction] = {}
    for name in names():
        for implementation, bindings in LIBRARIES[name].implementations.items():
            binding = bindings.get(kernel.op)
            if binding is None:
                continue
            try:
                run = binding(kernel, scope)
            except Exception as error:  # a library may raise anything, and there are others
                LOG.warning("einalg: %s cannot be asked for %s: %s", name, kernel, error)
                continue
            if run is not None:
                kernels[implementation] = run
    return kernels
