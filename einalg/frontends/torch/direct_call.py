"""Calls of a network with tensors whose memory its kernels read as it is, and whose results they write."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor
from einalg.runtime.buffer_pool import LARGE, BufferPool
from einalg.runtime.direct_call import Direct, Objects


@dataclass(frozen=True)
class TensorSignature:
    """Of a module that takes tensors in a row: their dtypes, those of the tensors that it gives, and how these are nested."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    nest: Callable[[Iterator[Any]], Any]


def on_tensors(
    direct: Direct, row: TensorSignature, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    """A function of tensors in order, which gives new ones.

    Arguments that are no plain tensors of the right shape and dtype, contiguous in the memory of the CPU, are given to `otherwise`; so are
    all where torch and the kernels hold an element in different ways.
    """
    import torch

    if [*row.inputs, *row.outputs] != [
        as_torch(tensor.dtype) for tensor in (*direct.inputs, *direct.outputs)
    ]:
        return otherwise
    plain, strided, nest, run = (
        (torch.Tensor, torch.nn.Parameter),
        torch.strided,
        row.nest,
        direct.run,
    )
    expected = [
        (tensor.shape, dtype, dtype.itemsize) for tensor, dtype in zip(direct.inputs, row.inputs)
    ]
    memory = BufferPool()
    made = [_maker(memory, tensor, dtype) for tensor, dtype in zip(direct.outputs, row.outputs)]
    count = len(expected)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords or len(arguments) != count:
            return otherwise(*arguments, **keywords)
        addresses = []
        for value, (shape, dtype, size) in zip(arguments, expected):
            if (
                type(value) not in plain
                or value.dtype is not dtype
                or value.shape != shape
                or value.layout is not strided
            ):
                return otherwise(*arguments)
            if (
                not value.is_cpu
                or not value.is_contiguous()
                or value.is_neg()
                or (where := value.data_ptr()) % size
            ):
                return otherwise(*arguments)
            addresses.append(where)
        results = [make() for make in made]
        addresses += [result.data_ptr() for result in results]
        run(addresses)
        return nest(iter(results))

    if not (read := _reader()):
        return call
    return (
        direct.on_objects(
            Objects(plain, call, tuple(made), _finish(nest, len(made)), read, "is_neg")
        )
        or call
    )


def _finish(
    nest: Callable[[Iterator[Any]], Any], count: int
) -> Callable[[tuple[Any, ...]], Any] | None:
    """What nests a tuple of results; None where that gives the only one."""
    marks = tuple(object() for _ in range(count))
    nested = nest(iter(marks))
    if count == 1 and nested is marks[0]:
        return None
    return (
        type(nested)
        if type(nested) in (tuple, list) and tuple(nested) == marks
        else lambda results: nest(iter(results))
    )


def _reader() -> int:
    """The address of the C function of DLPack that tells where a tensor lies; 0 where this torch has none."""
    import torch

    table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if table is None:
        return 0
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = _Exchange.from_address(pointer(table, b"dlpack_exchange_api"))
    return found.where or 0 if found.major == 1 else 0


class _Exchange(ctypes.Structure):
    """DLPack's table of functions, version 1."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        *((name, ctypes.c_void_p) for name in ("older", "new", "read", "give", "where")),
    ]


def _maker(memory: BufferPool, tensor: Tensor, dtype: Any) -> Callable[[], Any]:
    """What makes new tensors for an output: torch's own, unless they are large."""
    import torch

    kind = numpy_dtype(tensor.dtype)
    if prod(tensor.shape) * kind.itemsize < LARGE:
        return partial(torch.empty_like, torch.empty(tensor.shape, dtype=dtype, device="cpu"))
    make = memory.maker(tensor.shape, kind)
    return lambda: torch.from_numpy(make())


def as_torch(dtype: str) -> Any:
    """The dtype of torch whose memory is that of arrays of a dtype here."""
    import torch

    return getattr(torch, numpy_dtype(dtype).name)
