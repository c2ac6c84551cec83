"""Generated kernels of a loaded C file as calls of buffers by name.

What a kernel packs of its inputs is kept where these are known before a run.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from codegen.ir.names import Names, renamed
from codegen.ir.nodes import Function
from codegen.runtime.foreign_call import ForeignCall
from codegen.runtime.memory_planning import Array, aligned
from codegen.runtime.protocol import Buffers, Packed
from codegen.targets.c.source_file import SEQUENCE, entry_name

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class PackedOperand:
    """A function that fills a packed input of a kernel.

    `source` is the function with the names that its body has.
    """

    function: Function
    call: ForeignCall
    source: Function

    def filled(self, buffers: Buffers, array: Array) -> Array:
        self.call({**buffers, self.function.output.name: array})
        return array


class GeneratedKernel:
    """A kernel, and what it packs first.

    Inputs are packed in each run, or once where they are known before it (`prepared`).

    `sequence` is the function of its file that makes several calls in one, and `source` the
    function that was compiled.
    """

    def __init__(
        self,
        kernel: ForeignCall,
        packs: Sequence[PackedOperand],
        sequence: Any,
        ready: Mapping[str, Array],
        source: Function,
        packed_inputs: frozenset[str] = frozenset(),
    ):
        self.kernel, self.sequence, self.ready = kernel, sequence, dict(ready)
        self.source, self.packed_inputs = source, packed_inputs
        self.packs = [pack for pack in packs if pack.function.output.name not in ready]
        self._memory = threading.local()

    def __call__(self, buffers: Buffers) -> None:
        if self.packs or self.ready:
            arrays = {**buffers, **self.ready}
            for pack in self.packs:
                arrays[pack.function.output.name] = pack.filled(buffers, self._memory_of(pack))
            buffers = arrays
        self.kernel(buffers)

    def prepared(self, known: Buffers, packed: Packed) -> GeneratedKernel:
        """Return the kernel with what is known packed now, or as another kernel packed it."""
        ready, inputs = dict(self.ready), set(self.packed_inputs)
        for pack in self.packs:
            target = pack.function.output
            names = tuple(buf.name for buf in pack.function.inputs)
            if known.keys() >= set(names):
                key = id(pack.call.function), names
                if key not in packed:
                    packed[key] = pack.filled(known, aligned(target.shape, target.dtype))
                ready[target.name] = packed[key]
                inputs.update(names)
        return GeneratedKernel(
            self.kernel, self.packs, self.sequence, ready, self.source, frozenset(inputs)
        )

    def _memory_of(self, pack: PackedOperand) -> Array:
        """Return the memory of this thread for a packed input."""
        arrays = self._memory.__dict__
        target = pack.function.output
        if target.name not in arrays:
            arrays[target.name] = aligned(target.shape, target.dtype)
        return arrays[target.name]


def generated_kernel(
    library: Any,
    function: Function,
    position: int = 0,
    names: Names = NOTHING,
    offsets: Mapping[str, int] = NOTHING,
) -> GeneratedKernel:
    """Return the kernel at `position` of a C file that is loaded, as a call.

    It has other `names` for some buffers, of which some begin at `offsets`.
    """
    packs: list[PackedOperand] = []
    for number, source in enumerate(function.packs):
        pack = renamed(source, names)
        compiled = getattr(library, entry_name(position, number))
        packs.append(PackedOperand(pack, ForeignCall(compiled, _names(pack)), source))
    sequence = getattr(library, SEQUENCE)
    sequence.argtypes, sequence.restype = [ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p], None
    buffers = _names(renamed(function, names))
    compiled = getattr(library, entry_name(position))
    call = ForeignCall(compiled, buffers, tuple(offsets.get(name, 0) for name in buffers))
    return GeneratedKernel(call, packs, sequence, {}, function)


def _names(function: Function) -> tuple[str, ...]:
    return tuple(b.name for b in (*function.inputs, function.output))
