"""Compiled programs of one slice that run for each of many: samples of a batch, say (design §11).

Where all kernels are compiled, a call runs all slices, and each thread takes the next one, with
memory of its own for what is between kernels. The loops inside are then not shared among threads.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from codegen.program.executable import Executable
from codegen.runtime.array_arguments import Loader, without_ignored
from codegen.runtime.call_frame import CallFrame
from codegen.runtime.foreign_call import call_function
from codegen.runtime.memory_planning import size_of
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, find_compiler
from codegen.targets.c.thread_pool import REGIONS, attached
from einalg.boundary import public
from einalg.language.analysis.batching import Slices
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import statement_tensor
from einalg.language.ir.tensor import Tensor
from einalg.runtime.buffer_pool import BufferPool
from einalg.runtime.direct_call import AddressFunction, address
from einalg.runtime.processors import thread_count

# `tables` has a row for each lane: its functions, their buffers, and where in these the memory of a
# call is written down.
SLICES = """\
typedef void kernel(void *const *);
struct lane { kernel *const *kernels; void *const *const *buffers; void **const *places; };
void slices(long count, long lanes, const struct lane *tables, long kernels, long places,
    char *const *first, const long *steps) {
  long next = 0;
#pragma omp parallel for schedule(static)
  for (long k = 0; k < lanes; ++k)
    for (long slice; (slice = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < count;) {
      for (long p = 0; p < places; ++p) *tables[k].places[p] = first[p] + slice * steps[p];
      for (long n = 0; n < kernels; ++n) tables[k].kernels[n](tables[k].buffers[n]);
    }
}
"""


class BatchedExecutable:
    """A program of one slice as one of all of them."""

    def __init__(self, one: Executable, slices: Slices):
        self.one, self.slices = one, slices
        self._given = {name: slices.of_all(tensor) for name, tensor in one.missing.items()}
        self._made = [
            slices.of_all(statement_tensor(name, one.program[name])) for name in one.program.outputs
        ]
        self.ignored: dict[str, Tensor] = {}  # what a call may give besides
        results = BufferPool()
        self._makers = {
            tensor.name: results.allocator(tensor.shape, numpy_dtype(tensor.dtype))
            for tensor in self._made
        }
        self._load, self._memory = Loader(self._given), threading.local()

    @public
    def __call__(self, **arrays: Any) -> Any:
        results = {name: make() for name, make in self._makers.items()}
        memory = {**self._load(without_ignored(arrays, self.ignored)), **results}
        if self._function is None:
            for number in range(self.slices.count):
                self.one.fill(self.slices.of(memory, number))
        else:
            self._run_at([address(memory[name]) for name in self._order])
        if len(results) > 1:
            return results
        return next(iter(results.values()))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of one slice."""
        return self.one.kernels

    @property
    def has_open_choices(self) -> bool:
        """As of `Executable`."""
        return self.one.has_open_choices

    @property
    def is_optimized(self) -> bool:
        """As of `Executable`."""
        return self.one.is_optimized

    @property
    def is_generated(self) -> bool:
        """As of `Executable`."""
        return self.one.is_generated

    @property
    def workspace(self) -> int:
        """The bytes for what is between the kernels, of all slices that run at the same time."""
        if self.one.is_native:
            return self.one.workspace * self._lanes
        return self.one.workspace

    @property
    def _lanes(self) -> int:
        return min(thread_count(), self.slices.count)

    @public
    def bind(self, **arrays: Any) -> BatchedExecutable:
        """As of `Executable`: what is given ahead is the same for all slices."""
        read = without_ignored(arrays, self.ignored)
        return BatchedExecutable(self.one.bind(**read), self.slices).accepting(self.ignored)

    @public
    def bind_in_place(self, **arrays: Any) -> BatchedExecutable:
        """As of `Executable`."""
        read = without_ignored(arrays, self.ignored)
        one = self.one.bind_in_place(**read)
        return BatchedExecutable(one, self.slices).accepting(self.ignored)

    def accepting(self, inputs: Mapping[str, Tensor]) -> BatchedExecutable:
        """As of `Executable`, for inputs of all slices."""
        for name, tensor in inputs.items():
            if name not in self.one.program.tensors:
                self.ignored[name] = tensor
        return self

    @property
    def copied(self) -> frozenset[str]:
        """As of `Executable`."""
        return self.one.copied

    def record(self) -> Any:
        """As of `Executable`, for one slice."""
        return self.one.record()

    def identity(self) -> str | None:
        """As of `Executable`, for one slice."""
        return self.one.identity()

    def source(self, language: str = "c") -> str:
        """The text of the generated kernels of one slice."""
        return self.one.source(language)

    def direct(self, names: Sequence[str]) -> AddressFunction | None:
        """As of `Executable`, for the memory of all slices."""
        if self._function is None or {*names} - self.ignored.keys() != {*self._order}:
            return None
        order = [names.index(name) for name in self._order]
        return lambda addresses: self._run_at([addresses[k] for k in order])

    @cached_property
    def _function(self) -> Any:
        """The function of all slices; None where a library takes part, or there is no compiler."""
        if not self.one.is_native:
            return None
        compiler = find_compiler()
        if compiler is None:
            return None
        library = compiler.load(REGIONS + SLICES, COMPILE_TIMEOUT_SECONDS)
        return attached(compiler, library, COMPILE_TIMEOUT_SECONDS).slices

    @cached_property
    def _order(self) -> list[str]:
        return [*self._given, *(tensor.name for tensor in self._made)]

    def _run_at(self, addresses: Sequence[int]) -> None:
        """Run on memory of the caller, in this order."""
        lanes = self._memory.__dict__.get("lanes")
        if lanes is None:
            steps = list(map(self._step_bytes, (*self._given.values(), *self._made)))
            frames = [self.one.frame() for _ in range(self._lanes)]
            lanes = self._memory.lanes = _BatchLanes(self._function, frames, self._order, steps)
        lanes.run(self.slices.count, addresses)

    def _step_bytes(self, tensor: Tensor) -> int:
        """Return how far a slice of a tensor lies from the next one; 0 where all read the same."""
        if tensor.name not in self.slices.names:
            return 0
        return size_of(tensor.shape[1:], tensor.dtype)


class _BatchLanes:
    """The runner of slices in one thread of the program.

    That is a frame for each slice that runs at the same time, with all addresses in place.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        frames: Sequence[CallFrame],
        names: Sequence[str],
        steps: Sequence[int],
    ):
        self._function, self._frames = function, frames
        natives = [native for frame in frames for native in frame.natives]
        self._kernels = len(natives[0].functions)
        self._offsets: list[tuple[int, int]] = []  # of places: the number of a tensor, and bytes
        for number, name in enumerate(names):
            for _, _, offset in frames[0].places[name]:
                self._offsets.append((number, offset))
        self._slots = [_slots(frame, names) for frame in frames]
        rows: list[int] = []
        for native, slots in zip(natives, self._slots, strict=True):
            rows += map(ctypes.addressof, (*native.tables, slots))
        self._tables = _pointers(rows)
        self._first = _pointers([0] * len(self._offsets))
        self._steps = (ctypes.c_long * len(self._offsets))()
        for place, (number, _) in enumerate(self._offsets):
            self._steps[place] = steps[number]

    def run(self, count: int, addresses: Sequence[int]) -> None:
        for k, (number, offset) in enumerate(self._offsets):
            self._first[k] = addresses[number] + offset
        call_function(
            self._function,
            ctypes.c_long(count),
            ctypes.c_long(len(self._frames)),
            ctypes.c_void_p(ctypes.addressof(self._tables)),
            ctypes.c_long(self._kernels),
            ctypes.c_long(len(self._offsets)),
            ctypes.c_void_p(ctypes.addressof(self._first)),
            ctypes.c_void_p(ctypes.addressof(self._steps)),
        )


_POINTER = ctypes.sizeof(ctypes.c_void_p)


def _slots(frame: CallFrame, names: Sequence[str]) -> ctypes.Array[ctypes.c_void_p]:
    """Return where the addresses of a call's memory are written down for a frame."""
    slots: list[int] = []
    for name in names:
        for block, position, _ in frame.places[name]:
            slots.append(ctypes.addressof(block) + position * _POINTER)
    return _pointers(slots)


def _pointers(values: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(values))(*values)
