"""The memory and calls with which one thread runs the steps of a program.

That is memory for what is between them, and all addresses in place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from typing import Any

from codegen.runtime.foreign_call import Array, call_function
from codegen.runtime.kernel_call import GeneratedKernel
from codegen.runtime.memory_planning import Lifetime, place_values, reserved, size_of, view
from codegen.runtime.protocol import Buffers, KernelFunction
from einalg.runtime.direct_call import address

Kind = tuple[Sequence[int], str]  # a shape and a dtype


@dataclass(frozen=True)
class PlannedStep:
    """A step of a program as a frame sees it: what runs it, what it reads and what it writes."""

    run: KernelFunction
    touched: frozenset[str]


@dataclass(frozen=True)
class MemoryPlan:
    """Where what is between some stages lies in one block of `bytes`.

    `between` are results by name; what stages pack has its position and name in `offsets`.
    """

    between: Mapping[str, Kind]
    offsets: Mapping[Any, int]
    bytes: int


def plan(stages: Sequence[PlannedStep], between: Mapping[str, Kind]) -> MemoryPlan:
    """The memory of a frame."""
    lives: dict[Any, Lifetime] = {}
    for position, stage in enumerate(stages):
        for name in stage.touched & between.keys():
            first = lives[name].first if name in lives else position
            lives[name] = Lifetime(first, position, size_of(*between[name]))
        for target in _packed(stage):
            lives[position, target.name] = Lifetime(
                position, position, size_of(target.shape, target.dtype)
            )
    return MemoryPlan(between, *place_values(lives))


def _packed(stage: PlannedStep) -> Iterable[Any]:
    """Return the buffers that a stage packs in every run."""
    if not isinstance(stage.run, GeneratedKernel):
        return []
    return [pack.function.output for pack in stage.run.packs]


@dataclass(frozen=True)
class CDispatcher:
    """Compiled functions that are called one after the other, by `sequence` in one call.

    Each has the addresses of its buffers, a block. A `call` needs the dispatcher to be alive.
    """

    functions: Sequence[Any]
    blocks: Sequence[Any]
    sequence: Any

    @cached_property
    def tables(self) -> tuple[Any, Any]:
        """The addresses of the functions, and those of their blocks."""
        functions = (ctypes.c_void_p * len(self.functions))()
        for position, function in enumerate(self.functions):
            functions[position] = ctypes.cast(function, ctypes.c_void_p).value
        blocks = (ctypes.c_void_p * len(self.blocks))(*map(ctypes.addressof, self.blocks))
        return functions, blocks

    def call(self) -> Callable[[], Any]:
        if len(self.functions) == 1:
            return partial(call_function, self.functions[0], ctypes.addressof(self.blocks[0]))
        return partial(
            call_function, self.sequence, len(self.functions), *map(ctypes.addressof, self.tables)
        )


def repeated(kernel: GeneratedKernel, buffers: Buffers, count: int) -> CDispatcher:
    """Return what runs a kernel, which packs nothing, so many times on the same buffers."""
    block = kernel.kernel.addresses({**buffers, **kernel.ready})
    return CDispatcher([kernel.kernel.function] * count, [block] * count, kernel.sequence)


@dataclass
class CallFrame:
    """A program's memory in one thread.

    A run is given its inputs and outputs; where these lie is all that is written for it.

    Generated kernels that follow each other are one call.
    """

    stages: Sequence[PlannedStep]
    plan: MemoryPlan
    fixed: Mapping[str, Array] = field(repr=False)  # what never changes: weights, constants
    given: Collection[str]  # what comes with a run: inputs and outputs
    apart: bool = False  # one call for each stage

    def __post_init__(self) -> None:
        memory, offsets = reserved(self.plan.bytes), self.plan.offsets
        self._buffers = dict(self.fixed)
        self._buffers.update(
            (name, view(memory, offsets[name], *kind))
            for name, kind in self.plan.between.items()
            if name in offsets
        )
        self.places: dict[str, list[tuple[Any, int, int]]] = {
            name: [] for name in self.given
        }  # a block, the position in it, an offset
        self.natives: list[CDispatcher] = []
        self._given: Mapping[str, Array] | None = None
        self._memory = memory  # to which only addresses refer
        self._shared = any(
            not isinstance(stage.run, GeneratedKernel) for stage in self.stages
        )  # whether someone reads the buffers by name
        numbered = enumerate(self.stages)
        groups = groupby(
            numbered,
            lambda pair: pair[0] if self.apart else isinstance(pair[1].run, GeneratedKernel),
        )
        self.calls = [call for _, group in groups for call in self._calls(list(group), memory)]

    def run(self, arrays: Mapping[str, Array]) -> None:
        """Run all stages on the arrays of `self.given`, contiguous and of the right type."""
        self.place(arrays)
        try:
            for call in self.calls:
                call()
        finally:
            self.forget()

    def run_at(self, addresses: Sequence[int]) -> None:
        """Run all stages on memory that the caller keeps: of `self.given`, in order.

        For frames of generated kernels only.
        """
        self._point(addresses)
        for call in self.calls:
            call()

    def place(self, arrays: Mapping[str, Array]) -> None:
        """Let the calls read and write these arrays, and keep them until `forget`."""
        self._given = arrays
        self._point([address(arrays[name]) for name in self.places])
        if self._shared:
            self._buffers.update(arrays)

    def _point(self, addresses: Sequence[int]) -> None:
        for where, places in zip(addresses, self.places.values()):
            for block, position, offset in places:
                block[position] = where + offset

    def forget(self) -> None:
        """Keep no array of a run alive."""
        self._given = None
        if self._shared:
            for name in self.given:
                self._buffers.pop(name, None)

    def _calls(
        self, group: Sequence[tuple[int, PlannedStep]], memory: Array
    ) -> list[Callable[[], Any]]:
        if not isinstance(group[0][1].run, GeneratedKernel):
            return [lambda run=stage.run: run(self._buffers) for _, stage in group]
        pairs = [
            pair for position, stage in group for pair in self._native(position, stage, memory)
        ]
        entry: Any = group[0][1].run
        self.natives.append(
            CDispatcher(
                [function for function, _ in pairs], [block for _, block in pairs], entry.sequence
            )
        )
        return [self.natives[-1].call()]

    def _native(
        self, position: int, stage: PlannedStep, memory: Array
    ) -> Iterable[tuple[Any, Any]]:
        """Yield the compiled functions of a stage, each with the addresses of its buffers.

        What it packs comes first.
        """
        entry: Any = stage.run
        own = {
            t.name: view(memory, self.plan.offsets[position, t.name], t.shape, t.dtype)
            for t in _packed(stage)
        }
        known = {**self._buffers, **entry.ready, **own}
        later = self.places.keys() - known.keys()
        for call in (*(pack.call for pack in entry.packs), entry.kernel):
            placed = call.addresses(known, later)
            offsets = call.offsets or (0,) * len(call.names)
            for position, name in enumerate(call.names):
                if name in later:
                    self.places[name].append((placed, position, offsets[position]))
            yield call.function, placed
