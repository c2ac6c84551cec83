"""Networks as C functions that Python calls: memory is looked up, kernels run, and results are made
without a line of Python (design §10).

A call of a small network takes a microsecond or two, and what Python does around it took five times
as long. The function is a builtin one, of the C API's stable part, whose addresses it is told: no
header of Python is needed to compile it, and no library to link. Tensors tell their memory by
DLPack's C functions, arrays by the layout that NumPy has had since its first version, which is
tried before it is relied on. The code is `c_dispatch.c`.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from ctypes import c_int, c_long, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from codegen.runtime.c_structures import (
    NetworkStructure,
    TensorStructure,
    array_layout_is_known,
)
from codegen.runtime.call_frame import CallFrame
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, find_compiler
from einalg.errors import CodegenError
from einalg.language.ir.tensor import Tensor
from einalg.runtime.direct_call import Layout, ObjectInterface

SOURCE = Path(__file__).with_suffix(".c")
MAX_TENSORS = 32  # inputs and outputs
API = (
    "PyTuple_GetItem",
    "PyLong_AsVoidPtr",
    "PyObject_Vectorcall",
    "PyObject_CallNoArgs",
    "PyObject_CallMethodObjArgs",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyErr_Clear",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
    "Py_DecRef",
)


class OnAddresses:
    """A program of compiled kernels as a function of addresses.

    These are the addresses of the tensors of the frame that `make` returns, in their order.
    """

    def __init__(self, make: Callable[[], CallFrame]):
        self._make, self._memory = make, threading.local()

    def __call__(self, addresses: Sequence[int]) -> None:
        frame = self._memory.__dict__.get("frame")
        if frame is None:
            frame = self._memory.frame = self._make()
        frame.run_at(addresses)

    def on_objects(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], objects: ObjectInterface
    ) -> Callable[..., Any] | None:
        """Return the same as a builtin function of objects, which returns new ones.

        While one thread is inside, calls of others go to `objects.otherwise`. None where this
        machine has no such functions.
        """
        tensors = (*inputs, *outputs)
        if len(tensors) > MAX_TENSORS:
            return None
        library = _library()
        if library is None:
            return None
        if not objects.read and not _arrays_are_known():
            return None
        return _builtin_function(library, self._make, len(inputs), tensors, objects)


def _builtin_function(
    library: ctypes.CDLL,
    make: Callable[[], CallFrame],
    inputs: int,
    tensors: Sequence[Tensor],
    objects: ObjectInterface,
) -> Callable[..., Any]:
    """Return a builtin function, which has `make` build a frame in its first call."""
    network = NetworkStructure(inputs=inputs, outputs=len(tensors) - inputs)
    lock, waiting, frames = threading.Lock(), [make], list[Any]()

    def prepare() -> None:
        with lock:
            if waiting:
                frames.append(network.connect(waiting[0]()))
                network.prepare = None
                waiting.clear()  # a frame does not need the program that it was made of

    first, last = objects.types[0], objects.types[-1]
    network.types = (c_void_p * 2)(id(first), id(last))
    network.read, network.refused = objects.read or None, id(objects.refused)
    usual = [Layout.of(tensor.shape) for tensor in tensors]
    layouts = [*objects.layouts, *usual[len(objects.layouts) :]]
    network.tensors = (TensorStructure * len(tensors))(*map(TensorStructure.of, tensors, layouts))
    network.makers = (c_void_p * len(objects.makers))(*map(id, objects.makers))
    network.is_alone = objects.finish is None and network.outputs == 1
    if objects.finish not in (None, tuple):
        network.finish = id(objects.finish)
    network.prepare, network.fallback = id(prepare), id(objects.otherwise)
    alive = ctypes.addressof(network), network, frames, prepare, tensors, objects
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [c_void_p, ctypes.py_object, c_void_p]
    return new(ctypes.addressof(c_int.in_dll(library, "method")), alive, None)


@cache
def _library() -> ctypes.CDLL | None:
    """Return the C code, loaded.

    None where there is no compiler, or where other threads run Python meanwhile.
    """
    compiler = find_compiler()
    if compiler is None or sys.implementation.name != "cpython" or not _has_global_lock():
        return None
    source = f"#define MAX_TENSORS {MAX_TENSORS}\n{SOURCE.read_text()}"
    try:
        library = compiler.load(source, COMPILE_TIMEOUT_SECONDS)
        functions = [ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p) for name in API]
    except (CodegenError, AttributeError):
        return None
    api = (c_void_p * len(API))(*(function.value for function in functions))
    library.setup.argtypes = [c_void_p, c_void_p, c_long]
    library.setup(ctypes.addressof(api), id(False), object.__basicsize__)
    # A child has no threads of its parent's, for which kernels would wait.
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=library.in_child)
    return library


def _has_global_lock() -> bool:
    return getattr(sys, "_is_gil_enabled", lambda: True)()


@cache
def _arrays_are_known() -> bool:
    return array_layout_is_known()
