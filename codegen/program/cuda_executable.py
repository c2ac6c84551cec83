"""Programs that run on a CUDA device.

Every statement is a generated kernel, and what is between them stays on the device.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from math import prod
from statistics import median
from typing import Any

from codegen.ir.nodes import Function
from codegen.libraries import names, torch_cuda, versions
from codegen.libraries.torch_cuda import DeviceCall
from codegen.program.device_units import best_kernels, device_units, tuned_device
from codegen.program.executable import GENERATED, NOTHING, Executable, FixedKernels, KernelCall
from codegen.runtime.array_arguments import loaded, sample, without_ignored
from codegen.runtime.protocol import Buffers
from codegen.targets.cuda.device.array import (
    DeviceArray,
    device_address,
    is_on_device,
    is_under_way,
)
from codegen.targets.cuda.device.driver import Driver, KernelStart, Memory
from codegen.targets.cuda.device.find import find_driver
from codegen.targets.cuda.device.graph_cache import GraphCache
from codegen.targets.cuda.device.memory_pool import acquire, allocate
from codegen.targets.cuda.device.nvcc import require_nvcc
from codegen.targets.cuda.device.timing import repeated_seconds
from codegen.targets.cuda.device_types import device_dtype, to_device
from codegen.targets.cuda.launch import VECTOR_BYTES
from codegen.targets.cuda.lowering.lower import planned_kernels, usual_plan
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT, CudaSchedule
from codegen.targets.cuda.text.geometry import launch
from codegen.targets.cuda.text.printer import cuda_source
from codegen.tuning.cuda_kernel_choice import chosen, fastest
from codegen.tuning.kernel_choice import POLICY, inputs_for, points
from einalg.boundary import public
from einalg.errors import CodegenError
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.options import checked, text, whole

LOG = logging.getLogger("einalg")
Allocate = Callable[[Driver, int], Memory]  # where the memory of some bytes comes from
Assemble = Callable[[str, int], bytes]  # CUDA text and compute capability -> machine code


def nvcc_image(text: str, sm: int) -> bytes:
    """Machine code, by nvcc."""
    return require_nvcc().compile(text, sm).image


def torch_ways(kernel: Kernel, scope: Scope, schedule: CudaSchedule) -> Mapping[str, DeviceCall]:
    """Return how torch runs a kernel on a device, where it takes part."""
    if "torch" not in names():
        return {}
    return torch_cuda.ways(kernel, scope, schedule.tf32)


@dataclass(frozen=True)
class DeviceParts:
    """The parts of a program for a device.

    The kernels of each statement, and what takes the place of PyCUDA, nvcc and torch.
    """

    groups: Sequence[Sequence[Function]]
    schedule: CudaSchedule = CUDA_DEFAULT
    driver: Callable[[], Driver] = lambda: find_driver()
    assemble: Assemble = lambda text, sm: nvcc_image(text, sm)
    libraries: Callable[[Kernel, Scope, CudaSchedule], Mapping[str, DeviceCall]] = torch_ways
    tensor: Callable[[DeviceArray, str], Any] = torch_cuda.on_device

    @cached_property
    def text(self) -> str:
        return cuda_source(list(chain.from_iterable(self.groups)), self.schedule.grid)

    def text_of(self, statements: Collection[str]) -> str:
        """Return the text of the kernels of some statements alone."""
        groups = [group for group in self.groups if group[-1].output.name in statements]
        return cuda_source(list(chain.from_iterable(groups)), self.schedule.grid)


def compile_cuda(
    program: Program,
    kernels: Sequence[Kernel],
    schedule: CudaSchedule = CUDA_DEFAULT,
    is_chosen: bool = True,
    **places: Any,
) -> CudaCompiled:
    """Return a flat program as CUDA, one kernel or two a statement.

    The kernels are the fastest that were measured on the device of this machine, else the cheapest
    by the model; unless they are chosen, those that the schedule says. The text is there at once;
    where nothing was tuned, a device is looked for at the first call. An operator that torch has
    runs through torch instead (cuBLAS, cuDNN) where that is measured to be faster. `places` are
    fields of `DeviceParts`: `driver` and `assemble` take the place of PyCUDA and nvcc.
    """
    parts = DeviceParts((), schedule, **places)
    device = None
    if is_chosen:
        device = tuned_device(parts.driver)
    groups: list[Sequence[Function]] = []
    sourced: list[Kernel] = []
    for kernel, unit in zip(kernels, device_units(program, kernels, schedule), strict=True):
        if is_chosen:
            group = best_kernels(unit, device).build()
        else:
            group = planned_kernels(unit.statement, usual_plan(unit.statement))
        groups.append(group)
        sourced.append(replace(kernel, source=cuda_source(list(group), schedule.grid)))
    return CudaCompiled(program, sourced, replace(parts, groups=groups))


class CudaCompiled(Executable):
    """A program that runs on a CUDA device: call it with its inputs by name, as `Executable`.

    Arrays that lie on the device already (torch, CuPy) are read where they are, and then the
    results stay there too, as `DeviceArray`; else they are NumPy arrays. Kernels that meet the same
    memory again start as one graph. Raises `DeviceError` where there is no device, no PyCUDA, or no
    memory.
    """

    def __init__(
        self,
        program: Program,
        kernels: Sequence[Kernel],
        parts: DeviceParts,
        bound: Buffers = NOTHING,
    ):
        self._parts, self._lock, self._device = parts, threading.Lock(), None
        self._own = threading.local()
        super().__init__(
            program,
            "cuda",
            [KernelCall(kernel.output, GENERATED, _nowhere) for kernel in kernels],
            FixedKernels(kernels, lambda: parts.text),
            bound,
        )

    def direct(self, names: Sequence[str]) -> OnDevice | None:
        """Return the program as a function of addresses on the device, in the order of these names.

        They are all that a call gives, and the outputs; None for others.
        """
        if {*names} - self.ignored.keys() != {*self.missing, *self.program.outputs}:
            return None
        return OnDevice(self, names)

    def run_at(self, addresses: Mapping[str, int]) -> None:
        """Start all kernels on memory of the device: of the inputs of a call and of the outputs."""
        device = self._started()
        memory: dict[str, Any] = {**device.kept, **self._between(device)}
        for name, address in addresses.items():
            memory[name] = _Borrowed(None, address)
        device.run_together([step.output for step in self._running], memory, self._graphs(device))

    @public
    def __call__(self, **arrays: Any) -> Any:
        device = self._started()
        memory, on_device = self._placed(device, without_ignored(arrays, self.ignored))
        device.run_together([step.output for step in self._running], memory, self._graphs(device))
        results: dict[str, Any] = {}
        for name in self.program.outputs:
            result = device.array(self.program, name, memory[name])
            if not on_device:
                result = result.get()
            results[name] = result
        if len(results) > 1:
            return results
        return results[self.program.outputs[0]]

    @property
    def workspace(self) -> int:
        """The bytes that a thread keeps on the device for what is between the kernels.

        Each result has memory of its own there.
        """
        total = 0
        for name in self._shapes:
            if name not in self.program.outputs:
                scope = self.program[name]
                total += prod(scope.shape) * device_dtype(scope.dtype).itemsize
        return total

    @checked(language=text("cuda", CodegenError))
    def source(self, language: str = "cuda") -> str:
        """The text of the generated kernels; `CodegenError` for a language other than `"cuda"`."""
        if language != "cuda":
            raise CodegenError(
                f"there is no source in {language!r} for the target 'cuda'\n  use source('cuda')"
            )
        return self._of.text()

    def source_of(self, statements: Collection[str]) -> str:
        """Return the text of the kernels that some statements are computed by."""
        return self._parts.text_of(statements)

    def repeated(self, **arrays: Any) -> Callable[[], float]:
        """Return a function that runs all kernels on these arrays, which are placed once.

        It returns the seconds that the device takes, by its own clock, for one run among several.
        """
        device, read = self._started(), without_ignored(arrays, self.ignored)
        memory, _ = self._placed(device, read or sample(self.missing))
        return device.timed([step.output for step in self._running], memory)

    @checked(repeats=whole(1))
    def time(self, repeats: int = 5, **arrays: Any) -> dict[str, float]:
        """Return the seconds that each kernel takes on the device, by its output.

        They are the median of `repeats` turns, each of which runs the kernel several times.
        """
        device, read = self._started(), without_ignored(arrays, self.ignored)
        memory, _ = self._placed(device, read or sample(self.missing))
        runs = {step.output: device.timed([step.output], memory) for step in self._running}
        spent: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repeats):
            for name, run in runs.items():
                spent[name].append(run())
        return {name: median(seconds) for name, seconds in spent.items()}

    def _with(self, bound: Buffers, copied: frozenset[str]) -> CudaCompiled:
        return CudaCompiled(self.program, self.kernels, self._parts, bound)

    def identity(self) -> None:
        """None: a kernel that a library has, too, is run by the one that is faster then."""

    @property
    def copied(self) -> frozenset[str]:
        """All bound inputs: they are copied to the device."""
        return frozenset(self._bound.keys() & self.program.inputs.keys())

    def _computed(self, bound: Buffers) -> dict[str, Any]:
        """Return constants and the bound inputs.

        What depends on these alone is computed on the device, at the first call.
        """
        return {**loaded(self.program.constants, {}), **bound}

    def _graphs(self, device: _Device) -> GraphCache:
        """Those of this thread, whose memory between kernels is its own."""
        own = self._own.__dict__
        if "graphs" not in own:
            own["graphs"] = GraphCache(device.driver)
        return own["graphs"]

    def _started(self) -> _Device:
        with self._lock:
            if self._device is None:
                device = _Device(self._parts, self.program)
                for name, array in self._ready.items():
                    device.kept[name] = device.upload(array, self.program.tensors[name].dtype)
                for kernel in self.kernels:
                    device.choose(kernel)
                    if kernel.output in self._done:
                        device.allocate_result(kernel.output, device.kept)
                        device.allocate_parts(kernel.output, device.kept)
                        device.run(kernel.output, device.kept)
                self._device = device
            return self._device

    def _placed(self, device: _Device, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return where everything lies that the kernels of a call read and write.

        The second value says whether some of it was on the device before.
        """
        memory: dict[str, Any] = dict(device.kept)
        there: dict[str, Any] = {}
        here = dict(self.missing)
        uploads: dict[str, Any] = {}
        for name, value in arrays.items():
            if name in self.missing and is_on_device(value):
                there[name] = value
                del here[name]
            else:
                uploads[name] = value
        if any(map(is_under_way, there.values())):
            device.driver.wait()
        for name, value in there.items():
            memory[name] = _Borrowed(value, device_address(self.missing[name], value))
        for name, array in loaded(here, uploads).items():
            memory[name] = device.upload(array, here[name].dtype, acquire)
        for name in self.program.outputs:
            device.allocate_result(name, memory, acquire)
        return {**self._between(device), **memory}, bool(there)

    def _between(self, device: _Device) -> dict[str, Any]:
        """Return the memory that this thread keeps for what is between the kernels."""
        buffers = self._memory.__dict__
        for name in self._shapes:
            if name not in self.program.outputs and name not in buffers:
                device.allocate_result(name, buffers)
            device.allocate_parts(name, buffers)
        return buffers


class _Device:
    """The kernels of a program on a device, and the memory that they keep there."""

    def __init__(self, parts: DeviceParts, program: Program):
        self.parts, self.program, self.driver = parts, program, parts.driver()
        self.kept, self.ways = dict[str, Memory](), dict[str, tuple[str, DeviceCall]]()
        flat = [function for group in parts.groups for function in group]
        launches = [
            launch(function, position, parts.schedule.grid)
            for position, function in enumerate(flat)
        ]
        handles = self.driver.load(
            parts.assemble(parts.text, self.driver.sm), [how.name for how in launches]
        )
        started = iter(zip(launches, handles))
        self.kernels = {
            group[-1].output.name: [(function, *next(started)) for function in group]
            for group in parts.groups
        }

    def run(self, name: str, memory: Mapping[str, Memory]) -> None:
        """Run a statement, by a library where one is faster; where that fails, by its kernels from
        then on.
        """
        choice = self.ways.get(name)
        if choice is not None:
            try:
                return choice[1](self.tensors(memory))
            except Exception as error:  # a library may raise anything
                LOG.warning(
                    "einalg: %s failed for %s, generated code is used instead: %s",
                    choice[0],
                    name,
                    str(error),
                )  # no frames, which hold memory
                self.ways.pop(name, None)
        self.launch(name, memory)

    def run_together(
        self, names: Sequence[str], memory: Mapping[str, Memory], graphs: GraphCache
    ) -> None:
        """Run statements in order; kernels with no library between them are started together."""
        waiting: list[KernelStart] = []
        for name in names:
            if name in self.ways:
                graphs.start(waiting)
                waiting = []
                self.run(name, memory)
            else:
                waiting += self.starts(name, memory)
        graphs.start(waiting)

    def timed(self, names: Sequence[str], memory: Mapping[str, Memory]) -> Callable[[], float]:
        """Return a function that runs statements, and returns the seconds that the device takes.

        Their kernels start together, as they do in calls.
        """
        graphs = GraphCache(self.driver)
        return repeated_seconds(
            self.driver, lambda count: self.run_together([*names] * count, memory, graphs)
        )

    def launch(self, name: str, memory: Mapping[str, Memory]) -> None:
        """Start the kernels of a statement one by one."""
        for start in self.starts(name, memory):
            self.driver.launch(*start)

    def starts(self, name: str, memory: Mapping[str, Memory]) -> list[KernelStart]:
        """The kernels of a statement, with the addresses of what they read and write."""
        starts: list[KernelStart] = []
        for function, how, handle in self.kernels[name]:
            if function.body:
                buffers = (*function.inputs, function.output)
                starts.append((handle, how, [memory[buf.name].address for buf in buffers]))
        return starts

    def tensors(self, memory: Mapping[str, Memory]) -> Callable[[str], Any]:
        """The memory of a tensor of the program, for a library."""
        tensors = dict(self.program.tensors)
        for name, scope in self.program.statements:
            tensors[name] = statement_tensor(name, scope)

        def flat(name: str) -> Any:
            tensor = tensors[name]
            return self.parts.tensor(
                DeviceArray(self.driver, memory[name], (prod(tensor.shape),), tensor.dtype),
                tensor.dtype,
            )

        return flat

    def choose(self, kernel: Kernel) -> None:
        """Have a library run a statement, where it is measured to be faster than its kernels."""
        name, scope = kernel.output, self.program[kernel.output]
        if kernel.op == EOP or points(scope) < POLICY.min_library_points:
            return
        libraries = self.parts.libraries(kernel, scope, self.parts.schedule)
        if not libraries:
            return
        best = chosen(lambda: self.fastest(name, scope, libraries), str(kernel))
        if best is not None and best in libraries:
            self.ways[name] = (best, libraries[best])

    def fastest(self, name: str, scope: Scope, libraries: Mapping[str, DeviceCall]) -> str:
        memory: dict[str, Any] = {}
        for key, array in inputs_for(scope).items():
            memory[key] = self.upload(array, scope.tensors[key].dtype)
        self.allocate_result(name, memory)
        self.allocate_parts(name, memory)
        graphs = GraphCache(self.driver)

        def start_generated(count: int) -> None:
            graphs.start(self.starts(name, memory) * count)

        def start_library(call: DeviceCall, count: int) -> None:
            for _ in range(count):
                call(self.tensors(memory))

        starts = {GENERATED: start_generated}
        for library, call in libraries.items():
            starts[library] = partial(start_library, call)
        source = cuda_source(
            [function for function, _, _ in self.kernels[name]], self.parts.schedule.grid
        )
        keys = (source, str(self.parts.schedule.tf32), *versions())
        return fastest(
            self.driver,
            starts,
            lambda: self.array(self.program, name, memory[name]).get(),
            scope,
            *keys,
        )

    def allocate_parts(self, name: str, memory: dict[str, Any]) -> None:
        """Memory for what the kernels of a statement hand each other."""
        for function, _, _ in self.kernels[name][:-1]:
            if function.output.name not in memory:
                memory[function.output.name] = allocate(
                    self.driver,
                    prod(function.output.shape) * device_dtype(function.output.dtype).itemsize,
                )

    def upload(self, array: Any, dtype: str, take: Allocate = allocate) -> Memory:
        array = to_device(array, dtype)
        memory = take(self.driver, array.nbytes)
        if array.size:
            self.driver.upload(memory.address, array)
        return memory

    def allocate_result(self, name: str, memory: dict[str, Any], take: Allocate = allocate) -> None:
        scope = self.program[name]
        memory[name] = take(self.driver, prod(scope.shape) * device_dtype(scope.dtype).itemsize)

    def array(self, program: Program, name: str, memory: Memory) -> DeviceArray:
        return DeviceArray(self.driver, memory, program[name].shape, program[name].dtype)


class OnDevice:
    """A program as a function of addresses in the memory of its device, in the order of names."""

    device, alignment = "cuda", VECTOR_BYTES

    def __init__(self, program: CudaCompiled, names: Sequence[str]):
        self._program, self._names = program, tuple(names)

    def __call__(self, addresses: Sequence[int]) -> None:
        self._program.run_at(dict(zip(self._names, addresses, strict=True)))


class _Borrowed:
    """Memory of an array that somebody else owns, who must not free it while a kernel reads it."""

    def __init__(self, value: Any, address: int):
        self.value, self.address = value, address


def _nowhere(buffers: Buffers) -> None:
    raise CodegenError("a kernel of a device reads memory of that device only")
