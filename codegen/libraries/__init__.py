"""Libraries of fast operators, and which matched kernels they can run (design §10).

`EINALG_LIBRARIES` names those that take part, separated by commas. Without it NumPy does, and torch in a process that has
imported it already: a user who has no torch loses nothing, and nobody waits for an import that was not asked for.
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
from typing import Any

import numpy as np

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
    """A Python module and how it runs operators: for each way a name, and a binding for each operator that it has."""

    module: str
    ways: Mapping[str, Bindings]


LIBRARIES: dict[str, Library] = {
    "numpy": Library("numpy", {"numpy": {**numpy.BINDINGS, **banded.BINDINGS}}),
    "torch": Library(
        "torch", {"torch": torch.BINDINGS, "torch, channels last": torch.CHANNELS_LAST}
    ),
}


def names() -> tuple[str, ...]:
    """The libraries that take part. `CodegenError` where one is named that is not known here.

    >>> "numpy" in names() or CHOSEN in os.environ
    True
    """
    chosen = os.environ.get(CHOSEN)
    if chosen is None:
        return tuple(name for name, library in LIBRARIES.items() if library.module in sys.modules)
    wanted = dict.fromkeys(name.strip() for name in chosen.split(",") if name.strip())
    unknown = [name for name in wanted if name not in LIBRARIES]
    if unknown:
        raise CodegenError(
            f"{CHOSEN} names {unknown[0]!r}, which is no library here\n  use some of: {','.join(LIBRARIES)}"
        )
    return tuple(name for name in wanted if _is_installed(name))


@cache
def _is_installed(name: str) -> bool:
    found = find_spec(LIBRARIES[name].module) is not None
    if not found:
        LOG.warning(
            "einalg: %s names %s, which is not installed; pip install 'einalg[%s]'",
            CHOSEN,
            name,
            name,
        )
    return found


def versions() -> tuple[str, ...]:
    """The libraries that take part, each with its version: what a measured choice depends on."""
    return tuple(f"{name} {_version(name)}" for name in names())


@cache
def _version(name: str) -> str:
    try:
        return version(LIBRARIES[name].module)
    except PackageNotFoundError:
        return "of unknown version"


def ways(kernel: Kernel, scope: Scope) -> dict[str, KernelFunction]:
    """Every way in which a library runs a kernel, by its name; a library that cannot be asked has none, with a warning."""
    found: dict[str, KernelFunction] = {}
    for name in names():
        for way, bindings in LIBRARIES[name].ways.items():
            binding = bindings.get(kernel.op)
            try:
                run = binding(kernel, scope) if binding else None
            except Exception as error:  # whatever a library raises, there is another way
                LOG.warning("einalg: %s cannot be asked for %s: %s", name, kernel, error)
                run = None
            if run is not None:
                found[way] = run
    return found
