"""The kernels that an exported function starts, and the memory of the device that they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.export.call_plan import Buffer, Data, Workspace
from codegen.export.identifiers import file_names
from codegen.ir.nodes import Function
from codegen.program.building.problem import with_filled_gaps
from codegen.program.device_units import best_kernels, device_units, tuned_device
from codegen.runtime.array_arguments import loaded
from codegen.runtime.memory_planning import CACHE_LINE_BYTES, Lifetime, place_values
from codegen.targets.c.names import Names
from codegen.targets.cuda.device.find import find_driver
from codegen.targets.cuda.device_types import element_size, to_device
from codegen.targets.cuda.lowering.threads.schedule import CudaSchedule
from einalg.errors import CodegenError
from einalg.frontends.graph import execute_program
from einalg.language.analysis.batching import Slices
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.ir.dtypes import dtype_name, numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, in_double, statement_tensor
from einalg.language.ir.tensor import Tensor

Array = np.ndarray[Any, Any]
Programs = Sequence[tuple[Program, Sequence[Kernel], Slices | None]]


@dataclass(frozen=True)
class Start:
    """A start of a kernel; `buffers` are its inputs, then its output."""

    kernel: Function
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True)
class LaunchPlan:
    """All that an exported function does on a device, with identifiers that C++ allows.

    Each of `copies` is an output and what it is a copy of. The workspace has `bytes`.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    workspace: tuple[Workspace, ...]
    data: tuple[Data, ...]
    starts: tuple[Start, ...]
    copies: tuple[tuple[Buffer, Buffer], ...]
    bytes: int


def device_bytes(buffer: Buffer) -> int:
    """Return the bytes of a buffer on a device, where bf16 has two."""
    return buffer.elements * element_size(buffer.dtype)


def device_data(buffer: Buffer, array: Array) -> Data:
    """Return an array as a device holds it: bf16 as whole numbers of 16 bits."""
    dtype = buffer.dtype
    if dtype == "bf16":
        dtype = "u16"
    return Data(Buffer(buffer.name, buffer.shape, dtype), to_device(array, buffer.dtype))


def launch_plan(
    function: str,
    inputs: Sequence[tuple[str, Tensor]],
    outputs: Sequence[tuple[str, str]],
    weights: Mapping[str, Array],
    programs: Programs,
    schedule: CudaSchedule,
) -> LaunchPlan:
    """Return the plan of a function of programs in order, as `codegen.export.call_plan` does.

    Its kernels are those that programs are compiled with here: what was tuned on the device of this
    machine, where there is one, else the cheapest by the model.

    Raises `CodegenError` for a program of one slice, which no device runs.
    """
    planner = _LaunchPlanner(file_names(function), weights, schedule)
    for name, tensor in inputs:
        planner.add_input(name, tensor)
    for number, (_, name) in enumerate(outputs):
        planner.names(f"output {number}", name)  # before results of the same name
    for number, (program, kernels, slices) in enumerate(programs):
        if slices is not None:
            raise CodegenError(
                "a program that runs sample by sample is for the CPU alone\n"
                "  optimize it with target='cuda'"
            )
        planner.add_program(number, program, kernels)
    return planner.plan(outputs)


class _LaunchPlanner:
    def __init__(self, names: Names, weights: Mapping[str, Array], schedule: CudaSchedule):
        self.names, self.weights, self.schedule = names, weights, schedule
        self.device = tuned_device(find_driver)
        self.inputs: list[Buffer] = []
        self.data: dict[Buffer, Data] = {}
        self.values: dict[str, Buffer] = {}  # by the names of the network
        self.starts: list[Start] = []

    def add_input(self, name: str, tensor: Tensor) -> None:
        buffer = Buffer(self.names("input", name), tensor.shape, tensor.dtype)
        self.inputs.append(buffer)
        self.values[tensor.name] = buffer

    def add_program(self, number: int, program: Program, kernels: Sequence[Kernel]) -> None:
        """Add the kernels of a program, but for what depends on its weights alone."""
        scopes = dict(program.statements)
        memory: dict[str, Buffer] = {}
        for name in program.inputs:
            if name not in self.weights:
                memory[name] = self.values[name]
        known = self._known(program)
        for unit in device_units(program, with_filled_gaps(program, kernels), self.schedule):
            name = unit.name
            if name in known:
                continue
            tensor = statement_tensor(name, scopes[name])
            memory[name] = Buffer(self.names(f"program {number}", name), tensor.shape, tensor.dtype)
            for function in best_kernels(unit, self.device).build():
                if function.body:
                    self._start(number, function, memory, known)
        for name in program.outputs:
            self.values[name] = memory[name]

    def _known(self, program: Program) -> dict[str, Array]:
        """Return constants, weights, and the results of what depends on these alone."""
        weights = {name: self.weights[name] for name in program.inputs if name in self.weights}
        known = {**loaded(program.constants, {}), **weights}
        done = compile_time_statements(program, lambda tensor: tensor.name in weights)
        statements = [(name, scope) for name, scope in program.statements if name in done]
        if statements:
            names = tuple(name for name, _ in statements)
            computed = execute_program(in_double(Program(statements, names)), known)
            for name, scope in statements:
                known[name] = np.asarray(computed[name]).astype(numpy_dtype(scope.dtype))
        return known

    def _start(
        self,
        number: int,
        function: Function,
        memory: dict[str, Buffer],
        known: Mapping[str, Array],
    ) -> None:
        buffers: list[Buffer] = []
        for buf in (*function.inputs, function.output):
            if buf.name in known:
                buffers.append(self._data(number, buf.name, buf.dtype, known[buf.name]))
                continue
            if buf.name not in memory:  # of a sum that several blocks share
                memory[buf.name] = Buffer(
                    self.names(f"program {number}", buf.name), buf.shape, buf.dtype
                )
            buffers.append(memory[buf.name])
        self.starts.append(Start(function, tuple(buffers)))

    def _data(self, number: int, name: str, dtype: str, array: Array) -> Buffer:
        buffer = Buffer(self.names(f"data {number}", name), array.shape, dtype)
        self.data.setdefault(buffer, device_data(buffer, array))
        return buffer

    def plan(self, outputs: Sequence[tuple[str, str]]) -> LaunchPlan:
        copies: list[tuple[Buffer, Buffer]] = []
        renamed: dict[Buffer, Buffer] = {}
        parameters: list[Buffer] = []
        for number, (value, name) in enumerate(outputs):
            source = self.values.get(value)
            if source is None:
                array = self.weights[value]
                source = self._data(-1, value, dtype_name(array.dtype), array)
            parameter = Buffer(self.names(f"output {number}", name), source.shape, source.dtype)
            parameters.append(parameter)
            if source in renamed or source in self.inputs or source in self.data:
                copies.append((parameter, renamed.get(source, source)))
            else:
                renamed[source] = parameter
        starts: list[Start] = []
        for start in self.starts:
            buffers = tuple(renamed.get(buffer, buffer) for buffer in start.buffers)
            starts.append(Start(start.kernel, buffers))
        fixed = {*self.inputs, *parameters, *self.data}
        workspace, size = _placed(starts, fixed)
        return LaunchPlan(
            tuple(self.inputs),
            tuple(parameters),
            workspace,
            tuple(self.data.values()),
            tuple(starts),
            tuple(copies),
            size,
        )


def _placed(starts: Sequence[Start], fixed: set[Buffer]) -> tuple[tuple[Workspace, ...], int]:
    """Return where what is between kernels lies in the workspace, and the bytes of that."""
    lives: dict[Buffer, Lifetime] = {}
    for position, start in enumerate(starts):
        for buffer in start.buffers:
            if buffer not in fixed:
                first = lives[buffer].first if buffer in lives else position
                lives[buffer] = Lifetime(first, position, device_bytes(buffer))
    offsets, size = place_values(lives)
    workspace = tuple(Workspace(buffer, offsets[buffer]) for buffer in lives)
    return workspace, -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
