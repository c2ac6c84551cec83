"""CUDA graphs through the library of the driver, as PyCUDA has none.

A graph is kernels in a row that one call starts. It is built node by node. Capture would put a
stream into a state that a failure leaves behind, and forbid other threads some calls meanwhile.
Every function here needs the context of its handles to be the current one.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_ulonglong,
    c_void_p,
)
from functools import lru_cache
from typing import Any

from codegen.targets.cuda.launch import Launch
from einalg.errors import DeviceError

LIBRARY_FILE = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
DEFAULT_STREAM = None  # the default stream, on which kernels run that are launched one by one


class KernelNode(ctypes.Structure):
    """`CUDA_KERNEL_NODE_PARAMS_v2` of CUDA 12; what older drivers know is its beginning."""

    _fields_ = (
        ("function", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),  # bytes beyond those that a kernel declares
        ("parameters", POINTER(c_void_p)),
        ("extra", POINTER(c_void_p)),
        ("kernel", c_void_p),
        ("context", c_void_p),
    )


HANDLE = POINTER(c_void_p)  # where a function writes a handle
NODE = (HANDLE, c_void_p, HANDLE, c_size_t, POINTER(KernelNode))
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (HANDLE, c_char_p),
    "cuModuleGetFunction": (HANDLE, c_void_p, c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuGraphCreate": (HANDLE, c_uint),
    # Since CUDA 11.4; that without flags has had three signatures.
    "cuGraphInstantiateWithFlags": (HANDLE, c_void_p, c_ulonglong),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
}


class LibCuda:
    """The functions of the driver that graphs call.

    Raises `DeviceError` where the driver is too old for them.
    """

    def __init__(self, library: Any):
        self._add_node = "cuGraphAddKernelNode"
        if hasattr(library, "cuGraphAddKernelNode_v2"):
            self._add_node = "cuGraphAddKernelNode_v2"
        self._functions: dict[str, Any] = {}
        for name, types in {**SIGNATURES, self._add_node: NODE}.items():
            self._functions[name] = _function(library, name, types)

    def load(self, image: bytes) -> int:
        """Return the handle of a module of machine code."""
        return self._handle("cuModuleLoadData", image)

    def function(self, module: int, name: str) -> int:
        """Return the handle of a kernel of a module."""
        return self._handle("cuModuleGetFunction", module, name.encode())

    def unload(self, module: int) -> None:
        """Forget a module, when no kernel of it runs any more."""
        self._call("cuCtxSynchronize")
        self._call("cuModuleUnload", module)

    def graph(self, kernels: Sequence[tuple[int, Launch, Sequence[int]]]) -> int:
        """Return a graph of kernels with their arguments, each waiting for the one before."""
        graph = self._handle("cuGraphCreate", 0)
        try:
            before = None
            for function, how, addresses in kernels:
                before = self._node(graph, before, function, how, addresses)
            return self._handle("cuGraphInstantiateWithFlags", graph, 0)
        finally:
            self._functions["cuGraphDestroy"](graph)  # what is instantiated lives on

    def launch(self, executable: int) -> None:
        """Start a graph on the default stream."""
        self._call("cuGraphLaunch", executable, DEFAULT_STREAM)

    def destroy(self, executable: int) -> None:
        """Forget a graph, which still ends where it runs."""
        self._call("cuGraphExecDestroy", executable)

    def _node(
        self, graph: int, before: int | None, function: int, how: Launch, addresses: Sequence[int]
    ) -> int:
        """Add a kernel to a graph, after the node `before`; the driver copies its arguments."""
        values = (c_uint64 * len(addresses))(*addresses)
        begin, step = ctypes.addressof(values), ctypes.sizeof(c_uint64)
        pointers = (c_void_p * len(addresses))(*(begin + step * k for k in range(len(addresses))))
        node = KernelNode(function, how.grid, how.block, 0, pointers)
        dependencies, count = None, 0
        if before is not None:
            dependencies, count = (c_void_p * 1)(before), 1
        return self._handle(self._add_node, graph, dependencies, count, byref(node))

    def _handle(self, name: str, *arguments: Any) -> int:
        """Call a function and return the handle that it writes at its first argument."""
        handle = c_void_p()
        self._call(name, byref(handle), *arguments)
        return handle.value or 0

    def _call(self, name: str, *arguments: Any) -> None:
        status = self._functions[name](*arguments)
        if status:
            text = c_char_p()
            self._functions["cuGetErrorName"](status, byref(text))
            raise DeviceError(f"{name} failed: {(text.value or b'error').decode()} ({status})")


@lru_cache(maxsize=1)
def find_libcuda() -> LibCuda:
    """Return the library of this machine's driver; `DeviceError` where it has no graphs."""
    try:
        return LibCuda(ctypes.CDLL(LIBRARY_FILE))
    except OSError as error:
        raise DeviceError(f"the CUDA driver cannot be loaded by itself: {error}") from None


def _function(library: Any, name: str, types: Sequence[Any]) -> Any:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise DeviceError(f"the CUDA driver has no {name}, which came with CUDA 11.4") from None
    function.argtypes, function.restype = list(types), c_int
    return function
