"""Calls of compiled functions with the addresses of their buffers.

After a fork, the thread that forked still believes in the OpenMP threads of its parent, which do
not exist in the child: GNU's
OpenMP then waits for them for ever. There, calls go through a thread of the child's own.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from einalg.runtime.direct_call import address

Array = np.ndarray[Any, Any]
_forked = threading.local()


def _mark_forked() -> None:
    _forked.worker = ThreadPoolExecutor(1, thread_name_prefix="einalg")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)


@dataclass(frozen=True)
class ForeignCall:
    """A compiled function with the names of the buffers that it takes, in order: a function of
    buffers by name.

    `offsets` say from which byte on it takes each of them.
    """

    function: Any
    names: tuple[str, ...]
    offsets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.function.argtypes, self.function.restype = [ctypes.c_void_p], None

    def __call__(self, buffers: Mapping[str, Array]) -> None:
        call_function(self.function, self.addresses(buffers))

    def addresses(
        self, buffers: Mapping[str, Array], later: Collection[str] = ()
    ) -> ctypes.Array[ctypes.c_void_p]:
        """Where its buffers lie, as it takes it; nowhere yet for those that come `later`."""
        places = zip(self.names, self.offsets or repeat(0))
        return (ctypes.c_void_p * len(self.names))(
            *(None if name in later else address(buffers[name]) + offset for name, offset in places)
        )


def call_function(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that may use OpenMP's threads, in a thread where these exist."""
    worker = getattr(_forked, "worker", None)
    if worker is None:
        return function(*arguments)
    return worker.submit(function, *arguments).result()
