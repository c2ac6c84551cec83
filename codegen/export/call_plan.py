"""The calls of kernels that an exported function makes, and the memory that they read and write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from codegen.export.identifiers import file_names
from codegen.ir.nodes import Function
from codegen.program.executable import Executable
from codegen.runtime.kernel_call import GeneratedKernel
from codegen.runtime.memory_planning import CACHE_LINE_BYTES, size_of
from codegen.targets.c.names import Names
from einalg.language.analysis.batching import Slices
from einalg.language.ir.dtypes import dtype_name, numpy_dtype
from einalg.language.ir.program import statement_tensor
from einalg.language.ir.tensor import Tensor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ExportedPart:
    """A compiled program whose kernels are all generated; of one of `slices`, where there are."""

    executable: Executable
    slices: Slices | None = None


@dataclass(frozen=True)
class Buffer:
    """An array of the C function under its identifier there: dense, in row-major order."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        return size_of(self.shape, self.dtype)

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Workspace:
    """A buffer between kernels, from the byte `offset` of the workspace on."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True)
class Data:
    """An array whose values are known: a weight, a constant, or what a kernel packs of these."""

    buffer: Buffer
    array: Array = field(repr=False)


@dataclass(frozen=True)
class Operand:
    """What a kernel reads or writes: a buffer, from an element of it on."""

    buffer: Buffer
    first: int = 0


@dataclass(frozen=True)
class PlannedCall:
    """A call of a kernel; `operands` are its inputs, then its output."""

    kernel: Function
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Loop:
    """The calls of one program, once for each of `count` slices of the buffers in `steps`.

    A slice of a buffer has so many elements.
    """

    calls: tuple[PlannedCall, ...]
    workspace: tuple[Workspace, ...]
    count: int = 1
    steps: Mapping[Buffer, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CallPlan:
    """All that an exported function does, with identifiers that C allows.

    Each of `copies` is an output and what it is a copy of. The workspace has `bytes`, of which
    `between` programs are some.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    between: tuple[Workspace, ...]
    data: tuple[Data, ...]
    loops: tuple[Loop, ...]
    copies: tuple[tuple[Buffer, Buffer], ...]
    bytes: int
    names: Names


def call_plan(
    function: str,
    inputs: Sequence[tuple[str, Tensor]],
    outputs: Sequence[tuple[str, str]],
    weights: Mapping[str, Array],
    pieces: Sequence[ExportedPart],
) -> CallPlan:
    """Return the plan of a function of pieces in order.

    `inputs` are tensors with what the function calls them, `outputs` the names of values with what
    it calls them. A value is an input, a weight, or an output of a piece.
    """
    return _CallPlanner(function, inputs, outputs, weights, pieces).plan()


class _CallPlanner:
    def __init__(
        self,
        function: str,
        inputs: Sequence[tuple[str, Tensor]],
        outputs: Sequence[tuple[str, str]],
        weights: Mapping[str, Array],
        pieces: Sequence[ExportedPart],
    ):
        self.names = file_names(function)
        self.pieces, self.weights = pieces, weights
        self.inputs = [self._buffer("input", name, tensor) for name, tensor in inputs]
        self.values = {tensor.name: buf for (_, tensor), buf in zip(inputs, self.inputs)}
        self.results = {t.name: t for piece in pieces for t in _results(piece)}
        self.data: dict[int, Data] = {}  # by the identity of the array
        self.copies: list[tuple[Buffer, Buffer]] = []
        self.outputs = [self._output(number, *pair) for number, pair in enumerate(outputs)]
        self.between, self.bytes = self._between()

    def plan(self) -> CallPlan:
        loops = tuple(map(self._loop, self.pieces))
        for workspace in (workspace for loop in loops for workspace in loop.workspace):
            self.bytes = max(self.bytes, workspace.offset + workspace.buffer.bytes)
        return CallPlan(
            tuple(self.inputs),
            tuple(self.outputs),
            self.between,
            tuple(self.data.values()),
            loops,
            tuple(self.copies),
            _rounded(self.bytes),
            self.names,
        )

    def _buffer(self, kind: str, name: str, like: Tensor) -> Buffer:
        return Buffer(self.names(kind, name), like.shape, like.dtype)

    def _output(self, number: int, value: str, name: str) -> Buffer:
        """Return the parameter of an output, which a piece writes or a copy fills."""
        if value in self.results and value not in self.values:
            self.values[value] = self._buffer(f"output {number}", name, self.results[value])
            return self.values[value]
        source = self.values.get(value)
        if source is None:
            source = self._known(value, self.weights[value])
        copied = Buffer(self.names(f"output {number}", name), source.shape, source.dtype)
        self.copies.append((copied, source))
        return copied

    def _known(self, name: str, array: Array, dtype: str | None = None) -> Buffer:
        """Return the buffer of an array whose values are known."""
        if id(array) not in self.data:
            buffer = Buffer(
                self.names(f"data {id(array)}", name), array.shape, dtype or dtype_name(array.dtype)
            )
            self.data[id(array)] = Data(buffer, array)
        return self.data[id(array)].buffer

    def _between(self) -> tuple[tuple[Workspace, ...], int]:
        """Return the results that are no outputs, and their bytes: each is written, if only for the
        piece itself to read it.
        """
        between: list[Workspace] = []
        offset = 0
        for name, tensor in self.results.items():
            if name not in self.values:
                self.values[name] = self._buffer("value", name, tensor)
                between.append(Workspace(self.values[name], offset))
                offset = _rounded(offset + self.values[name].bytes)
        return tuple(between), offset

    def _loop(self, piece: ExportedPart) -> Loop:
        """Return the calls of a piece."""
        plan = piece.executable.memory_plan
        between_bytes = sum(_rounded(workspace.buffer.bytes) for workspace in self.between)
        workspace: list[Workspace] = []
        own: dict[str, Buffer] = {}
        for name, (shape, dtype) in plan.between.items():
            if name in plan.offsets:
                own[name] = Buffer(self.names(f"piece {id(piece)}", name), tuple(shape), dtype)
                workspace.append(Workspace(own[name], between_bytes + plan.offsets[name]))
        calls: list[PlannedCall] = []
        for position, step in enumerate(piece.executable.running):
            run = step.run
            assert isinstance(run, GeneratedKernel)
            known = {**piece.executable.known, **run.ready}
            operands = {**self.values, **own}
            for name in known:
                operands.pop(name, None)
            for pack in run.packs:
                packed = pack.function.output
                buffer = Buffer(
                    self.names(f"pack {id(piece)} {position}", packed.name),
                    packed.shape,
                    packed.dtype,
                )
                operands[packed.name] = buffer
                offset = between_bytes + plan.offsets[position, packed.name]
                workspace.append(Workspace(buffer, offset))
            calls += self._calls(run, operands, known)
        return Loop(tuple(calls), tuple(workspace), *self._slices(piece))

    def _calls(
        self, run: GeneratedKernel, operands: Mapping[str, Buffer], known: Mapping[str, Array]
    ) -> Iterator[PlannedCall]:
        """Yield the calls of a step: what it packs, then its kernel."""
        pairs = [(pack.source, pack.call) for pack in run.packs]
        for source, call in (*pairs, (run.source, run.kernel)):
            if not source.body:
                continue
            offsets = call.offsets or (0,) * len(call.names)
            buffers = (*source.inputs, source.output)
            placed: list[Operand] = []
            for name, offset, buf in zip(call.names, offsets, buffers, strict=True):
                operand = operands.get(name)
                if operand is None:
                    operand = self._known(name, known[name], buf.dtype)
                placed.append(Operand(operand, offset // numpy_dtype(buf.dtype).itemsize))
            yield PlannedCall(source, tuple(placed))

    def _slices(self, piece: ExportedPart) -> tuple[int, dict[Buffer, int]]:
        if piece.slices is None:
            return 1, {}
        steps: dict[Buffer, int] = {}
        for tensor in (*piece.executable.missing.values(), *_results_of_one(piece)):
            if tensor.name in piece.slices.names:
                steps[self.values[tensor.name]] = prod(tensor.shape[1:])
        return piece.slices.count, steps


def _results_of_one(piece: ExportedPart) -> Iterator[Tensor]:
    """Yield the outputs of a piece's program, which may be that of one slice."""
    program = piece.executable.program
    for name in program.outputs:
        yield statement_tensor(name, program[name])


def _results(piece: ExportedPart) -> Iterator[Tensor]:
    """Yield the outputs of a piece, of all slices."""
    for tensor in _results_of_one(piece):
        yield piece.slices.of_all(tensor) if piece.slices else tensor


def _rounded(size: int) -> int:
    return -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
