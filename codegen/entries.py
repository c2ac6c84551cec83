"""Generated kernels of a loaded C file as calls of buffers by name; what a kernel packs of its inputs is kept where these are known ahead."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codegen.c_printer import entry_name
from codegen.calls import caller
from codegen.ir import Buf, Function
from codegen.libraries import Buffers, Run
from einalg.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]


def entry(library: Any, function: Function, position: int = 0) -> Run:
    """The kernel at `position` of a C file that is loaded, as a call."""
    run = caller(getattr(library, entry_name(position)), _names(function))
    packs = [(pack, caller(getattr(library, entry_name(position, n)), _names(pack))) for n, pack in enumerate(function.packs)]
    return Packed(run, packs, {}) if packs else run


class Packed:
    """A kernel that reads packed inputs: these are packed in each call, or once where they are known ahead (`prepared`)."""

    def __init__(self, run: Run, packs: Sequence[tuple[Function, Run]], ready: Mapping[str, Array]):
        self._run, self._ready = run, ready
        self._packs = [(pack, call) for pack, call in packs if pack.output.name not in ready]
        self._memory = threading.local()

    def __call__(self, buffers: Buffers) -> None:
        self._run({**buffers, **self._ready, **{pack.output.name: self._filled(pack, call, buffers) for pack, call in self._packs}})

    def prepared(self, known: Buffers) -> Run:
        """The same kernel with what is known ahead packed now."""
        ready = dict(self._ready)
        for pack, call in self._packs:
            if all(b.name in known for b in pack.inputs):
                ready[pack.output.name] = _filled(pack.output, call, known, _array(pack.output))
        return Packed(self._run, self._packs, ready)

    def _filled(self, pack: Function, call: Run, buffers: Buffers) -> Array:
        kept = self._memory.__dict__
        if pack.output.name not in kept:
            kept[pack.output.name] = _array(pack.output)
        return _filled(pack.output, call, buffers, kept[pack.output.name])


def _names(function: Function) -> list[str]:
    return [b.name for b in (*function.inputs, function.output)]


def _filled(target: Buf, call: Run, buffers: Buffers, array: Array) -> Array:
    call({**buffers, target.name: array})
    return array


def _array(buf: Buf, alignment: int = 64) -> Array:
    """Memory that begins with a line of the cache."""
    dtype = numpy_dtype(buf.dtype)
    size = int(np.prod(buf.shape)) * dtype.itemsize
    memory = np.zeros(size + alignment, np.uint8)
    begin = -memory.ctypes.data % alignment
    return memory[begin : begin + size].view(dtype).reshape(buf.shape)
