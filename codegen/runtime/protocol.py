"""What runs a kernel: a function of named buffers, and what it packs ahead of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

GENERATED = "generated"


Buffers = Mapping[str, np.ndarray[Any, Any]]


KernelFunction = Callable[
    [Buffers], None
]  # reads its inputs and writes its output in the buffers, all of them contiguous, by name


Packed = dict[Any, np.ndarray[Any, Any]]  # by what packed it


def prepared(run: KernelFunction, known: Buffers, packed: Packed | None = None) -> KernelFunction:
    """The same call where some of its inputs are known ahead: one that has a method `prepared` packs them now, once.

    `packed` is what the steps of one program have packed so far, which they share.
    """
    ahead = getattr(run, "prepared", None)
    return ahead(known, {} if packed is None else packed) if ahead else run
