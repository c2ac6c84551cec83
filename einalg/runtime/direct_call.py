"""Calls of a network on memory as it is: a call passes addresses of inputs and outputs alone.

A call of a small network takes some microseconds; dictionaries of arrays, made anew for each call,
would take longer than its kernels.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor
from einalg.runtime.buffer_pool import BufferPool

Array = np.ndarray[Any, Any]
AddressFunction = Callable[[list[int]], None]
HOST = "cpu"  # the device whose memory arrays of NumPy lie in


@dataclass(frozen=True)
class Layout:
    """The shape of an object, and how many elements lie between neighbours along each axis."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], order: Sequence[int] | None = None) -> Layout:
        """Return the layout of axes of these sizes in memory, the outermost first.

        They are the axes in `order` of the object, by default all as they are.

        >>> Layout.of((1, 4, 5, 3), (0, 2, 3, 1))
        Layout(shape=(1, 3, 4, 5), strides=(60, 1, 15, 3))
        """
        shape, strides, step = [0] * len(sizes), [0] * len(sizes), 1
        axes = range(len(sizes)) if order is None else order
        for axis, size in reversed([*zip(axes, sizes)]):
            shape[axis], strides[axis] = size, step
            step *= max(1, size)
        return cls(tuple(shape), tuple(strides))

    def has(self, strides: Sequence[int]) -> bool:
        """Tell whether an object of this shape with some strides has its elements there."""
        if strides == self.strides:
            return True
        both = zip(self.shape, strides, self.strides)
        return all(size == 1 or one == other for size, one, other in both)


@dataclass(frozen=True)
class DirectCall:
    """A program on memory: `run(addresses)` reads all `inputs` and writes the `outputs`.

    Elements of a tensor lie in order; addresses of inputs come first, each in the order of the
    tensors.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    run: AddressFunction

    @property
    def device(self) -> str:
        """The device whose memory the addresses are of, for example `"cpu"` or `"cuda"`."""
        return getattr(self.run, "device", HOST)

    @property
    def alignment(self) -> int:
        """The bytes of which an address on a device is a multiple."""
        return getattr(self.run, "alignment", 1)

    def on_objects(self, interface: ObjectInterface) -> Callable[..., Any] | None:
        """Return a function in C that does a whole call; None where this program has none."""
        make = getattr(self.run, "on_objects", None)
        if make is None:
            return None
        return make(self.inputs, self.outputs, interface)


@dataclass(frozen=True)
class ObjectInterface:
    """How a function in C takes objects of a framework, and what it returns.

    Arguments are objects whose class is one of `types` (one or two); others go to `otherwise`.
    `read` is the address of a C function that returns where an object lies, such as
    `dltensor_from_py_object_no_sync` of DLPack; 0 for arrays of NumPy. Where an object's method
    `refused` returns true, its memory does not hold its values. `makers` make new objects for the
    outputs; `finish` turns the tuple of these into the result of a call. Without it that is the
    tuple, or the only object. `layouts` are those of the arguments, by default as the tensors lie.
    """

    types: tuple[type, ...]
    otherwise: Callable[..., Any]
    makers: tuple[Callable[[], Any], ...]
    finish: Callable[[tuple[Any, ...]], Any] | None = None
    read: int = 0
    refused: str = ""
    layouts: tuple[Layout, ...] = ()


def array_function(direct: DirectCall, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays in order, whose result is an array or a tuple of several.

    A call with arrays that kernels cannot read where they lie goes to `otherwise`.

    >>> def write(addresses):
    ...     source, target = map(ctypes.c_float.from_address, addresses)
    ...     target.value = 2 * source.value
    >>> a, o = Tensor("A", (1,), "f32"), Tensor("O", (1,), "f32")
    >>> double = array_function(DirectCall((a,), (o,), write), lambda a: 2 * np.asarray(a))
    >>> double(np.ones(1, np.float32)), double([3])
    (array([2.], dtype=float32), array([6]))
    """
    expected = [(tensor.shape, numpy_dtype(tensor.dtype)) for tensor in direct.inputs]
    pool = BufferPool()
    makers: list[Callable[[], Array]] = []
    for tensor in direct.outputs:
        makers.append(pool.allocator(tensor.shape, numpy_dtype(tensor.dtype)))
    count, run = len(expected), direct.run

    def call(*arrays: Any) -> Any:
        if len(arrays) != count:
            return otherwise(*arrays)
        addresses = []
        for array, (shape, dtype) in zip(arrays, expected):
            if not fits(array, shape, dtype):
                return otherwise(*arrays)
            addresses.append(address(array))
        results = [make() for make in makers]
        addresses += map(address, results)
        run(addresses)
        if len(results) == 1:
            return results[0]
        return tuple(results)

    return direct.on_objects(ObjectInterface((np.ndarray,), call, tuple(makers))) or call


def fits(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Return whether kernels can read an array where it is."""
    return (
        type(value) is np.ndarray
        and value.shape == shape
        and value.dtype == dtype
        and value.flags.carray
    )


def _address_by_interface(array: Array) -> int:
    """Return the address of an array's elements."""
    return array.__array_interface__["data"][0]


def _address_by_layout(array: Array) -> int:
    """Return the address from behind the head of CPython's object, four times as fast."""
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


def _fastest_address() -> Callable[[Array], int]:
    """Return the reading of CPython's layout where that is what NumPy has here."""
    probe = np.empty(1)
    if sys.implementation.name != "cpython":
        return _address_by_interface
    if _address_by_layout(probe) != _address_by_interface(probe):
        return _address_by_interface
    return _address_by_layout


address = _fastest_address()
