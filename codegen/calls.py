"""Calls of compiled kernels with the addresses of their buffers.

After a fork, the thread that forked still believes in the OpenMP threads of its parent, which do not exist in the child: GNU's
OpenMP then waits for them for ever. There, calls go through a thread of the child's own.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

_forked = threading.local()


def _mark_forked() -> None:
    _forked.worker = ThreadPoolExecutor(1, thread_name_prefix="einalg")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)


def caller(entry: Any, names: Sequence[str]) -> Callable[[Mapping[str, np.ndarray[Any, Any]]], None]:
    """A compiled kernel as a function of buffers by name, of which it takes those of `names` in order."""
    block = ctypes.c_void_p * len(names)
    entry.argtypes, entry.restype = [ctypes.c_void_p], None

    def run(buffers: Mapping[str, np.ndarray[Any, Any]]) -> None:
        called(entry, block(*[buffers[name].__array_interface__["data"][0] for name in names]))

    return run


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function that may use OpenMP's threads returns, in a thread where these exist."""
    worker = getattr(_forked, "worker", None)
    return function(*arguments) if worker is None else worker.submit(function, *arguments).result()
