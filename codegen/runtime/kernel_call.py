"""Generated kernels of a loaded C file as calls of buffers by name; what a kernel packs of its inputs is kept where these are known ahead."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from codegen.ir.nodes import Function
from codegen.ir.rename import Names, renamed
from codegen.runtime.foreign_call import ForeignCall
from codegen.runtime.memory_planning import Array, aligned
from codegen.runtime.protocol import Buffers, Packed
from codegen.targets.c.source_file import SEQUENCE, entry_name

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class PackedOperand:
    """A function that fills a packed input of a kernel."""

    function: Function
    call: ForeignCall

    def filled(self, buffers: Buffers, array: Array) -> Array:
        self.call({**buffers, self.function.output.name: array})
        return array


class GeneratedKernel:
    """A kernel, and what it packs first: inputs are packed in each run, or once where they are known ahead (`prepared`).

    `sequence` is the function of its file that makes several calls in one.
    """

    def __init__(
        self,
        kernel: ForeignCall,
        packs: Sequence[PackedOperand],
        sequence: Any,
        ready: Mapping[str, Array],
    ):
        self.kernel, self.sequence, self.ready = kernel, sequence, dict(ready)
        self.packs = [pack for pack in packs if pack.function.output.name not in ready]
        self._memory = threading.local()

    def __call__(self, buffers: Buffers) -> None:
        packed = {
            pack.function.output.name: pack.filled(buffers, self._kept(pack)) for pack in self.packs
        }
        self.kernel({**buffers, **self.ready, **packed} if packed or self.ready else buffers)

    def prepared(self, known: Buffers, packed: Packed) -> GeneratedKernel:
        """The same kernel with what is known ahead packed now, or taken from what other kernels packed in the same way."""
        ready = dict(self.ready)
        for pack in self.packs:
            target, names = pack.function.output, tuple(b.name for b in pack.function.inputs)
            if all(name in known for name in names):
                key = id(pack.call.function), names
                if key not in packed:
                    packed[key] = pack.filled(known, aligned(target.shape, target.dtype))
                ready[target.name] = packed[key]
        return GeneratedKernel(self.kernel, self.packs, self.sequence, ready)

    def _kept(self, pack: PackedOperand) -> Array:
        kept, target = self._memory.__dict__, pack.function.output
        if target.name not in kept:
            kept[target.name] = aligned(target.shape, target.dtype)
        return kept[target.name]


def generated_kernel(
    library: Any,
    function: Function,
    position: int = 0,
    names: Names = NOTHING,
    offsets: Mapping[str, int] = NOTHING,
) -> GeneratedKernel:
    """The kernel at `position` of a C file that is loaded, as a call: with other `names` for some buffers, of which some begin at `offsets`."""
    packs = [
        PackedOperand(pack, ForeignCall(getattr(library, entry_name(position, n)), _names(pack)))
        for n, pack in enumerate(renamed(pack, names) for pack in function.packs)
    ]
    function = renamed(function, names)
    sequence = getattr(library, SEQUENCE)
    sequence.argtypes, sequence.restype = [ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p], None
    called = _names(function)
    return GeneratedKernel(
        ForeignCall(
            getattr(library, entry_name(position)),
            called,
            tuple(offsets.get(name, 0) for name in called),
        ),
        packs,
        sequence,
        {},
    )


def _names(function: Function) -> tuple[str, ...]:
    return tuple(b.name for b in (*function.inputs, function.output))
