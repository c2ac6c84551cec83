"""The protocol of kernels: functions of named buffers, which may pack some ahead of a call."""

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
    """Return the call where some of its inputs are known: a method `prepared` packs them now.

    `packed` is what the steps of one program have packed so far, which they share.
    """
    prepare = getattr(run, "prepared", None)
    if prepare is None:
        return run
    if packed is None:
        packed = {}
    return prepare(known, packed)


def packed_inputs(run: KernelFunction) -> frozenset[str]:
    """Return the buffers that a prepared call has packed, and does not read any more."""
    return getattr(run, "packed_inputs", frozenset())
