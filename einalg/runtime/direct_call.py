"""Networks called on memory as it is: the addresses of inputs and outputs are all that a call writes, with no arrays by name between.

A call of a small network takes some microseconds; dictionaries of arrays, made anew for each call, would take longer than its kernels.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor
from einalg.runtime.buffer_pool import BufferPool

Array = np.ndarray[Any, Any]
AtAddresses = Callable[[list[int]], None]


@dataclass(frozen=True)
class Direct:
    """`run(addresses)` reads contiguous memory of all `inputs` and writes that of the `outputs`, whose addresses come in this order."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    run: AtAddresses

    def on_objects(self, objects: Objects) -> Callable[..., Any] | None:
        """A function in C that does all of a call; None where there is none for what runs."""
        make = getattr(self.run, "on_objects", None)
        return make(self.inputs, self.outputs, objects) if make else None


@dataclass(frozen=True)
class Objects:
    """How a function in C is called, and what it gives: objects whose class is one of `types` (one or two), else all goes to `otherwise`.

    `read` is the address of a C function that tells where an object lies, `dltensor_from_py_object_no_sync` of DLPack; 0 for arrays of NumPy.
    Memory does not hold an object's values where its method `refused` says so. `makers` make new objects for the outputs; `finish` makes of
    the tuple of them what a call gives: the only one of them without it, where there is only one.
    """

    types: tuple[type, ...]
    otherwise: Callable[..., Any]
    makers: tuple[Callable[[], Any], ...]
    finish: Callable[[tuple[Any, ...]], Any] | None = None
    read: int = 0
    refused: str = ""


def on_arrays(direct: Direct, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays in order, which gives an array, or a tuple of several; those that kernels cannot read where they lie go to `otherwise`.

    >>> def write(addresses):
    ...     ctypes.c_float.from_address(addresses[1]).value = 2 * ctypes.c_float.from_address(addresses[0]).value
    >>> double = on_arrays(Direct((Tensor("A", (1,), "f32"),), (Tensor("O", (1,), "f32"),), write), lambda a: 2 * np.asarray(a))
    >>> double(np.ones(1, np.float32)), double([3])
    (array([2.], dtype=float32), array([6]))
    """
    expected = [(tensor.shape, numpy_dtype(tensor.dtype)) for tensor in direct.inputs]
    memory = BufferPool()
    made = [memory.maker(tensor.shape, numpy_dtype(tensor.dtype)) for tensor in direct.outputs]
    count, run = len(expected), direct.run

    def call(*arrays: Any) -> Any:
        if len(arrays) != count:
            return otherwise(*arrays)
        addresses = []
        for array, (shape, dtype) in zip(arrays, expected):
            if not fits(array, shape, dtype):
                return otherwise(*arrays)
            addresses.append(address(array))
        results = [make() for make in made]
        addresses += map(address, results)
        run(addresses)
        return results[0] if len(results) == 1 else tuple(results)

    return direct.on_objects(Objects((np.ndarray,), call, tuple(made))) or call


def fits(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether kernels can read an array where it is."""
    return (
        type(value) is np.ndarray
        and value.shape == shape
        and value.dtype == dtype
        and value.flags.carray
    )


def _address(array: Array) -> int:
    """Where the elements of an array lie."""
    return array.__array_interface__["data"][0]


def _address_of_layout(array: Array) -> int:
    """The same, read where CPython keeps it: after the head of the object. It takes a quarter of the time."""
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


_PROBE = np.empty(1)
address = (
    _address_of_layout
    if sys.implementation.name == "cpython" and _address_of_layout(_PROBE) == _address(_PROBE)
    else _address
)
