"""The structures of `c_dispatch.c` as Python sees them: the same fields in the same order."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_void_p
from typing import Any

import numpy as np

from codegen.runtime.call_frame import CallFrame
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor
from einalg.runtime.direct_call import Layout

DLPACK_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # by NumPy's kind
CONTIGUOUS, ALIGNED = 0x001, 0x100  # flags of NumPy's arrays


class TensorStructure(ctypes.Structure):
    """`struct tensor`: the layout that the memory of an argument or a result must have."""

    _fields_ = [
        ("rank", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("dtype", c_void_p),
    ]

    @classmethod
    def of(cls, tensor: Tensor, layout: Layout) -> TensorStructure:
        """Return how the elements of a tensor lie in an object."""
        dtype, row = numpy_dtype(tensor.dtype), c_int64 * len(tensor.shape)
        code, bits = DLPACK_CODES[dtype.kind], 8 * dtype.itemsize
        shape, strides = row(*layout.shape), row(*layout.strides)
        return cls(len(tensor.shape), code, bits, shape, strides, id(dtype))


class PlaceStructure(ctypes.Structure):
    """`struct place`: where a call writes the address of a tensor."""

    _fields_ = [("address", c_void_p), ("offset", c_int64), ("tensor", c_int32)]


class NetworkStructure(ctypes.Structure):
    """`struct network`: what a call needs."""

    _fields_ = [
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("places", c_int32),
        ("kernels", c_int32),
        ("is_alone", c_int32),
        ("is_busy", c_int32),
        ("types", c_void_p * 2),
        ("read", c_void_p),
        ("refused", c_void_p),
        ("tensors", POINTER(TensorStructure)),
        ("makers", POINTER(c_void_p)),
        ("place", POINTER(PlaceStructure)),
        ("sequence", c_void_p),
        ("functions", c_void_p),
        ("blocks", c_void_p),
        ("prepare", c_void_p),
        ("finish", c_void_p),
        ("fallback", c_void_p),
    ]

    def connect(self, frame: CallFrame) -> Any:
        """Let calls run the kernels of a frame, on addresses written where these read them.

        Returns what must stay in memory as long as the network.
        """
        (native,) = frame.natives
        functions, blocks = native.tables
        places = _places(frame)
        self.place, self.places = places, len(places)
        self.sequence = ctypes.cast(native.sequence, c_void_p)
        self.kernels, self.functions = len(functions), ctypes.addressof(functions)
        self.blocks = ctypes.addressof(blocks)
        return frame, places


def _places(frame: CallFrame) -> ctypes.Array[PlaceStructure]:
    step = ctypes.sizeof(c_void_p)
    places = []
    for tensor, tensor_places in enumerate(frame.places.values()):
        for block, position, offset in tensor_places:
            address = ctypes.addressof(block) + position * step
            places.append(PlaceStructure(address, offset, tensor))
    return (PlaceStructure * len(places))(*places)


class _ArrayStructure(ctypes.Structure):
    """`struct numpy_array`, behind the head of an object."""

    _fields_ = [
        ("data", c_void_p),
        ("rank", c_int32),
        ("shape", POINTER(c_ssize_t)),
        ("strides", POINTER(c_ssize_t)),
        ("base", c_void_p),
        ("dtype", c_void_p),
        ("flags", c_int),
    ]


def array_layout_is_known() -> bool:
    """Whether NumPy's arrays lie in memory as the C code believes."""
    square = np.arange(12.0).reshape(3, 4)
    unaligned = np.frombuffer(bytearray(33), np.uint8)[1:].view(np.float32)
    arrays = (square, square.T, square[1:], unaligned, np.zeros((2, 0, 5), np.int8))
    return all(map(_layout_is_known, arrays))


def _layout_is_known(array: np.ndarray[Any, Any]) -> bool:
    fields = _ArrayStructure.from_address(id(array) + object.__basicsize__)
    return (
        fields.data == array.ctypes.data
        and fields.rank == array.ndim
        and tuple(fields.shape[: array.ndim]) == array.shape
        and fields.dtype == id(array.dtype)
        and bool(fields.flags & CONTIGUOUS) == array.flags.c_contiguous
        and bool(fields.flags & ALIGNED) == array.flags.aligned
    )
