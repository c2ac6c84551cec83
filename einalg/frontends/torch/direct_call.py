"""Calls of a network with tensors: kernels read their memory as it is, and write the results'."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from einalg.frontends.axis_order import Order
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor
from einalg.runtime.buffer_pool import MIN_SYSTEM_BYTES, BufferPool
from einalg.runtime.direct_call import DirectCall, Layout, ObjectInterface

Nest = Callable[[Iterator[Any]], Any]


@dataclass(frozen=True)
class TensorSignature:
    """The dtypes of a module's inputs and outputs in torch, and `nest`.

    `nest(iterator)` builds what the module returns from its tensors, for example a tuple. `orders`
    are those of the axes of the inputs in memory, None for the usual one.
    """

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    nest: Nest
    orders: Sequence[Order | None]


def tensor_function(
    direct: DirectCall, signature: TensorSignature, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function of tensors in order, whose results are new tensors.

    Arguments that are no plain tensors of the right shape, dtype and strides in the memory of the
    CPU go to `otherwise`; so do all where torch and the kernels hold an element in different ways.
    """
    import torch

    kernel_dtypes = [torch_dtype(tensor.dtype) for tensor in (*direct.inputs, *direct.outputs)]
    if [*signature.inputs, *signature.outputs] != kernel_dtypes:
        return otherwise
    pool = BufferPool()
    makers: list[Callable[[], Any]] = []
    for tensor, dtype in zip(direct.outputs, signature.outputs):
        makers.append(_tensor_maker(pool, tensor, dtype))
    layouts = tuple(map(Layout.of, (tensor.shape for tensor in direct.inputs), signature.orders))
    call = _call_function(direct, signature, layouts, makers, otherwise)
    reader = _dlpack_reader()
    if not reader:
        return call
    finish = _finish(signature.nest, len(makers))
    plain = (torch.Tensor, torch.nn.Parameter)
    interface = ObjectInterface(plain, call, tuple(makers), finish, reader, "is_neg", layouts)
    return direct.on_objects(interface) or call


def _call_function(
    direct: DirectCall,
    signature: TensorSignature,
    layouts: Sequence[Layout],
    makers: Sequence[Callable[[], Any]],
    otherwise: Callable[..., Any],
) -> Callable[..., Any]:
    """Return the function of tensors in Python, for calls that no function in C does."""
    import torch

    plain = (torch.Tensor, torch.nn.Parameter)
    strided, nest, run = torch.strided, signature.nest, direct.run
    expected: list[tuple[Layout, Any]] = []
    for layout, dtype in zip(layouts, signature.inputs):
        expected.append((layout, dtype))
    count = len(expected)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords or len(arguments) != count:
            return otherwise(*arguments, **keywords)
        addresses = []
        for value, (layout, dtype) in zip(arguments, expected):
            if (
                type(value) not in plain
                or value.dtype is not dtype
                or value.shape != layout.shape
                or value.layout is not strided
            ):
                return otherwise(*arguments)
            if not value.is_cpu or not layout.has(value.stride()) or value.is_neg():
                return otherwise(*arguments)
            address = value.data_ptr()
            if address % dtype.itemsize:
                return otherwise(*arguments)
            addresses.append(address)
        results = [make() for make in makers]
        addresses += [result.data_ptr() for result in results]
        run(addresses)
        return nest(iter(results))

    return call


def _finish(nest: Nest, count: int) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return a function that nests a tuple of results; None where `nest` returns the only one."""
    marks = tuple(object() for _ in range(count))
    nested = nest(iter(marks))
    if count == 1 and nested is marks[0]:
        return None
    if type(nested) in (tuple, list) and tuple(nested) == marks:
        return type(nested)
    return lambda results: nest(iter(results))


def _dlpack_reader() -> int:
    """Return the address of DLPack's C function that tells where a tensor lies.

    0 where this torch has none.
    """
    import torch

    table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if table is None:
        return 0
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = _ExchangeApi.from_address(pointer(table, b"dlpack_exchange_api"))
    if api.major != 1:
        return 0
    return api.dltensor_from_object or 0


class _ExchangeApi(ctypes.Structure):
    """DLPack's table of functions, version 1."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous_api", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_tensor_from_object", ctypes.c_void_p),
        ("managed_tensor_to_object", ctypes.c_void_p),
        ("dltensor_from_object", ctypes.c_void_p),
    ]


def _tensor_maker(pool: BufferPool, tensor: Tensor, dtype: Any) -> Callable[[], Any]:
    """Return a function that makes new tensors for an output: torch's, unless they are large.

    Torch's begin with a line of the cache.
    """
    import torch

    kind = numpy_dtype(tensor.dtype)
    if prod(tensor.shape) * kind.itemsize < MIN_SYSTEM_BYTES:
        return partial(torch.empty_like, torch.empty(tensor.shape, dtype=dtype, device="cpu"))
    new_array = pool.allocator(tensor.shape, kind)
    return lambda: torch.from_numpy(new_array())


def torch_dtype(dtype: str) -> Any:
    """Return the dtype of torch that lies in memory like arrays of a dtype here.

    For example `torch.bfloat16`'s memory is not that of "bf16", which arrays hold as f32.
    """
    import torch

    return getattr(torch, numpy_dtype(dtype).name)
